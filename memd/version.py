"""The version, where every floor can read it without loading more."""

__version__ = "0.1.0"
