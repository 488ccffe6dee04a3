"""The one thread that writes, what waits for it, and what it is asked to do."""
