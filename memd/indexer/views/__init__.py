"""Views without a search: one memory, lists, counts, days, the past."""
