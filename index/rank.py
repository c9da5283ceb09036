"""Fuse two rankings into one and fill the answer by file. Pure functions over hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memu_fs.index.base import Hit, Segment

#: How much the vector counts against the keywords.
VECTOR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """One segment with both raw scores and the fused one."""

    store: str  #: which store it comes from, when several are searched
    segment: Segment
    vector: float | None  #: cosine, ``None`` when it was not among the nearest
    keyword: float | None  #: BM25, ``None`` when it holds no word of the query
    score: float  #: in [0, 1]

    @property
    def file_key(self) -> tuple[str, str]:
        """What tells recall files apart."""
        return self.store, self.segment.file_id


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A recall file with its best segments; its score is the max of theirs."""

    score: float
    candidates: tuple[Candidate, ...]


def fuse(vector: Iterable[tuple[str, Hit]], keyword: Iterable[tuple[str, Hit]]) -> list[Candidate]:
    """Fuse the nearest and the matching segments of one or several stores, best first.

    Cosines are stretched to [0, 1] between the worst and the best candidate, BM25 scores between 0 and the
    best; the fused score is their weighted sum (relative score fusion). With one ranking alone, its own
    stretched score is the score.
    """
    near = {(store, hit.segment.id): (hit.segment, hit.score) for store, hit in vector}
    match = {(store, hit.segment.id): (hit.segment, hit.score) for store, hit in keyword}
    low = min((score for _, score in near.values()), default=0.0)
    high = max((score for _, score in near.values()), default=0.0)
    best = max((score for _, score in match.values()), default=0.0)
    weight = VECTOR_WEIGHT if near and match else 1.0 if near else 0.0
    fused = []
    for key in near.keys() | match.keys():
        cosine = near[key][1] if key in near else None
        words = match[key][1] if key in match else None
        v = (cosine - low) / (high - low) if cosine is not None and high > low else float(cosine is not None)
        k = words / best if words is not None and best > 0 else 0.0
        segment = near[key][0] if key in near else match[key][0]
        fused.append(Candidate(key[0], segment, cosine, words, round(weight * v + (1 - weight) * k, 6)))
    return sorted(fused, key=order)


def order(candidate: Candidate) -> tuple[object, ...]:
    """Give the total order of candidates: score, then track, name, line."""
    segment = candidate.segment
    place = (segment.track, segment.name, segment.path, segment.line_start, segment.id)
    return (-candidate.score, *place, candidate.store)


def by_file(candidates: Sequence[Candidate], per_file: int) -> list[RankedFile]:
    """Group candidates, best first, into files in the order of their best segment."""
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.file_key, []).append(candidate)
    return [RankedFile(group[0].score, tuple(group[:per_file])) for group in groups.values()]
