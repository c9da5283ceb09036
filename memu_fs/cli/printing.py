"""Print results: JSON for programs, text for people. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memu_fs.problems import Problem
from memu_fs.quoting import visible


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) + "\n")


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; the last column keeps its own width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        say("  ".join([*cells, row[-1]]).rstrip())


def say(line: str) -> None:
    """Print one line of a result for a person."""
    print(visible(line))


def note(text: str) -> None:
    """Say something that is no result."""
    print(visible(text), file=sys.stderr)


def complain(text: str) -> None:
    """Say why a command fails, if anybody can still be told."""
    with suppress(OSError):
        print(visible(text), file=sys.stderr, flush=True)


def print_problems(problems: Iterable[Problem]) -> None:
    """Say what is wrong with files, on stderr."""
    for problem in problems:
        note(str(problem))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; in a pipe nothing is shown."""
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def plural(number: int, one: str, many: str | None = None) -> str:
    """Give ``1 file`` or ``2 files``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _show_nothing(_done: int, _total: int) -> None:
    """Take the place of a bar where nobody looks."""
