"""The memories for a task, packed for a prompt; and which memories name a piece of code."""
