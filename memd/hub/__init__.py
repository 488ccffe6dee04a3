"""The hub: a front door of its own, by which other machines reach this memory over HTTP, each with a token."""
