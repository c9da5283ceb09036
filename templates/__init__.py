"""Markdown that ships with memu-fs."""
