"""The stores and the two paths through them: writing what changed, reading what was asked."""
