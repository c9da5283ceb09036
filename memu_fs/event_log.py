"""A local log of counts and latencies, for its owner.

It holds no query, text, name or path, and a log that cannot be written never breaks a command.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memu_fs.files import leads_away

#: Beyond this size the log is put aside, and the one put aside before is dropped.
MAX_BYTES = 2_000_000
_FOLDER, _CURRENT, _OLDER, _LOCK = "log", "events.jsonl", "events.1.jsonl", "rotate.lock"

_LATEST = 100_000_000_000  # no calendar goes on after it

#: Why nothing was given, or why something failed.
REASONS = (
    "bad-input",
    "busy",
    "daemon-failed",
    "daemon-started",
    "disk-full",
    "embedder-failed",
    "empty-query",
    "git-failed",
    "index-unusable",
    "internal",
    "no-daemon",
    "no-store",
    "not-accepted",
    "nothing-found",
    "nothing-new",
    "refused",
    "secret",
    "timeout",
    "unreadable",
    "version-mismatch",
)


@dataclass(frozen=True, slots=True)
class Number:
    """A field that counts or measures; what lies outside 0 to ``most`` is brought inside."""

    most: float = 1_000_000_000

    def read(self, value: object) -> float | int | None:
        """Give the value as it is logged, or ``None`` when it is no number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return None
        bounded = min(max(value, 0), self.most)
        return bounded if isinstance(bounded, int) else round(bounded, 1)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A field with a closed set of values."""

    values: tuple[object, ...]

    def read(self, value: object) -> object:
        """Give the value, or ``None`` when it is not in the set."""
        return next((known for known in self.values if type(known) is type(value) and known == value), None)


Field = Number | OneOf

_COUNT = Number()
_MS = Number(3_600_000)
_REASON = OneOf(REASONS)
_FLAG = OneOf((True, False))

#: Everything that an event may say.
KINDS: Mapping[str, Mapping[str, Field]] = {
    "retrieval": {
        "ms": _MS,
        "mode": OneOf(("hybrid", "keyword", "vector")),
        "warmth": OneOf(("warm", "cold")),
        "via": OneOf(("cli", "hook", "http", "mcp")),
        "files": _COUNT,
        "segments": _COUNT,
        "resources": _COUNT,
        "stale": _COUNT,
        "reason": _REASON,
    },
    "hook": {
        "ms": _MS,
        "event": OneOf(("prompt", "session-start")),
        "silent": _FLAG,
        "segments": _COUNT,
        "tokens": _COUNT,
        "reason": _REASON,
    },
    "pass": {
        "ms": _MS,
        "files": _COUNT,
        "removed": _COUNT,
        "segments": _COUNT,
        "embedded": _COUNT,
        "problems": _COUNT,
        "rebuild": _FLAG,
    },
    "commit": {
        "ms": _MS,
        "files": _COUNT,
        "resources": _COUNT,
        "conflicts": _COUNT,
        "by": OneOf(("agent", "human")),
        "reason": _REASON,
    },
    "error": {
        "during": OneOf(("retrieval", "hook", "pass", "commit", "sync", "daemon", "other")),
        "reason": _REASON,
    },
}


class UnknownEventError(ValueError):
    """Code tried to log what the table of events does not allow: a mistake in the code, never a user's."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    kind: str
    at: float  #: seconds since 1970
    fields: Mapping[str, object]

    def number(self, name: str) -> float:
        """Give a numeric field; 0 when the event does not say."""
        value = self.fields.get(name, 0)
        return value if isinstance(value, int | float) else 0

    def word(self, name: str) -> str:
        """Give an enumerated field; "" when the event does not say."""
        value = self.fields.get(name, "")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class EventList:
    """The events of a log, oldest first, and how many lines could not be read."""

    events: tuple[Event, ...]
    damaged: int


def record(private: Path, kind: str, **fields: object) -> None:
    """Append one event to the log in a store's private folder; do nothing where that cannot be written.

    A field that is ``None`` is left out.

    Raises:
        UnknownEventError: for a kind, field or value that ``KINDS`` does not allow.
    """
    said = {name: _checked(kind, name, value) for name, value in fields.items() if value is not None}
    if kind not in KINDS:
        raise UnknownEventError(kind)
    line = json.dumps({"at": round(time.time(), 3), "kind": kind, **said}, separators=(",", ":")) + "\n"
    with suppress(OSError):
        _append(private / _FOLDER, line.encode())


def read_events(private: Path, since: float = 0) -> EventList:
    """Read the events since a moment (seconds since 1970); lines that are no event are skipped and counted."""
    found: list[Event] = []
    damaged = 0
    for line in _lines(private / _FOLDER):
        event = _parse(line)
        if event is None:
            damaged += 1
        elif event.at >= since:
            found.append(event)
    return EventList(tuple(sorted(found, key=lambda event: event.at)), damaged)


def _checked(kind: str, name: str, value: object) -> object:
    field = KINDS.get(kind, {}).get(name)
    read = field.read(value) if field else None
    if read is None:
        raise UnknownEventError(f"{kind}.{name} cannot be {value!r}; memu_fs.event_log.KINDS says what can be logged.")
    return read


def _append(folder: Path, line: bytes) -> None:
    if leads_away(folder):
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    file = os.open(folder / _CURRENT, flags, 0o600)
    try:
        os.write(file, line)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    if size > MAX_BYTES:
        _rotate(folder)


def _rotate(folder: Path) -> None:
    """Put the log aside. Of several processes that want to, one does; the others find a small log and leave it."""
    from filelock import FileLock, Timeout

    with suppress(Timeout), FileLock(folder / _LOCK, timeout=0, mode=0o600):
        if (folder / _CURRENT).stat().st_size > MAX_BYTES:
            (folder / _CURRENT).replace(folder / _OLDER)


def _lines(folder: Path) -> Iterator[bytes]:
    """Give the lines of both files, older first. A log that is put aside meanwhile is read once all the same."""
    files: dict[tuple[int, int], bytes] = {}
    for name in (_CURRENT, _OLDER):
        with suppress(OSError), (folder / name).open("rb") as file:
            status = os.fstat(file.fileno())
            files.setdefault((status.st_dev, status.st_ino), file.read())
    for data in reversed(files.values()):
        yield from (line for line in data.split(b"\n") if line.strip())


def _parse(line: bytes) -> Event | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    at, kind = values.pop("at", None), values.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _LATEST:
        return None
    fields = {name: KINDS[kind][name].read(value) for name, value in values.items() if name in KINDS[kind]}
    return None if None in fields.values() else Event(kind, at, fields)
