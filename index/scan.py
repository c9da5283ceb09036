"""Say which files the index is not level with. Times and sizes may spare a read; digests decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from memu_fs.changes import Added, Removed, diff
from memu_fs.digests import digest_bytes, digest_parts
from memu_fs.index.base import FileState
from memu_fs.names import conflict_original
from memu_fs.problems import Problem
from memu_fs.store import Store, UnreadableFileError
from memu_fs.trust import FORGOTTEN
from memu_fs.walk import Entry, Walk

#: Hints of a file that changed this shortly before it was read prove nothing: clocks and file systems are coarse.
DISTRUSTED_NS = 2_000_000_000


@dataclass(frozen=True)
class Scan:
    """What differs between the files and the index."""

    walk: Walk
    added: tuple[Entry, ...]
    edited: tuple[Entry, ...]
    removed: tuple[str, ...]
    touched: tuple[FileState, ...]  #: same bytes under new times
    problems: tuple[Problem, ...]  #: files that are there and cannot be read
    forgotten: frozenset[tuple[str, str]]  #: (track, name) of what has a tombstone

    @cached_property
    def by_name(self) -> dict[tuple[str, str], Entry]:
        """The recall files by (track, name)."""
        return {(entry.track, entry.name): entry for entry in self.walk.entries}

    @cached_property
    def conflicts(self) -> dict[tuple[str, str], list[str]]:
        """The paths of the conflict copies of a file, by its (track, name)."""
        found: dict[tuple[str, str], list[str]] = {}
        for entry in self.walk.entries:
            if original := conflict_original(entry.name):
                found.setdefault((entry.track, original), []).append(entry.path)
        return found

    @property
    def changed(self) -> tuple[Entry, ...]:
        """Everything that has to be cut anew."""
        return (*self.added, *self.edited)

    @property
    def behind(self) -> tuple[str, ...]:
        """The paths of the recall files that the index is not level with."""
        return (*(entry.path for entry in self.changed), *self.removed)

    @property
    def stale(self) -> int:
        """How many recall files the index is not level with."""
        return len(self.behind)


def scan(store: Store, indexed: Mapping[str, FileState], now_ns: int) -> Scan:
    """Compare the files of a store with what the index knows of them."""
    found = store.walk()
    forgotten = store.tombstones()
    digests: dict[str, str] = {}
    touched: list[FileState] = []
    problems: list[Problem] = []
    entries = {entry.path: entry for entry in found.entries}
    for path, entry in entries.items():
        state = indexed.get(path)
        is_same = state is not None and _identity(state) == _identity_on_disk(entry, forgotten)
        if state and is_same and _is_level(entry, state):
            digests[path] = state.digest
            continue
        try:
            digests[path] = _digest(store, entry)
        except UnreadableFileError as error:
            problems.append(Problem(path, 0, "unreadable", error.reason, "error"))
            continue
        if state and not is_same:
            digests[path] = ""
        elif state and digests[path] == state.digest:
            seen = replace(state, hints=entry.hints, read_at=now_ns)
            # Hints that are known and still prove nothing are not written down again.
            touched += [seen] if entry.hints != state.hints or _is_level(entry, seen) else []
    changes = list(diff(digests, {path: state.digest for path, state in indexed.items()}))
    added = tuple(entries[change.path] for change in changes if isinstance(change, Added))
    removed = tuple(change.path for change in changes if isinstance(change, Removed))
    edited = tuple(entries[change.path] for change in changes if not isinstance(change, Added | Removed))
    return Scan(found, added, edited, removed, tuple(touched), tuple(problems), forgotten)


def _identity(state: FileState) -> tuple[str, str, bool]:
    return state.track, state.name, state.status == FORGOTTEN


def _identity_on_disk(entry: Entry, forgotten: frozenset[tuple[str, str]]) -> tuple[str, str, bool]:
    return entry.track, entry.name, (entry.track, entry.name) in forgotten


def _is_level(entry: Entry, state: FileState) -> bool:
    if entry.hints != state.hints:
        return False
    youngest = max(max(file.mtime_ns, file.ctime_ns) for file in entry.files)
    return state.read_at - youngest > DISTRUSTED_NS


def _digest(store: Store, entry: Entry) -> str:
    main = digest_bytes(store.read_bytes(entry.path))
    others = []
    for file in entry.others:
        try:
            others.append((file.path, digest_bytes(store.read_bytes(file.path))))
        except UnreadableFileError:
            continue
    return digest_parts([(entry.path, main), *others]) if others else main
