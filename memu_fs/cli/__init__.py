"""The command line; imported by nothing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command of this process and leave with its exit code."""
    from memu_fs.cli.app import run

    sys.exit(run(sys.argv[1:]))
