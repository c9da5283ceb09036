"""The index in LanceDB: the table ranks, the catalogue says which version of it is published.

A pass makes several versions of the table and then publishes the last, by one transaction of the catalogue.
Readers ask for the published version alone. A pass that ends in between leaves versions that nobody reads;
the next one starts from the published version again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memu_fs.errors import MemuError
from memu_fs.index import bm25, lance_pass, lance_table
from memu_fs.index.base import (
    SCHEMA,
    FileState,
    Hit,
    IndexUnusableError,
    IndexWriteError,
    Pass,
    Segment,
    Stamp,
    Vector,
    Where,
)
from memu_fs.index.catalog import Catalog, Changes, State
from memu_fs.index.lance_pass import Place
from memu_fs.index.lance_table import Rows
from memu_fs.index.memory import cosines, ordered

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Scores = Sequence[float | None]

CATALOG = "files.sqlite"

_TRIES = 4
_LEEWAY = 2e-6  # between a cosine of LanceDB and the same in double precision, both rounded
_SLACK = 0.99  # LanceDB scores each part of its index by what that part holds; we by what is published
_ENOUGH = 2_000  # rows that are looked at for that reason; ties are always looked at


class LanceIndex:
    """An index in a folder. Reading is safe from any thread; one writer at a time, under the writer lock."""

    def __init__(self, folder: Path, catalog: Catalog, database: Any) -> None:
        self._folder = folder
        self._catalog = catalog
        self._database = database
        self._stamp = catalog.state().stamp
        self._table: tuple[int, Any] | None = None
        self._files: tuple[State, dict[str, FileState]] | None = None

    @classmethod
    def create(cls, folder: Path, stamp: Stamp, uri: str | None = None) -> LanceIndex:
        """Make an empty index in an empty folder; ``uri`` puts the table elsewhere."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with lance_table.reported():
                database = lance_table.connect(uri or str(folder))
                version = lance_table.create(database, stamp.dimension).version
            parts = lance_table.parts(folder, {})
            settled = sum(part.size for part in parts.values())
            state = State(stamp, version, settled=settled)
            catalog = Catalog.create(folder / CATALOG, state)
            catalog.publish(state, Changes(parts=parts))
        except (lance_table.TableError, OSError) as error:
            raise IndexWriteError(folder, str(error)) from error
        return cls(folder, catalog, database)

    @classmethod
    def open(cls, folder: Path, uri: str | None = None, slicer: int | None = None) -> LanceIndex:
        """Open an index that exists, after checking that it is whole and of this make.

        ``slicer`` is the version its segments must have been cut by, if that matters to the caller.
        """
        catalog = Catalog.open(folder / CATALOG)
        try:
            index = cls(folder, catalog, None)
            index._check_make(slicer)
            if uri is None:
                index._check_parts()
            with lance_table.reported():
                index._database = lance_table.connect(uri or str(folder))
            index._read(lambda table, corpus: lance_table.check(table, index._stamp.dimension, corpus.segments))
        except (lance_table.TableError, OSError) as error:
            catalog.close()
            raise IndexUnusableError(folder, str(error)) from error
        except MemuError:
            catalog.close()
            raise
        return index

    @property
    def stamp(self) -> Stamp:
        """What it was built with."""
        return self._stamp

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    @property
    def state(self) -> State:
        """What is published now. Its ``turn`` is another after each pass and each maintenance."""
        return self._catalog.state()

    @property
    def head(self) -> str:
        """The git commit that file times were read up to, or ""."""
        return self._catalog.state().head

    def known(self) -> tuple[State, Mapping[str, FileState]]:
        """Give every file by path, and the state they belong to."""
        return self._known_files()

    def rows(self, state: State, paths: Sequence[str] | None = None) -> Iterator[Rows]:
        """Give what was published with a state, of some files or of all, batch by batch.

        Raises:
            TableError: when clean-up took that version away meanwhile.
        """
        return lance_table.batches(self._at(state.version), self._stamp.dimension, state.segments, paths)

    def files(self) -> dict[str, FileState]:
        """Every indexed file by path, as of the latest published pass."""
        return dict(self._known_files()[1])

    def scopes(self) -> list[str]:
        """Every scope that an indexed file has, sorted."""
        return sorted({state.scope for state in self._known_files()[1].values()})

    def count(self) -> int:
        """How many segments are published."""
        return self._catalog.state().segments

    def apply(self, changes: Pass) -> None:
        """Replace, drop and touch files; publish the whole pass at once."""
        known = self._known_files()
        written = lance_pass.write(self._place(), changes, known)
        if written is not None:
            self._files = written

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Give the best segments by cosine."""
        if not self._stamp.dimension or limit <= 0 or cosines(vector[None], vector) == [None]:
            return []
        if vector.shape != (self._stamp.dimension,):
            raise ValueError(f"the index has vectors of {self._stamp.dimension} numbers, not {vector.shape}")
        return self._read(lambda table, _: _nearest(table, vector, where, limit))

    def matching(self, terms: Sequence[str], where: Where, limit: int) -> list[Hit]:
        """Give the best segments by BM25 over ``terms``.

        LanceDB finds them. They are scored here, by what is published: its own scores count deleted rows and
        rows that are not indexed yet in other ways, until the next maintenance.
        """
        words = bm25.distinct(terms)
        if not words or limit <= 0:
            return []
        return self._read(lambda table, corpus: _matching(table, words, corpus, where, limit), words)

    def segments(self, path: str) -> list[Segment]:
        """Give the segments of one file, a skill's other files included."""

        def ask(table: Any, corpus: bm25.Corpus) -> list[Segment]:
            return lance_table.segments(lance_table.of_files(table, [path], lance_table.COLUMNS, corpus.segments))

        return sorted(self._read(ask), key=lambda s: (s.path, s.line_start, s.id))

    @property
    def is_due(self) -> bool:
        """Whether enough has piled up for maintenance to be worth its time."""
        return lance_pass.is_due(self.state)

    def maintain(self, keep: timedelta = lance_pass.KEEP) -> bool:
        """Compact and clean up if enough has piled up; say whether it did. For the writer, after a pass."""
        state, files = self._known_files()
        done = lance_pass.maintain(self._place(), state, keep)
        if done is not None:
            self._files = done, files
        return done is not None

    def close(self) -> None:
        """Let go of files and handles."""
        self._table = self._files = self._database = None
        self._catalog.close()

    def _place(self) -> Place:
        return Place(self._folder, self._catalog, self._database, self._stamp.dimension)

    def _known_files(self) -> tuple[State, dict[str, FileState]]:
        """Give every file and the state they belong to; read again only after a pass."""
        known, state = self._files, self._catalog.state()
        if known is None or known[0].turn != state.turn:
            self._files = known = self._catalog.files()
        return known

    def _read(self, ask: Callable[[Any, bm25.Corpus], T], words: Sequence[str] = ()) -> T:
        """Ask the published version; ask the next one if clean-up took it away meanwhile."""
        reason = ""
        for _ in range(_TRIES):
            state, corpus = self._catalog.corpus(words)
            try:
                return ask(self._at(state.version), corpus)
            except lance_table.TableError as error:
                reason, self._table = str(error), None
        raise IndexUnusableError(self._folder, reason)

    def _at(self, version: int) -> Any:
        """Give the table at a version. Each version has a handle of its own: threads share them."""
        held = self._table
        if held is None or held[0] != version:
            with lance_table.reported():
                held = version, self._database.open_table(lance_table.NAME, version=version)
            self._table = held
        return held[1]

    def _check_make(self, slicer: int | None) -> None:
        if self._stamp.schema != SCHEMA:
            raise IndexUnusableError(self._folder, "its format is of another version")
        if slicer is not None and self._stamp.slicer != slicer:
            raise IndexUnusableError(self._folder, "its segments were cut by another version")

    def _check_parts(self) -> None:
        """Compare every file of the table with what was written; LanceDB itself misses changed bytes."""
        for name, part in self._catalog.parts()[1].items():
            # Clean-up may have removed it; LanceDB reports those that it needs.
            with suppress(FileNotFoundError):
                if lance_table.read_part(self._folder / name) != part:
                    raise IndexUnusableError(self._folder, f"{name} is damaged")


def _nearest(table: Any, vector: Vector, where: Where, limit: int) -> list[Hit]:
    size = limit + 16
    while True:
        found = lance_table.nearest(table, vector, where, size)
        scores = cosines(lance_table.vectors(found, len(vector)), vector)
        if found.num_rows < size or 1 - found["_distance"][-1].as_py() + _LEEWAY < _cut(scores, limit):
            return _best(found, scores, limit)
        size *= 4


def _matching(table: Any, words: Sequence[str], corpus: bm25.Corpus, where: Where, limit: int) -> list[Hit]:
    size = 2 * limit + 100
    while True:
        found = lance_table.matching(table, words, where, size)
        texts = found["terms"].to_pylist()
        _check_words(texts, [word for word in words if not corpus.holding[word]])
        scores = [score or None for score in bm25.scores(words, texts, corpus)]
        if found.num_rows < size or _is_past(found["_score"].to_pylist(), scores, limit):
            return _best(found, scores, limit)
        size *= 4


def _check_words(texts: Sequence[str], lost: Sequence[str]) -> None:
    """Refuse to go on where a segment holds a word that no segment is said to hold."""
    if lost and any(not set(lost).isdisjoint(bm25.split(text)) for text in texts):
        raise lance_table.TableError("its catalogue has lost words")


def _is_past(theirs: Sequence[float], scores: Scores, limit: int) -> bool:
    """Say whether LanceDB's own score has dropped below that of our best: no tie is left out then."""
    cut = _cut(scores, limit)
    lowest = min(their for their, score in zip(theirs, scores, strict=True) if score and score >= cut)
    return theirs[-1] < lowest * (_SLACK if len(theirs) < _ENOUGH else 1 - _LEEWAY)


def _cut(scores: Scores, limit: int) -> float:
    """Give the score of the last of the best; below any other where there are not that many."""
    best = sorted((score for score in scores if score is not None), reverse=True)[:limit]
    return best[-1] if len(best) == limit else -math.inf


def _best(found: pa.Table, scores: Scores, limit: int) -> list[Hit]:
    """Give the best rows; only those that may be among them are made into segments."""
    cut = _cut(scores, limit)
    rows = [(row, score) for row, score in enumerate(scores) if score is not None and score >= cut]
    segments = lance_table.segments(found, [row for row, _ in rows])
    hits = [Hit(segment, score) for segment, (_, score) in zip(segments, rows, strict=True)]
    return ordered(hits)[:limit]
