"""``memu-fs eval``."""
