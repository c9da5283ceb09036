"""The command line; imported by nothing."""
