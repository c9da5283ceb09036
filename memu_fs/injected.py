"""What each session was already given, so that the same segment is not put before the model turn after turn.

A segment's id covers its text: a segment whose text changed is another one, and counts as not given yet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from memu_fs.digests import digest_bytes
from memu_fs.files import leads_away, replace_file

#: How often a session is given the same segment.
DEFAULT_LIMIT = 1
#: Sessions that are remembered, segments of each, and for how long.
MAX_SESSIONS = 200
MAX_SEGMENTS = 2_000
MAX_AGE = 30 * 24 * 3600
_FOLDER = "sessions"


def fresh(private: Path, session: str, ids: Iterable[str], *, limit: int = DEFAULT_LIMIT) -> set[str]:
    """Give those of the segments that the session was given fewer than ``limit`` times."""
    counts = _read(_file(private, session))
    return {segment for segment in ids if counts.get(segment, 0) < limit}


def remember(private: Path, session: str, ids: Iterable[str]) -> None:
    """Count that the session was given the segments; do nothing where that cannot be written.

    Two turns of one session at the same moment may lose the count of one: a segment is then given once more.
    """
    given = list(dict.fromkeys(ids))
    if not given:
        return
    file = _file(private, session)
    if leads_away(file.parent):
        return
    counts = _read(file)
    for segment in given:
        counts[segment] = counts.pop(segment, 0) + 1
    latest = dict(list(counts.items())[-MAX_SEGMENTS:])
    with suppress(OSError):
        is_new = not file.exists()
        file.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(file, json.dumps(latest, separators=(",", ":")).encode(), mode=0o600)
        if is_new:
            _prune(file.parent)


def forget(private: Path, session: str) -> None:
    """Forget what a session was given: it started anew, or its context was compacted away."""
    file = _file(private, session)
    if not leads_away(file.parent):
        with suppress(OSError):
            file.unlink()


def _file(private: Path, session: str) -> Path:
    digest = digest_bytes(session.encode("utf-8", "surrogatepass"))
    return private / _FOLDER / f"{digest[:32]}.json"


def _read(file: Path) -> dict[str, int]:
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(values, dict) or not all(type(count) is int for count in values.values()):
        return {}
    return values


def _prune(folder: Path) -> None:
    """Drop sessions of long ago, and the oldest beyond the number that is kept."""
    ages: list[tuple[float, Path]] = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            ages.append((file.stat().st_mtime, file))
    ages.sort(reverse=True)
    oldest = time.time() - MAX_AGE
    for number, (changed, file) in enumerate(ages):
        if number >= MAX_SESSIONS or changed < oldest:
            file.unlink(missing_ok=True)
