"""The version, where every floor can read it without loading more."""

__version__ = "1.0.0"
