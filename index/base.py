"""What an index holds and promises. LanceDB and memory implement it; one contract suite holds both to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memu_fs.errors import MemuError

Vector = NDArray[np.float32]

SCHEMA = 1  #: version of what an index stores of a segment and of a file, and of how


@dataclass(frozen=True, slots=True)
class Segment:
    """One slice of a recall file, as it is ranked."""

    id: str  #: UUIDv5 of (file id, text, occurrence)
    file_id: str
    track: str
    name: str
    path: str  #: from the store's root, forward slashes; a skill's other files carry their own
    heading: str  #: heading path, joined by " > "
    prefix: str  #: title, headings, a table's head: embedded and searched, no part of ``text``
    text: str
    line_start: int  #: 1-based, inclusive, in the file on disk
    line_end: int
    status: str  #: of the file; also ``conflict`` and ``forgotten``
    valid_from: str  #: ISO date, or "" for no limit
    valid_until: str
    scope: str  #: "" for shared, ``projects/<project>`` or ``agents/<agent>``
    digest: str  #: of the file it was cut from
    terms: str  #: analysed words, separated by spaces: what keyword search sees


@dataclass(frozen=True, slots=True)
class FileState:
    """What the index knows of one recall file: enough to say whether it is level with the disk."""

    path: str
    digest: str  #: sha256 over the file and, for a skill's folder, its other Markdown files
    file_id: str
    track: str
    name: str
    scope: str
    status: str  #: of its segments
    hints: str  #: sizes, times and inodes when it was read; equal hints let a scan skip reading
    read_at: int  #: nanoseconds; hints younger than two seconds at that moment prove nothing
    segments: int  #: set by the index to the number it holds
    created_at: str | None  #: RFC 3339, UTC
    updated_at: str | None
    problems: tuple[str, ...] = ()  #: why parts of it are not indexed


@dataclass(frozen=True, slots=True)
class Where:
    """Which segments a search may see. Applied before ranking."""

    scopes: tuple[str, ...] | None  #: exact scope values; ``None`` means every scope
    tracks: tuple[str, ...]  #: none named, none seen
    statuses: tuple[str, ...] | None = None  #: ``None`` means every status
    today: str | None = None  #: ISO date that must lie inside the validity, both ends included; ``None`` means any time


@dataclass(frozen=True, slots=True)
class Hit:
    """A segment and its raw score, rounded to six decimals: cosine similarity in [-1, 1], or BM25 above 0."""

    segment: Segment
    score: float


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an index was built with. A different stamp means: rebuild."""

    schema: int  #: ``SCHEMA``, when it was built
    slicer: int
    space: str  #: embedding space; "" when the index holds no vectors
    dimension: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One batch of changes. Readers see all of it or nothing.

    A path that is both dropped and put is put; one that is not indexed cannot be touched, and is left out.
    """

    put: Mapping[str, tuple[FileState, Sequence[Segment]]] = field(default_factory=dict)
    vectors: Mapping[str, Vector] = field(default_factory=dict)  #: by segment id, for every segment put
    drop: frozenset[str] = frozenset()
    touch: Sequence[FileState] = ()  #: new hints or times; the segments stay
    head: str | None = None  #: git commit that file times were read up to


class IndexUnusableError(MemuError):
    """The index is missing, damaged, half-written or of another version."""

    def __init__(self, where: object, reason: str) -> None:
        super().__init__(f"The index at {where} cannot be used ({reason}). Run: memu-fs index --rebuild")
        self.reason = reason


class IndexWriteError(MemuError):
    """A pass could not be written; what was published before still holds."""

    def __init__(self, where: object, reason: str) -> None:
        super().__init__(
            f"The index at {where} could not be written ({reason}). It still holds what it held before:"
            " free some space or allow writing there, then run: memu-fs index"
        )
        self.reason = reason


class IndexBusyError(MemuError):
    """Another process is writing the index."""

    def __init__(self, where: object) -> None:
        super().__init__(f"Another process is writing the index at {where}. Wait for it, then try again.")


class Index(Protocol):
    """A sidecar that can be thrown away. It never holds the only copy of anything."""

    @property
    def stamp(self) -> Stamp:
        """What it was built with."""

    @property
    def head(self) -> str:
        """The git commit that file times were read up to, or ""."""

    def files(self) -> dict[str, FileState]:
        """Every indexed file by path, as of the latest published pass."""

    def scopes(self) -> list[str]:
        """Every scope that an indexed file has, sorted."""

    def count(self) -> int:
        """How many segments are published."""

    def apply(self, changes: Pass) -> None:
        """Replace, drop and touch files; publish the whole pass at once."""

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Give the best ``limit`` segments by cosine.

        The order is total (score, track, name, path, line, id), and ties at the cut are ordered before they
        are cut. A vector of no length is near nothing.
        """

    def matching(self, terms: Sequence[str], where: Where, limit: int) -> list[Hit]:
        """Give the best segments by BM25 over ``terms``, in the same order. No hit scores 0."""

    def segments(self, path: str) -> list[Segment]:
        """Give the segments of one file, a skill's other files included, in order of path and line."""

    def maintain(self) -> bool:
        """Compact and clean up if enough has piled up; say whether it did. For the writer, after a pass."""

    def close(self) -> None:
        """Let go of files and handles."""
