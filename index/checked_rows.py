"""Rows in SQLite that carry a checksum: what was damaged on disk is noticed, never believed."""

from __future__ import annotations

import contextlib
import json
import operator
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

from memu_fs.index.base import IndexBusyError, IndexUnusableError, IndexWriteError

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNWRITABLE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


class Damaged(Exception):
    """What was read is not what was written."""


@contextlib.contextmanager
def said(path: Path, *, writing: bool) -> Iterator[None]:
    """Say in one sentence what SQLite reports."""
    try:
        yield
    except Damaged as error:
        raise IndexUnusableError(path.parent, str(error)) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _BUSY:
            raise IndexBusyError(path.parent) from error
        if writing and code in _UNWRITABLE:
            raise IndexWriteError(path.parent, str(error)) from error
        raise IndexUnusableError(path.parent, str(error)) from error


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """Open a database; ``mode`` is the query of an SQLite URI."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    database = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False)
    # A power cut may undo the last passes, never half of one: the files are the truth, so nothing is lost.
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("PRAGMA wal_autocheckpoint=250")  # pages: the log counts as size on disk too
    return database


def read(
    database: sqlite3.Connection, table: str, where: str = "", values: Sequence[str] = ()
) -> dict[str, tuple[str, int]]:
    """Give rows by key; none that differs from what was written."""
    rows = {}
    for key, body, total in database.execute(f"SELECT key, body, sum FROM {table} {where}", values):
        if total != sum_of(key, body):
            raise Damaged("its catalogue is damaged")
        rows[key] = (body, total)
    return rows


def write(database: sqlite3.Connection, table: str, key: str, body: str) -> int:
    """Put a row in the place of any other with that key; give its checksum."""
    total = sum_of(key, body)
    database.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", (key, body, total))
    return total


def sum_of(key: object, body: object) -> int:
    """Give the checksum of a row."""
    return zlib.crc32(f"{key}\0{body}".encode())


def summed(rows: Mapping[str, tuple[str, int]]) -> int:
    """Give one checksum of many rows; it can be kept up row by row, by exclusive or."""
    return reduce(operator.xor, (total for _, total in rows.values()), 0)


def body_of(value: object) -> str:
    """Give the text of a row's value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
