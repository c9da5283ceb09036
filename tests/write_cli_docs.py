"""Write ``docs/cli.md`` from the ``--help`` of every command: ``python tests/write_cli_docs.py``."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import typer

from memu_fs.cli.app import app, run

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
TERMINAL = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}
HEAD = """\
# Command line

This page is what `memu-fs COMMAND --help` prints, made by `python tests/write_cli_docs.py`.

Results go to standard output, everything else to standard error. Exit status: 0 for success, 1 for a failure (one
sentence says what to do), 2 for wrong usage, 130 after an interrupt, 141 when the reader of the output has gone.
"""


def all_commands() -> Iterator[tuple[str, ...]]:
    """Give the path of every command and group, the root first."""
    yield from _below((), typer.main.get_command(app))


def cli_text() -> str:
    """Give the whole page."""
    return "\n".join([HEAD, *(_section(path) for path in all_commands())])


def _below(path: tuple[str, ...], command: object) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from _below((*path, name), inner)


def _section(path: tuple[str, ...]) -> str:
    out = io.StringIO()
    with patch.dict(os.environ, TERMINAL), contextlib.redirect_stdout(out):
        code = run([*path, "--help"])
    assert code == 0
    lines = "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n"))
    return f"## {' '.join(('memu-fs', *path))}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(cli_text(), "utf-8")
