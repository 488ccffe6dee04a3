"""Memories in transit: exported, imported again, and taken over from other tools."""
