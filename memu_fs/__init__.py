"""Markdown memory for coding agents: the files are the truth, the index is a cache."""

__version__ = "0.1.0"
