"""Processes that answer questions beside the writer."""
