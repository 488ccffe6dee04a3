"""Connecting agents: which there are, what goes into their files, and how it comes out again byte for byte."""
