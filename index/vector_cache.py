"""Vectors of texts that were embedded before, so that the same text is never embedded twice."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from memu_fs.index.base import Vector

T = TypeVar("T")

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (
    space TEXT NOT NULL, key TEXT NOT NULL, vector BLOB NOT NULL, sum INTEGER NOT NULL, turn INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vectors_by_turn ON vectors (turn);
"""
_BATCH = 500
_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}


class VectorCache:
    """Vectors by embedding space and sha256 of the embedded text.

    It may be lost, damaged, locked or unwritable at any time: then texts are embedded again, nothing more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None

    def get(self, space: str, keys: Collection[str]) -> dict[str, Vector]:
        """Give the vectors that are known."""
        wanted = list(keys)
        return self._do(lambda database: _found(database, space, wanted), {})

    def put(self, space: str, vectors: Mapping[str, Vector]) -> None:
        """Remember vectors."""
        self._do(lambda database: _store(database, space, vectors), None)

    def trim(self, space: str, keep: set[str], spare: int) -> int:
        """Forget what is not in use, but for the newest ``spare``; say how many went.

        In use is what ``keep`` names in ``space``: vectors of other spaces count as spare.
        """
        return self._do(lambda database: _trimmed(database, space, keep, spare), 0)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._let_go()

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Do some work in one transaction; once more in a new file where this one is damaged."""
        with self._lock:
            for _ in range(2):
                try:
                    with self._open() as database:
                        return work(database)
                except (sqlite3.Error, OSError) as error:
                    if not _is_damage(error):
                        return otherwise
                    self._move_aside()
        return otherwise

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, timeout=10, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_TABLES)
            # A file of another make has the name and lacks a column.
            self._database.execute("SELECT space, key, vector, sum, turn FROM vectors LIMIT 0")
        return self._database

    def _move_aside(self) -> None:
        self._let_go()
        with contextlib.suppress(OSError):
            for suffix in ("-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            self._path.replace(f"{self._path}.damaged")

    def _let_go(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
        self._database = None


def _is_damage(error: Exception) -> bool:
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code not in _PASSING | {sqlite3.SQLITE_CANTOPEN}


def _found(database: sqlite3.Connection, space: str, wanted: list[str]) -> dict[str, Vector]:
    found: dict[str, Vector] = {}
    for start in range(0, len(wanted), _BATCH):
        some = wanted[start : start + _BATCH]
        marks = ",".join("?" * len(some))
        sql = f"SELECT key, vector, sum FROM vectors WHERE space = ? AND key IN ({marks})"
        for key, blob, total in database.execute(sql, (space, *some)):
            if total == _sum(space, key, blob):
                found[key] = np.frombuffer(blob, dtype="<f4").astype(np.float32)
    return found


def _store(database: sqlite3.Connection, space: str, vectors: Mapping[str, Vector]) -> None:
    (turn,) = database.execute("SELECT COALESCE(MAX(turn), 0) + 1 FROM vectors").fetchone()
    rows = []
    for key, vector in vectors.items():
        blob = np.asarray(vector, dtype="<f4").tobytes()
        rows.append((space, key, blob, _sum(space, key, blob), turn))
    database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", rows)


def _trimmed(database: sqlite3.Connection, space: str, keep: set[str], spare: int) -> int:
    rows = database.execute("SELECT space, key FROM vectors ORDER BY turn DESC, space, key")
    unused = [row for row in rows if row[0] != space or row[1] not in keep]
    database.executemany("DELETE FROM vectors WHERE space = ? AND key = ?", unused[max(spare, 0) :])
    return len(unused[max(spare, 0) :])


def _sum(space: str, key: str, blob: bytes) -> int:
    return zlib.crc32(f"{space}\0{key}\0".encode() + blob)
