"""Looks at what is there without asking it anything: one memory, lists, counts, days, the past."""
