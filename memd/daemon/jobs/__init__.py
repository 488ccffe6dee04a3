"""What runs by the clock, and what is done while nobody asks."""
