"""What is done to memories: files written, undone, restored, recovered after a kill and, when asked for, forgotten."""
