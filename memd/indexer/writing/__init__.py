"""What is done to memories and can be told, undone and, when asked for, forgotten."""
