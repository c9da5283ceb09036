"""An index in memory: the reference that every other index must answer like."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memu_fs.index import bm25
from memu_fs.index.base import FileState, Hit, Pass, Segment, Stamp, Vector, Where


class MemoryIndex:
    """Everything in dictionaries, every search by looking at every segment."""

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = stamp
        self._head = ""
        self._files: dict[str, FileState] = {}
        self._segments: dict[str, tuple[Segment, ...]] = {}
        self._vectors: dict[str, Vector] = {}

    @property
    def stamp(self) -> Stamp:
        """What it was built with."""
        return self._stamp

    @property
    def head(self) -> str:
        """The git commit that file times were read up to, or ""."""
        return self._head

    def files(self) -> dict[str, FileState]:
        """Every indexed file by path."""
        return dict(self._files)

    def scopes(self) -> list[str]:
        """Every scope that an indexed file has, sorted."""
        return sorted({state.scope for state in self._files.values()})

    def count(self) -> int:
        """How many segments are published."""
        return sum(len(segments) for segments in self._segments.values())

    def apply(self, changes: Pass) -> None:
        """Replace, drop and touch files; publish the whole pass at once."""
        vectors = checked_vectors(changes, self._stamp.dimension)
        for path in changes.drop | changes.put.keys():
            self._files.pop(path, None)
            for segment in self._segments.pop(path, ()):
                self._vectors.pop(segment.id, None)
        for state in changes.touch:
            if state.path in self._files:
                self._files[state.path] = replace(state, segments=len(self._segments[state.path]))
        for path, (state, segments) in changes.put.items():
            self._files[path] = replace(state, segments=len(segments))
            self._segments[path] = tuple(segments)
        self._vectors.update(vectors)
        self._head = self._head if changes.head is None else changes.head

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Give the best segments by cosine."""
        seen = [segment for segment in self._visible(where) if segment.id in self._vectors]
        if not seen:
            return []
        scores = cosines(np.stack([self._vectors[segment.id] for segment in seen]), vector)
        hits = [Hit(segment, score) for segment, score in zip(seen, scores, strict=True) if score is not None]
        return ordered(hits)[: max(limit, 0)]

    def matching(self, terms: Sequence[str], where: Where, limit: int) -> list[Hit]:
        """Give the best segments by BM25 over ``terms``."""
        query = bm25.distinct(terms)
        seen = list(self._visible(where))
        scores = bm25.scores(query, [segment.terms for segment in seen], self._corpus())
        hits = [Hit(segment, score) for segment, score in zip(seen, scores, strict=True) if score > 0]
        return ordered(hits)[: max(limit, 0)]

    def segments(self, path: str) -> list[Segment]:
        """Give the segments of one file, a skill's other files included."""
        return sorted(self._segments.get(path, ()), key=lambda s: (s.path, s.line_start, s.id))

    def maintain(self) -> bool:
        """Do nothing: nothing piles up."""
        return False

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def _visible(self, where: Where) -> Iterator[Segment]:
        return (s for segments in self._segments.values() for s in segments if is_visible(s, where))

    def _corpus(self) -> bm25.Corpus:
        every = [bm25.split(s.terms) for segments in self._segments.values() for s in segments]
        holding = Counter(word for words in every for word in set(words))
        return bm25.Corpus(len(every), sum(map(len, every)), holding)


def is_visible(segment: Segment, where: Where) -> bool:
    """Say whether a search may see a segment."""
    return (
        (where.scopes is None or segment.scope in where.scopes)
        and segment.track in where.tracks
        and (where.statuses is None or segment.status in where.statuses)
        and (where.today is None or segment.valid_from <= where.today)
        and (where.today is None or not segment.valid_until or segment.valid_until >= where.today)
    )


def cosines(vectors: NDArray[np.float32], vector: Vector) -> list[float | None]:
    """Give the cosine of each row and a vector to six decimals; ``None`` where one has no direction."""
    rows, one = vectors.astype(np.float64), vector.astype(np.float64)
    with np.errstate(all="ignore"):
        found = (rows @ one) / np.sqrt((rows * rows).sum(axis=1) * (one @ one))
    rounded = np.round(np.clip(found, -1.0, 1.0), 6) + 0.0  # no minus zero
    return [value if math.isfinite(value) else None for value in rounded.tolist()]


def ordered(hits: Sequence[Hit]) -> list[Hit]:
    """Order hits so that no two are equal: by score, then by where they are."""
    return sorted(
        hits,
        key=lambda h: (
            -h.score,
            h.segment.track,
            h.segment.name,
            h.segment.path,
            h.segment.line_start,
            h.segment.id,
        ),
    )


def checked_vectors(changes: Pass, dimension: int) -> dict[str, Vector]:
    """Give the vector of every segment put; refuse a pass that lacks one or has one of another size."""
    if not dimension:
        return {}
    vectors = {}
    for _, segments in changes.put.values():
        for segment in segments:
            vector = changes.vectors.get(segment.id)
            if vector is None or vector.shape != (dimension,):
                raise ValueError(f"segment {segment.id} has no vector of {dimension} numbers")
            vectors[segment.id] = np.asarray(vector, dtype=np.float32)
    return vectors
