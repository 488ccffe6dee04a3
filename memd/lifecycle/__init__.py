"""How memories live: rules, fading, links and what fits into a prompt. Pure: the time is always passed in."""
