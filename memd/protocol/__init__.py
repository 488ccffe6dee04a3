"""How memd speaks over its socket. Standard library only, and light on purpose: `memd query` loads it."""
