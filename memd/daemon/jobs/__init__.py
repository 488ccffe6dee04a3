"""Jobs that run by the clock, and work that is done while nobody asks."""
