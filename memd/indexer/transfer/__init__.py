"""Memories on their way: out as an export, in again, and from what other tools keep."""
