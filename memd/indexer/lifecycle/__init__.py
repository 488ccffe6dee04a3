"""How memories live: what was observed of them, how they age, and what links them."""
