"""Markdown notes: reading files safely and cutting them into memories and chunks."""
