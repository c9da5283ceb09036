"""Writing to an index in LanceDB: one pass, and the maintenance after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from memu_fs.errors import MemuError
from memu_fs.index import bm25, lance_ivf, lance_table
from memu_fs.index.base import FileState, IndexUnusableError, IndexWriteError, Pass, Vector
from memu_fs.index.catalog import Catalog, Changes, Part, State
from memu_fs.index.memory import checked_vectors

KEEP = timedelta(minutes=1)  #: how long clean-up spares versions

_NONE = timedelta(milliseconds=1)  # the same when the index has grown too much: readers ask again
_NEVER = timedelta(days=36_500)
_ROUNDS = 5
_BATCH = 200  # paths in one deletion
_SOME_PASSES, _MANY_PASSES = 8, 50
_FRESH = 1000  # segments outside the index of words, which are searched one by one: 4 ms a thousand
_FREE_BYTES = 1 << 16  # that may pile up, however small the index


class IndexMaintenanceError(MemuError):
    """Compaction or clean-up failed; the index answers, but grows."""

    def __init__(self, where: object, reason: str) -> None:
        super().__init__(
            f"The index at {where} could not be compacted ({reason})."
            " It still answers, but it grows. Run: memu-fs index --rebuild"
        )
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is written."""

    folder: Path
    catalog: Catalog
    database: Any
    dimension: int


Known = tuple[State, dict[str, FileState]]


def write(place: Place, changes: Pass, known: Known) -> Known | None:
    """Write and publish a pass; give what is known then, or ``None`` if it changed nothing."""
    vectors = checked_vectors(changes, place.dimension)
    state, files = known
    gone = files.keys() & (changes.drop | changes.put.keys())
    written = _touched(changes, files, gone) | _put(changes)
    head = state.head if changes.head is None else changes.head
    new = [file for path, file in written.items() if files.get(path) != file]
    if not new and not gone and head == state.head:
        return None
    words: Counter[str] = Counter()
    parts: Mapping[str, Part] | None = None
    if any(files[path].segments for path in gone) or any(cut for _, cut in changes.put.values()):
        state, words, parts = _replace_rows(place, changes, vectors, known, gone)
    dropped = gone - written.keys()
    state = place.catalog.publish(replace(state, head=head), Changes(new, dropped, words, parts))
    after = files | written
    for path in dropped:
        del after[path]
    return state, after


def maintain(place: Place, state: State, keep: timedelta) -> State | None:
    """Compact, index and clean up if enough has piled up; give what is published then, ``None`` if nothing was done."""
    if not is_due(state):
        return None
    try:
        with lance_table.reported():
            state, table = _compacted(place, state)
            live = lance_table.bytes_in_use(table)
            for spared in (keep, min(keep, _NONE)):
                table.optimize(cleanup_older_than=spared, delete_unverified=True)
                state = _published(place, _settled(state, table.version, live))
                if not _is_much(state):
                    break
            place.catalog.shrink()
    except (lance_table.TableError, IndexWriteError) as error:
        raise IndexMaintenanceError(place.folder, getattr(error, "reason", str(error))) from error
    return state


def _settled(state: State, version: int, live: int) -> State:
    return replace(state, version=version, passes=0, fresh=0, settled=live)


def is_due(state: State) -> bool:
    """Say whether enough has piled up."""
    many = state.passes >= _MANY_PASSES + state.segments // 1000
    slow = state.fresh > _FRESH + state.segments // 50
    return many or slow or (_is_much(state) and state.passes >= _SOME_PASSES)


def _is_much(state: State) -> bool:
    return state.bytes > state.settled * 3 // 2 + _FREE_BYTES


def _compacted(place: Place, state: State) -> tuple[State, Any]:
    """Compact until nothing is left to do, and publish that.

    Clean-up comes after: it spares the newest version alone, so that must be the published one by then.
    """
    table = _level(place, state)
    for _ in range(_ROUNDS):
        before = table.version
        table.optimize(cleanup_older_than=_NEVER)
        if place.dimension:
            lance_ivf.level(table, lance_table.VECTOR, state.segments)
        state = _published(place, replace(state, version=table.version))
        if table.version == before:
            return state, table
    raise lance_table.TableError("compaction does not come to an end")


def _published(place: Place, state: State) -> State:
    parts = lance_table.parts(place.folder, place.catalog.parts()[1])
    return place.catalog.publish(state, Changes(parts=parts))


def _replace_rows(
    place: Place, changes: Pass, vectors: Mapping[str, Vector], known: Known, gone: Iterable[str]
) -> tuple[State, Counter[str], dict[str, Part]]:
    """Make a version of the table with the rows of a pass; give what it changes in the catalogue."""
    state, files = known
    paths = sorted(path for path in gone if files[path].segments)
    put = [segment.terms for _, segments in changes.put.values() for segment in segments]
    try:
        with lance_table.reported():
            table = _level(place, state)
            old = _old_terms(place, table, paths, sum(files[path].segments for path in paths))
            for start in range(0, len(paths), _BATCH):
                table.delete(lance_table.one_of(lance_table.OWNER, paths[start : start + _BATCH]))
            if put:
                table.add(lance_table.rows(changes, vectors, place.dimension))
            parts = lance_table.parts(place.folder, place.catalog.parts()[1])
    except lance_table.TableError as error:
        raise IndexWriteError(place.folder, str(error)) from error
    more = _holding(put)
    more.subtract(_holding(old))
    changed = replace(
        state,
        version=table.version,
        segments=state.segments + len(put) - len(old),
        words=state.words + _length(put) - _length(old),
        passes=state.passes + 1,
        fresh=state.fresh + len(put),
    )
    return changed, more, parts


def _level(place: Place, state: State) -> Any:
    """Open the table so that it holds what is published, and nothing that a broken-off pass left."""
    table = place.database.open_table(lance_table.NAME)
    if table.version != state.version:
        table.checkout(state.version)
        table.restore()
    return table


def _old_terms(place: Place, table: Any, paths: Sequence[str], expected: int) -> list[str]:
    found: list[str] = []
    for start in range(0, len(paths), _BATCH):
        rows = lance_table.of_files(table, paths[start : start + _BATCH], ["terms"], expected)
        found += rows["terms"].to_pylist()
    if len(found) != expected:
        raise IndexUnusableError(place.folder, f"{len(found)} segments where {expected} were written")
    return found


def _touched(changes: Pass, files: Mapping[str, FileState], gone: Set[str]) -> dict[str, FileState]:
    return {
        file.path: replace(file, segments=files[file.path].segments)
        for file in changes.touch
        if file.path in files and file.path not in gone
    }


def _put(changes: Pass) -> dict[str, FileState]:
    return {path: replace(file, segments=len(cut)) for path, (file, cut) in changes.put.items()}


def _holding(terms: Iterable[str]) -> Counter[str]:
    return Counter(word for text in terms for word in set(bm25.split(text)))


def _length(terms: Iterable[str]) -> int:
    return sum(len(bm25.split(text)) for text in terms)
