"""The rows that an index in memory holds: segments packed small, vectors in blocks, places used again."""

from __future__ import annotations

import marshal
import weakref
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from memu_fs.index import bm25
from memu_fs.index.base import Segment, Vector, Where
from memu_fs.index.held_words import Places, Postings
from memu_fs.index.memory import is_visible

_BLOCK = 8192  # vectors; an unused part of a block takes no memory
_ALONE = 8192  # numbers that BLAS multiplies on one thread; its own threads wait for each other too long
_FIRST = 1 << 10
_PLAIN = 1 << 14  # rows; what more there are is compressed, which costs 4 microseconds to read and saves a third
_WINDOW = -10  # for zlib: no header, and no more memory than a segment needs
_WHERES = 16  # of searches, remembered: the same ones come again
#: Lengths of vectors that single precision is sure of. Others are always looked at in double precision.
_SHORTEST, _LONGEST = 1e-12, 1e12


class Source(NamedTuple):
    """What the segments of a file have in common."""

    file_id: str
    track: str
    name: str
    path: str
    status: str
    valid_from: str
    valid_until: str
    scope: str
    digest: str


class Rows:
    """Segments by row. A row that died keeps what it held until no reader can look at it any more.

    Kind 0 is that of dead rows; every other stands for one combination of what a ``Where`` looks at.
    """

    def __init__(self, dimension: int) -> None:
        self.kinds = np.zeros(_FIRST, np.int32)
        self._samples: list[Segment] = []  # an empty segment of each kind, from kind 1
        self._seen: dict[Where, NDArray[np.bool_]] = {}
        self.words = np.zeros(_FIRST, np.int32)  #: how many words a row holds, repetitions included
        self.scales = np.zeros(_FIRST, np.float32)  #: 1 / length of its vector; 0 has no direction, NaN is not sure
        self.size = 0  #: rows ever used
        self.postings = Postings()
        self._dimension = dimension
        self._threads = ThreadPoolExecutor(2)
        self._blocks: list[NDArray[np.float32]] = []
        self._sources: list[Source] = []
        self._packed: list[bytes] = []
        self._kind_of: dict[tuple[str, ...], int] = {}
        self._free: list[int] = []
        self._died: list[int] = []
        self._waiting: deque[tuple[weakref.ref[Postings], list[int]]] = deque()

    def add(self, segments: Sequence[Segment], vectors: Sequence[Vector] | NDArray[np.float32]) -> list[int]:
        """Hold segments, with a vector each unless the dimension is 0; give their rows."""
        rows = self._places(len(segments))
        sources: dict[Source, Source] = {}
        words = [bm25.split(segment.terms) for segment in segments]
        for row, segment in zip(rows, segments, strict=True):
            source = _source(segment)
            self._sources[row] = sources.setdefault(source, source)
            self._packed[row] = _pack(segment, row)
            self.kinds[row] = self._kind(source)
        self.words[rows] = [len(every) for every in words]
        if self._dimension and rows:
            self._put_vectors(np.array(rows), np.asarray(vectors, np.float32))
        self.postings.add(rows, words)
        return rows

    def remove(self, rows: Iterable[int]) -> None:
        """Let rows die."""
        gone = list(rows)
        self.kinds[gone] = 0
        self._died += gone

    def tidy(self) -> None:
        """Make the postings anew if enough has been added or has died since.

        Rows that died meanwhile are used again once nobody holds the old postings, as readers do.
        """
        if self.postings.is_due or len(self._died) > _FIRST + self.size // 8:
            self.renew()

    def renew(self) -> None:
        """Make the postings anew."""
        old, self.postings = self.postings, self.postings.renewed(self.kinds > 0)
        self._waiting.append((weakref.ref(old), self._died))
        self._died = []

    def seen(self, where: Where) -> NDArray[np.bool_]:
        """Say of each kind whether a search may see it."""
        known = self._seen.get(where)
        if known is None or len(known) <= len(self._samples):
            known = np.array([False, *(is_visible(sample, where) for sample in self._samples)])
            self._seen = {where: known, **dict(list(self._seen.items())[:_WHERES])}
        return known

    def segment(self, row: int) -> Segment:
        """Give the segment in a row."""
        s = self._sources[row]
        id_, heading, prefix, text, terms, start, end = self._unpacked(row)
        return Segment(
            id_, s.file_id, s.track, s.name, s.path, heading, prefix, text, start, end,
            s.status, s.valid_from, s.valid_until, s.scope, s.digest, terms,
        )  # fmt: skip

    def place(self, row: int) -> tuple[Any, ...]:
        """Give what rows of equal score are ordered by."""
        source, (id_, *_, start, _end) = self._sources[row], self._unpacked(row)
        return source.track, source.name, source.path, start, id_

    def vectors(self, rows: Places) -> NDArray[np.float32]:
        """Give the vectors of some rows."""
        found = np.empty((len(rows), self._dimension), np.float32)
        for number in np.unique(rows // _BLOCK):
            inside = rows // _BLOCK == number
            found[inside] = self._blocks[number][rows[inside] % _BLOCK]
        return found

    def products(self, vector: Vector, size: int) -> NDArray[np.float32]:
        """Give the product of the vectors in the first rows with a vector."""
        few = 1 << max(_ALONE // self._dimension, 1).bit_length() - 1
        found = np.empty((-(-size // few), few), np.float32)
        starts = range(0, len(found), _BLOCK // few)

        def multiply(start: int) -> None:
            part = found[start : start + _BLOCK // few]
            block = self._blocks[start * few // _BLOCK].reshape(-1, few, self._dimension)
            with np.errstate(all="ignore"):
                np.matmul(block[: len(part)], vector, out=part)

        for _ in self._threads.map(multiply, starts) if len(starts) > 1 else map(multiply, starts):
            pass
        return found.reshape(-1)[:size]

    def _unpacked(self, row: int) -> tuple[Any, ...]:
        packed = self._packed[row]
        return cast("tuple[Any, ...]", marshal.loads(packed if row < _PLAIN else zlib.decompress(packed, _WINDOW)))

    def _places(self, count: int) -> list[int]:
        """Give rows to write to: free ones, then new ones."""
        while self._waiting and self._waiting[0][0]() is None:
            self._free += self._waiting.popleft()[1]
        split = max(len(self._free) - count, 0)
        self._free, reused = self._free[:split], self._free[split:]
        new = range(self.size, self.size + count - len(reused))
        self._reserve(new.stop)
        return [*reused, *new]

    def _reserve(self, size: int) -> None:
        """Grow; readers keep the arrays they have, whose rows do not change."""
        if size > len(self.kinds):
            capacity = max(size, len(self.kinds) * 3 // 2)
            for name in ("kinds", "words", "scales"):
                old = getattr(self, name)
                grown = np.zeros(capacity, old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
        while self._dimension and len(self._blocks) * _BLOCK < size:
            self._blocks.append(np.zeros((_BLOCK, self._dimension), np.float32))
        self._sources += [_NOWHERE] * (size - self.size)
        self._packed += [b""] * (size - self.size)
        self.size = size

    def _kind(self, source: Source) -> int:
        key = (source.track, source.scope, source.status, source.valid_from, source.valid_until)
        kind = self._kind_of.setdefault(key, len(self._kind_of) + 1)
        if kind > len(self._samples):
            self._samples.append(_sample(source))
        return kind

    def _put_vectors(self, rows: Places, vectors: NDArray[np.float32]) -> None:
        for number in np.unique(rows // _BLOCK):
            inside = rows // _BLOCK == number
            self._blocks[number][rows[inside] % _BLOCK] = vectors[inside]
        with np.errstate(all="ignore"):
            wide = vectors.astype(np.float64)
            lengths = np.sqrt((wide * wide).sum(axis=1))
            sure = (lengths > _SHORTEST) & (lengths < _LONGEST)
            scales = np.where(sure, 1 / lengths, np.where(lengths == 0, 0, np.nan))
        self.scales[rows] = scales


def _source(s: Segment) -> Source:
    return Source(s.file_id, s.track, s.name, s.path, s.status, s.valid_from, s.valid_until, s.scope, s.digest)


def _sample(s: Source) -> Segment:
    """Give a segment with no more than what a search asks of it before ranking."""
    return Segment(
        "", "", s.track, "", "", "", "", "", 0, 0, s.status, s.valid_from, s.valid_until, s.scope, "", "",
    )  # fmt: skip


def _pack(s: Segment, row: int) -> bytes:
    plain = marshal.dumps((s.id, s.heading, s.prefix, s.text, s.terms, s.line_start, s.line_end))
    if row < _PLAIN:
        return plain
    press = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 4)
    return press.compress(plain) + press.flush()


_NOWHERE = Source("", "", "", "", "", "", "", "", "")
