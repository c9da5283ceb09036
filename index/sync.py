"""Bring the index level with the files: one pass, seen whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memu_fs import git
from memu_fs.errors import MemuError
from memu_fs.git import Times
from memu_fs.index.base import FileState, Index, Pass, Segment, Vector
from memu_fs.index.build import Built, build, embedding_text, text_digest
from memu_fs.index.bulk import embed_bulk
from memu_fs.index.embedder import Embedder, EmbedderSettings
from memu_fs.index.scan import Scan, scan
from memu_fs.index.vector_cache import VectorCache
from memu_fs.problems import Problem
from memu_fs.store import Store, UnreadableFileError
from memu_fs.walk import Entry

#: Vectors kept beyond those in use, so that a branch switch and back embeds nothing.
SPARE_VECTORS = 20_000
#: A pass that would drop more than half of an index of this many files stops: an unmounted disk looks just like it.
GUARDED_FILES = 20
_SAVE_EVERY = 256
#: More new paths than this are not asked about one by one.
_MANY_PATHS = 200
#: What a small machine embeds in a second, for passes that have to fit a time.
_BYTES_A_SECOND = 15_000
_BYTES_A_FILE = 100

Progress = Callable[[int, int], None]


class MassRemovalError(MemuError):
    """Most of the indexed files are gone."""

    def __init__(self, removed: int, total: int) -> None:
        super().__init__(
            f"{removed} of {total} indexed files are gone from the store, so nothing was changed. "
            f"If that is right, run: memu-fs index --force"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass did."""

    files: int
    added: int
    edited: int
    removed: int
    segments: int
    embedded: int
    behind: tuple[str, ...]  #: recall files that the index is still not level with
    problems: tuple[Problem, ...]

    @property
    def changed(self) -> int:
        """How many files were added, edited or removed."""
        return self.added + self.edited + self.removed

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs index --json``."""
        numbers = {
            name: getattr(self, name) for name in ("files", "added", "edited", "removed", "segments", "embedded")
        }
        return numbers | {
            "stale": len(self.behind),
            "problems": [problem.as_json() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class Embedding:
    """How texts become vectors in a pass; without an embedder the segments are found by keywords alone."""

    settings: EmbedderSettings
    embedder: Embedder
    cache: VectorCache


def bring_level(
    store: Store,
    index: Index,
    embedding: Embedding,
    *,
    seconds: float | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Index what changed. With ``seconds``, only what should fit that time; the rest is counted in ``stale``.

    Raises:
        MassRemovalError: when more than half of twenty or more indexed files are gone and ``force`` is not given.
        EmbedderError: when texts cannot be embedded; nothing is published then.
    """
    states = index.files()
    found = scan(store, states, time.time_ns())
    if len(found.removed) * 2 > len(states) >= GUARDED_FILES and not force:
        raise MassRemovalError(len(found.removed), len(states))
    times, head = _read_times(store, index, states, found)
    chosen = found.changed if seconds is None else _fitting(found.changed, seconds)
    built, problems = _build_all(store, chosen, times)
    vectors, embedded = _vectors([segment for item in built for segment in item.segments], embedding, progress)
    put = {item.state.path: (item.state, item.segments) for item in built}
    touched = _touched(found, states, times, put)
    if len(put) < len(found.changed) or found.problems:
        head = index.head  # the times of what was left out are read again later
    if put or found.removed or touched or head != index.head:
        index.apply(Pass(put, vectors, frozenset(found.removed), touched, head))
    if not states and seconds is None:
        _forget_vectors(embedding, put)
    return Report(
        files=len(found.walk.entries),
        added=sum(entry.path in put for entry in found.added),
        edited=sum(entry.path in put for entry in found.edited),
        removed=len(found.removed),
        segments=index.count(),
        embedded=embedded,
        behind=tuple(entry.path for entry in found.changed if entry.path not in put),
        problems=tuple(sorted({*found.walk.problems, *found.problems, *problems})),
    )


def _forget_vectors(embedding: Embedding, put: Mapping[str, tuple[FileState, Sequence[Segment]]]) -> None:
    """Bound the cache by a pass that saw every file: what is in use stays, and some more for branches that return."""
    used = {text_digest(embedding_text(segment)) for _, segments in put.values() for segment in segments}
    embedding.cache.trim(embedding.embedder.space, used, SPARE_VECTORS)


def _read_times(
    store: Store, index: Index, states: Mapping[str, FileState], found: Scan
) -> tuple[dict[str, Times], str]:
    """Read git's times: all of them at first and when a file comes back, else only what is new since the last pass."""
    known = {
        path: Times(state.created_at, state.updated_at)
        for path, state in states.items()
        if state.created_at is not None and state.updated_at is not None
    }
    repository = git.repository(store.root)
    head = repository.head if repository else ""
    if not head:
        return {}, ""
    times = None
    if index.head and not _come_back(store, index.head, [entry.path for entry in found.added]):
        times = known if head == index.head else git.file_times(store.root, since=index.head, known=known)
    return (git.file_times(store.root) or {}) if times is None else times, head


def _come_back(store: Store, head: str, added: Sequence[str]) -> bool:
    """Say whether git knows one of the new files from before: then its times are older than what is known."""
    return len(added) > _MANY_PATHS or (bool(added) and git.has_seen(store.root, head, added))


def _build_all(store: Store, entries: Sequence[Entry], times: Mapping[str, Times]) -> tuple[list[Built], list[Problem]]:
    forgotten = store.tombstones()
    allow = store.marker.allowed_secrets
    built: list[Built] = []
    problems: list[Problem] = []
    for entry in entries:
        try:
            page = store.read(entry)
        except UnreadableFileError as error:
            problems.append(Problem(entry.path, 0, "unreadable", error.reason, "error"))
            continue
        is_forgotten = (entry.track, entry.name) in forgotten
        id_ = store.id_of(entry.track, entry.name)
        built.append(build(page, id_, allow=allow, forgotten=is_forgotten, times=times.get(entry.path)))
        problems += built[-1].problems
    return built, problems


def _vectors(
    segments: Sequence[Segment], embedding: Embedding, progress: Progress | None
) -> tuple[dict[str, Vector], int]:
    """Give a vector for every segment; texts that were embedded before are not embedded again."""
    space = embedding.embedder.space
    texts = {text_digest(text): text for text in map(embedding_text, segments)}
    vectors = embedding.cache.get(space, list(texts))
    missing = sorted(texts.keys() - vectors.keys())
    fresh: dict[str, Vector] = {}
    done = 0
    for places, rows in embed_bulk(embedding.settings, [texts[key] for key in missing], embedding.embedder):
        fresh |= {missing[place]: row for place, row in zip(places, rows, strict=True)}
        done += len(places)
        if len(fresh) >= _SAVE_EVERY or done == len(missing):
            embedding.cache.put(space, fresh)
            vectors |= fresh
            fresh = {}
        if progress:
            progress(done, len(missing))
    return {segment.id: vectors[text_digest(embedding_text(segment))] for segment in segments}, len(missing)


def _fitting(entries: Sequence[Entry], seconds: float) -> list[Entry]:
    """Choose the files that should fit a time, the smallest first; always at least one."""
    room = seconds * _BYTES_A_SECOND
    chosen: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (sum(file.size for file in entry.files), entry.path)):
        room -= sum(file.size for file in entry.files) + _BYTES_A_FILE
        if room < 0 and chosen:
            break
        chosen.append(entry)
    return chosen


def _touched(
    found: Scan, states: Mapping[str, FileState], times: Mapping[str, Times], put: Mapping[str, object]
) -> list[FileState]:
    """Give the states whose hints or git times are new while their segments stay."""
    fresh = {state.path: state for state in found.touched}
    for path, state in states.items():
        at = times.get(path)
        current = fresh.get(path, state)
        if (at.created_at if at else None, at.updated_at if at else None) != (state.created_at, state.updated_at):
            fresh[path] = replace(
                current, created_at=at.created_at if at else None, updated_at=at.updated_at if at else None
            )
    gone = {*found.removed, *put}
    return [state for path, state in sorted(fresh.items()) if path not in gone]
