"""The thread that makes vectors: what has none yet, where they are computed, which model."""
