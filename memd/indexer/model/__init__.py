"""The embedding model: texts in, unit vectors out, and what its cosines mean."""
