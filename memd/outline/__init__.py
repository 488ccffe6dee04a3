"""Code outline: the symbols of a workspace's sources and how they relate. It knows nothing of memories."""
