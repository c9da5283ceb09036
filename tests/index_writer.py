"""Writes to an index in a process of its own, so that it can be killed, starved of disk or locked out.

Run as ``index_writer.py COMMAND FOLDER [NUMBER]``; the tests load it too, for the passes it writes.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from memu_fs.errors import MemuError
from memu_fs.index.base import SCHEMA, FileState, Pass, Segment, Stamp, Vector, Where
from memu_fs.index.catalog import Changes
from memu_fs.index.lance import LanceIndex

DIMENSION = 8
STAMP = Stamp(schema=SCHEMA, slicer=3, space="hashing:8", dimension=DIMENSION)
EVERYTHING = Where(scopes=None, tracks=("memory",))
WORDS = ("owl", "cat", "night", "day", "計画", "wing", "nest", "egg")
NOBODY = 65534


def state(path: str, digest: str) -> FileState:
    """Make the state of a file."""
    return FileState(path, digest, path, "memory", path, "", "active", "hints", 1, 0, None, None)


def segment(path: str, line: int, terms: str, digest: str = "d") -> Segment:
    """Make a segment of a file."""
    return Segment(
        id=f"{path}#{line}",
        file_id=path,
        track="memory",
        name=path,
        path=path,
        heading="",
        prefix="",
        text=terms,
        line_start=line,
        line_end=line,
        status="active",
        valid_from="",
        valid_until="",
        scope="",
        digest=digest,
        terms=terms,
    )


def written(number: int, files: int = 12, changed: int = 3, longest: int = 5) -> Pass:
    """Make the pass of a number: some of the files are replaced, one is dropped."""
    chance = random.Random(number)
    digest = f"pass {number}"
    put: dict[str, tuple[FileState, list[Segment]]] = {}
    vectors: dict[str, Vector] = {}
    for path in (f"memory/{n}.md" for n in chance.sample(range(files), changed)):
        cut = [
            segment(path, line, " ".join(chance.choices(WORDS, k=chance.randrange(1, 9))), digest)
            for line in range(chance.randrange(longest))
        ]
        put[path] = (state(path, digest), cut)
        vectors |= {s.id: np.array([chance.gauss(0, 1) for _ in range(DIMENSION)], np.float32) for s in cut}
    return Pass(put, vectors, frozenset({f"memory/{chance.randrange(files)}.md"}), head=str(number))


def rotated(number: int) -> Pass:
    """Make a pass that writes one file anew, with the same three segments under another digest."""
    path = f"memory/{number % 3}.md"
    cut = [segment(path, line, "owl", f"pass {number}") for line in range(3)]
    vectors = {s.id: np.ones(DIMENSION, np.float32) for s in cut}
    return Pass({path: (state(path, f"pass {number}"), cut)}, vectors, head=str(number))


def maintained(index: LanceIndex, keep: timedelta = timedelta(milliseconds=1)) -> bool:
    """Do the maintenance that would be due after many passes."""
    due = replace(index._catalog.state(), passes=1_000_000)
    index._catalog.publish(due, Changes())
    return index.maintain(keep)


def write_on(index: LanceIndex, _: int) -> None:
    """Write passes until killed, and say so after each."""
    number = int(index.head or 0)
    while True:
        number += 1
        index.apply(written(number))
        print(number, flush=True)
        if number % 5 == 0:
            maintained(index)


def rotate(index: LanceIndex, passes: int) -> None:
    """Write some passes, cleaning up all the time."""
    for number in range(3, passes):
        index.apply(rotated(number))
        if number % 20 == 0:
            maintained(index)


def fill(index: LanceIndex, limit: int) -> None:
    """Write a pass where no file may grow over a limit, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    index.apply(written(99, files=3000, changed=3000))


def intrude(index: LanceIndex, _: int) -> None:
    """Read and then write as a user who may only read."""
    index.matching(
        ["owl"], EVERYTHING, 100
    )  # loads what LanceDB loads late: that user may not see this Python's folder
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    again = LanceIndex.open(index._folder)
    print(len(again.matching(["owl"], EVERYTHING, 100)), again.count(), flush=True)
    again.apply(written(99))


def main() -> int:
    """Do what the command line says."""
    commands = {command.__name__: command for command in (write_on, rotate, fill, intrude)}
    try:
        commands[sys.argv[1]](LanceIndex.open(Path(sys.argv[2])), int(sys.argv[3]))
    except MemuError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
