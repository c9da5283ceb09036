"""End-to-end tests: real clients of other programs."""
