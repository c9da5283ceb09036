"""The catalogue of an index: which version of the table is published, and what it holds.

One SQLite file. A pass is published by one transaction in it, so a reader sees all of a pass or nothing.
Every row carries a checksum, and the state sums them up: a damaged catalogue is noticed, never believed.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from memu_fs.index import checked_rows
from memu_fs.index.base import FileState, IndexBusyError, IndexUnusableError, Stamp
from memu_fs.index.bm25 import Corpus

_TABLES = tuple(
    f"CREATE TABLE {name} (key TEXT PRIMARY KEY, body TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID"
    for name in ("state", "files", "parts", "words")
)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the table, as it was written: such files never change."""

    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class State:
    """What is published."""

    stamp: Stamp
    version: int  #: of the table
    head: str = ""
    turn: int = 0  #: counts transactions
    segments: int = 0
    words: int = 0
    passes: int = 0  #: since the last maintenance
    fresh: int = 0  #: segments put since then
    settled: int = 0  #: bytes that the table needed then
    files_sum: int = 0
    parts_sum: int = 0
    bytes: int = 0  #: on disk, all parts


@dataclass(frozen=True, slots=True)
class Changes:
    """What one transaction changes beside the state."""

    put: Sequence[FileState] = ()
    drop: Iterable[str] = ()
    words: Mapping[str, int] = field(default_factory=dict)  #: how many more segments hold a word
    parts: Mapping[str, Part] | None = None  #: all of them; ``None`` leaves them


class Catalog:
    """An open catalogue. Any thread may use it."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path = path
        self._database = database
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: Path, state: State) -> Catalog:
        """Make a catalogue that holds no file."""
        with checked_rows.said(path, writing=True):
            database = checked_rows.connected(path, "mode=rwc")
            database.execute("PRAGMA journal_mode=WAL")
            catalog = cls(path, database)
            with catalog._transaction("BEGIN IMMEDIATE"):
                for statement in _TABLES:
                    database.execute(statement)
                checked_rows.write(database, "state", "state", checked_rows.body_of(asdict(state)))
        return catalog

    @classmethod
    def open(cls, path: Path) -> Catalog:
        """Open a catalogue that exists; where its folder cannot be written, for reading alone."""
        if not path.is_file():
            raise IndexUnusableError(path.parent, "it has no catalogue")
        with checked_rows.said(path, writing=False):
            try:
                return cls._opened(path, "mode=rw")
            except sqlite3.OperationalError:
                wal = Path(f"{path}-wal")
                if wal.exists() and wal.stat().st_size:
                    raise
                return cls._opened(path, "mode=ro&immutable=1")

    @classmethod
    def _opened(cls, path: Path, mode: str) -> Catalog:
        database = checked_rows.connected(path, mode)
        try:
            database.execute("SELECT * FROM state").fetchall()
        except sqlite3.Error:
            database.close()
            raise
        return cls(path, database)

    def state(self) -> State:
        """What is published now."""
        with checked_rows.said(self._path, writing=False), self._lock:
            return _state(self._database)

    def files(self) -> tuple[State, dict[str, FileState]]:
        """Give every file by path, and the state they belong to."""
        with self._reading() as database:
            state = _state(database)
            rows = checked_rows.read(database, "files")
            if checked_rows.summed(rows) != state.files_sum:
                raise checked_rows.Damaged("files are missing from its catalogue")
        return state, {path: _file_state(body) for path, (body, _) in rows.items()}

    def corpus(self, words: Sequence[str]) -> tuple[State, Corpus]:
        """Give what BM25 needs for some words, and the state it belongs to."""
        with self._reading() as database:
            state = _state(database)
            return state, Corpus(state.segments, state.words, _holding(database, words))

    def parts(self) -> tuple[State, dict[str, Part]]:
        """Give the files of the table, and the state they belong to."""
        with self._reading() as database:
            state = _state(database)
            rows = checked_rows.read(database, "parts")
            if checked_rows.summed(rows) != state.parts_sum:
                raise checked_rows.Damaged("parts are missing from its catalogue")
        return state, {name: Part(*json.loads(body)) for name, (body, _) in rows.items()}

    def publish(self, state: State, changes: Changes) -> State:
        """Publish a state that follows from the present one; give it as it was written."""
        with checked_rows.said(self._path, writing=True), self._transaction("BEGIN IMMEDIATE") as database:
            if _state(database).turn != state.turn:
                raise IndexBusyError(self._path.parent)
            state = replace(state, turn=state.turn + 1)
            state = replace(state, files_sum=state.files_sum ^ _change_files(database, changes))
            if changes.parts is not None:
                size = sum(part.size for part in changes.parts.values())
                state = replace(state, parts_sum=_replace_parts(database, changes.parts), bytes=size)
            _change_words(database, changes.words)
            checked_rows.write(database, "state", "state", checked_rows.body_of(asdict(state)))
        return state

    def shrink(self) -> None:
        """Fold the write-ahead log into the file, if no reader is in the way."""
        with checked_rows.said(self._path, writing=True), self._lock:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._database.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with checked_rows.said(self._path, writing=False), self._transaction("BEGIN") as database:
            yield database

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._database.execute(begin)
            try:
                yield self._database
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")


def _state(database: sqlite3.Connection) -> State:
    rows = checked_rows.read(database, "state")
    if "state" not in rows:
        raise checked_rows.Damaged("its catalogue holds no state")
    values = json.loads(rows["state"][0])
    try:
        return State(**{**values, "stamp": Stamp(**values["stamp"])})
    except TypeError as error:
        raise checked_rows.Damaged("its catalogue is of another version") from error


def _file_state(body: str) -> FileState:
    values = json.loads(body)
    return FileState(**{**values, "problems": tuple(values["problems"])})


def _holding(database: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
    holding = dict.fromkeys(words, 0)
    for start in range(0, len(words), _BATCH):
        some = words[start : start + _BATCH]
        where = f"WHERE key IN ({','.join('?' * len(some))})"
        for word, (body, _) in checked_rows.read(database, "words", where, some).items():
            holding[word] = int(body)
    return holding


def _change_files(database: sqlite3.Connection, changes: Changes) -> int:
    """Replace and drop files; give what changes in their sum."""
    change = 0
    new = {state.path: checked_rows.body_of(asdict(state)) for state in changes.put}
    for path in {*changes.drop, *new}:
        for body, total in checked_rows.read(database, "files", "WHERE key = ?", (path,)).values():
            change ^= total
            if body != new.get(path):
                database.execute("DELETE FROM files WHERE key = ?", (path,))
    for path, body in new.items():
        change ^= checked_rows.write(database, "files", path, body)
    return change


def _replace_parts(database: sqlite3.Connection, parts: Mapping[str, Part]) -> int:
    old = checked_rows.read(database, "parts")
    new = {name: checked_rows.body_of([part.size, part.crc]) for name, part in parts.items()}
    database.executemany("DELETE FROM parts WHERE key = ?", [(name,) for name in old.keys() - new.keys()])
    for name, body in new.items():
        if name not in old or old[name][0] != body:
            checked_rows.write(database, "parts", name, body)
    return checked_rows.summed({name: (body, checked_rows.sum_of(name, body)) for name, body in new.items()})


def _change_words(database: sqlite3.Connection, more: Mapping[str, int]) -> None:
    changed = [word for word, count in more.items() if count]
    rows = [(word, before + more[word]) for word, before in _holding(database, changed).items()]
    if any(count < 0 for _, count in rows):
        raise checked_rows.Damaged("its catalogue has lost count of words")
    database.executemany("DELETE FROM words WHERE key = ?", [(word,) for word, count in rows if not count])
    kept = [(word, str(count), checked_rows.sum_of(word, count)) for word, count in rows if count]
    database.executemany("INSERT OR REPLACE INTO words VALUES (?, ?, ?)", kept)
