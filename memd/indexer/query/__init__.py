"""The read path: from a question to hits, by word, by meaning and letter by letter."""
