"""What changed between the files and the index: a pure function over two listings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs."""

    path: str


class Added(Change):
    """On disk, not in the index."""

    __slots__ = ()


class Edited(Change):
    """In both, with different digests."""

    __slots__ = ()


class Removed(Change):
    """In the index, no longer on disk."""

    __slots__ = ()


def diff(files: Mapping[str, str], indexed: Mapping[str, str]) -> Iterator[Change]:
    """Say what changed, given path to digest on each side, in order of path. Touches nothing."""
    for path in sorted(files.keys() | indexed.keys()):
        if path not in indexed:
            yield Added(path)
        elif path not in files:
            yield Removed(path)
        elif files[path] != indexed[path]:
            yield Edited(path)
