"""An index in memory that follows one on disk: what a daemon answers from.

It holds everything that is published. Writing goes to the index on disk, and what is held follows. A reader
takes the newest view of it, which is swapped in whole after each pass; no reader waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from memu_fs.index import bm25, lance_pass
from memu_fs.index.base import FileState, Hit, IndexUnusableError, Pass, Segment, Stamp, Vector, Where
from memu_fs.index.catalog import State
from memu_fs.index.held_rows import Rows
from memu_fs.index.held_view import View
from memu_fs.index.lance import LanceIndex
from memu_fs.index.lance_table import TableError
from memu_fs.index.memory import checked_vectors, cosines
from memu_fs.index.upkeep import LARGE, maintain_apart

Files = Mapping[str, FileState]
Owned = dict[str, list[int]]  # rows by path of the recall file
Put = tuple[Sequence[str], Sequence[Segment], Any]  # owners, segments, vectors

_TRIES = 4
_MANY_PATHS = 500  # changed by others: beyond, all is read anew
_MANY_ADDED = 500_000  # postings, while all is read
_SMALL = 8192  # rows; with fewer, dead ones are in nobody's way


class HeldIndex:
    """An index held in memory. Reading is safe from any thread; one writer at a time, under the writer lock."""

    def __init__(self, inner: LanceIndex) -> None:
        """Load what ``inner`` publishes; from now on it is this index that reads it, writes it and closes it."""
        self._inner = inner
        self._stamp = inner.stamp
        self._lock = threading.RLock()
        self._view: View | None = None
        self._rows = Rows(self._stamp.dimension)
        self._level()

    @property
    def stamp(self) -> Stamp:
        """What it was built with."""
        return self._stamp

    @property
    def head(self) -> str:
        """The git commit that file times were read up to, or ""."""
        return self._level().state.head

    def files(self) -> dict[str, FileState]:
        """Every indexed file by path, as of the latest published pass."""
        return dict(self._level().files)

    def scopes(self) -> list[str]:
        """Every scope that an indexed file has, sorted."""
        return list(self._level().scopes)

    def count(self) -> int:
        """How many segments are published."""
        return self._level().state.segments

    def apply(self, changes: Pass) -> None:
        """Replace, drop and touch files; publish the whole pass at once."""
        vectors = checked_vectors(changes, self._stamp.dimension)
        with self._lock:
            turn = self._level().state.turn
            self._inner.apply(changes)
            state, files = self._inner.known()
            if state.turn == turn + 1:
                put = [
                    ([path] * len(cut), cut, [vectors[segment.id] for segment in cut] if vectors else [])
                    for path, (_, cut) in changes.put.items()
                ]
                self._replace(changes.drop | changes.put.keys(), put, state, files)
            self._level()

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Give the best segments by cosine."""
        if not self._stamp.dimension or limit <= 0 or cosines(vector[None], vector) == [None]:
            return []
        if vector.shape != (self._stamp.dimension,):
            raise ValueError(f"the index has vectors of {self._stamp.dimension} numbers, not {vector.shape}")
        return self._level().nearest(vector, where, limit)

    def matching(self, terms: Sequence[str], where: Where, limit: int) -> list[Hit]:
        """Give the best segments by BM25 over ``terms``."""
        words = bm25.distinct(terms)
        return self._level().matching(words, where, limit) if words and limit > 0 else []

    def segments(self, path: str) -> list[Segment]:
        """Give the segments of one file, a skill's other files included."""
        return self._level().segments(path)

    def maintain(self, keep: timedelta = lance_pass.KEEP) -> bool:
        """Compact and clean up if enough has piled up; say whether it did. For the writer, after a pass."""
        with self._lock:
            done = self._inner.is_due
            if done and self._inner.count() > LARGE:
                maintain_apart(self._inner.folder, keep)
            elif done:
                self._inner.maintain(keep)
            self._level()
        return done

    def close(self) -> None:
        """Let go of files and of what is held."""
        with self._lock:
            self._inner.close()
            self._view, self._rows = None, Rows(0)

    def _level(self) -> View:
        """Give the view of what is published now."""
        view = self._view
        if view is None or view.state.turn != self._inner.state.turn:
            del view  # whoever reads all anew should not hold all twice
            with self._lock:
                view = self._followed()
        return view

    def _followed(self) -> View:
        """Read what others published, again if clean-up takes it away meanwhile."""
        reason = ""
        for _ in range(_TRIES):
            state, files = self._inner.known()
            try:
                if self._view is None or self._view.state.turn != state.turn:
                    self._catch_up(state, files)
            except TableError as error:
                reason = str(error)
            if self._view is not None and self._view.state.turn == state.turn:
                return self._view
        raise IndexUnusableError(self._inner.folder, reason)

    def _catch_up(self, state: State, files: Files) -> None:
        """Read the files that changed, or everything if that is most of it."""
        changed = _changed(self._view.files, files) if self._view else []
        if self._view is None or len(changed) > _MANY_PATHS:
            self._load(state, files)
            return
        found = [(rows.owners, rows.segments, rows.vectors) for rows in self._inner.rows(state, changed)]
        gone = self._view.files.keys() - files.keys()
        self._replace(gone.union(changed), found, state, files)

    def _load(self, state: State, files: Files) -> None:
        """Read everything, a batch at a time; what was held before goes first."""
        self._view, self._rows = None, Rows(self._stamp.dimension)
        owned: Owned = {}
        for found in self._inner.rows(state):
            self._add(owned, found.owners, found.segments, found.vectors)
            if self._rows.postings.size > _MANY_ADDED:
                self._rows.renew()
        self._rows.renew()
        self._publish(View(state, files, owned, self._rows))
        if self._view is None:
            raise TableError(f"not the {state.segments} segments that were written")

    def _replace(self, gone: Iterable[str], put: Iterable[Put], state: State, files: Files) -> None:
        """Replace the rows of some files. Until that is published there is no view, should it break off."""
        assert self._view is not None
        owned: Owned = dict(self._view.owned)
        self._view = None
        for path in gone:
            self._rows.remove(owned.pop(path, ()))
        for owners, segments, vectors in put:
            self._add(owned, owners, segments, vectors)
        self._rows.tidy()
        self._publish(View(state, files, owned, self._rows))

    def _add(self, owned: Owned, owners: Sequence[str], *cut: Any) -> None:
        for owner, row in zip(owners, self._rows.add(*cut), strict=True):
            owned.setdefault(owner, []).append(row)

    def _publish(self, view: View) -> None:
        """Let readers have a view, unless it is not what was written or mostly of dead rows."""
        if view.is_whole and (self._rows.size < _SMALL or 2 * view.state.segments > self._rows.size):
            self._view = view


def _changed(old: Files, new: Files) -> list[str]:
    """Give the files whose segments are others than before."""
    if old is new:
        return []
    return [path for path, state in new.items() if path not in old or _cut_from(state) != _cut_from(old[path])]


def _cut_from(state: FileState) -> tuple[object, ...]:
    """Give what decides on the segments of a file; the rest is hints and times."""
    return state.digest, state.file_id, state.track, state.name, state.scope, state.status, state.segments
