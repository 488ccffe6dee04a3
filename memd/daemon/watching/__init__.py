"""Which files changed: notes for the writer, sources for the code outlines."""
