"""One published pass as readers of an index in memory see it: nothing of it ever changes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memu_fs.index import bm25
from memu_fs.index.base import FileState, Hit, Segment, Vector, Where
from memu_fs.index.catalog import State
from memu_fs.index.held_rows import Rows
from memu_fs.index.held_words import Places
from memu_fs.index.memory import cosines, ordered

_STEP = 2e-6  # scores that round alike are nearer to each other
_FEW = 16  # one row in so many is looked at alone


class View:
    """What the held rows are as of one pass. Rows that came later or died before are not among its kinds."""

    def __init__(
        self, state: State, files: Mapping[str, FileState], owned: Mapping[str, list[int]], rows: Rows
    ) -> None:
        self.state = state
        self.files = files
        self.owned = owned  #: rows by path of the recall file
        self._rows = rows
        self._kinds = rows.kinds[: rows.size].copy()
        self._postings = rows.postings
        self._fresh = rows.postings.size
        self._products: tuple[bytes, NDArray[np.float32]] | None = None

    @property
    def is_whole(self) -> bool:
        """Say whether it holds as much as was published."""
        alive = self._kinds > 0
        words = int(self._rows.words[: len(alive)][alive].sum(dtype=np.int64))
        return (int(np.count_nonzero(alive)), words) == (self.state.segments, self.state.words)

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """Every scope that a file has, sorted."""
        return tuple(sorted({state.scope for state in self.files.values()}))

    def segments(self, path: str) -> list[Segment]:
        """Give the segments of one file in order of path and line."""
        found = map(self._rows.segment, self.owned.get(path, ()))
        return sorted(found, key=lambda s: (s.path, s.line_start, s.id))

    def nearest(self, vector: Vector, where: Where, limit: int) -> list[Hit]:
        """Give the best segments by cosine: single precision finds them, double precision scores them."""
        visible = self._rows.seen(where)[self._kinds] & (self._rows.scales[: len(self._kinds)] != 0)
        rows = np.flatnonzero(visible)
        with np.errstate(all="ignore"):
            near = self._rough(vector, rows)
        # Rounding errors of a product grow with its length. What has no rough score is looked at as well.
        leeway = _STEP + 2 * (len(vector) + 8) * float(np.finfo(np.float32).eps)
        rows = rows[~(near < _cut(near, limit) - leeway)]
        scores = np.array(cosines(self._rows.vectors(rows), vector), np.float64)  # none is NaN
        known = ~np.isnan(scores)
        return self._best(rows[known], scores[known], limit)

    def matching(self, words: Sequence[str], where: Where, limit: int) -> list[Hit]:
        """Give the best segments by BM25 over distinct words, with the statistics of all segments."""
        found = self._postings.find(words, self._fresh)
        alive, seen = self._kinds > 0, self._rows.seen(where)[self._kinds]
        holding = [int(np.count_nonzero(alive[rows])) for rows, _ in found]
        corpus = bm25.Corpus(self.state.segments, self.state.words, dict(zip(words, holding, strict=True)))
        norms = bm25.lengths(self._rows.words[: len(self._kinds)], corpus)
        total = np.zeros(len(self._kinds))
        for (rows, counts), rarity in zip(found, bm25.rarities(words, corpus), strict=True):
            visible = np.flatnonzero(seen[rows])
            rows = rows[visible]
            total[rows] += bm25.gains(counts[visible], norms[rows], rarity)
        held = np.flatnonzero(total)
        scores = bm25.rounded(total[held])
        return self._best(held[scores > 0], scores[scores > 0], limit)

    def _rough(self, vector: Vector, rows: Places) -> NDArray[np.float32]:
        """Give cosines of some rows in single precision. An answer asks for one vector several times."""
        key, held = vector.tobytes(), self._products
        long = vector.astype(np.float64)
        one = (long / np.sqrt(long @ long)).astype(np.float32)
        if held is None or held[0] != key:
            if len(rows) * _FEW < len(self._kinds):
                return self._rows.vectors(rows) @ one * self._rows.scales[rows]
            self._products = held = key, self._rows.products(one, len(self._kinds))
        return held[1][rows] * self._rows.scales[rows]

    def _best(self, rows: Places, scores: NDArray[np.float64], limit: int) -> list[Hit]:
        """Give the best of some rows; only those are made into segments."""
        cut = _cut(scores, limit)
        best, tied = np.flatnonzero(scores > cut).tolist(), np.flatnonzero(scores == cut)
        best += heapq.nsmallest(limit - len(best), tied.tolist(), key=lambda place: self._rows.place(int(rows[place])))
        found = zip(rows[best].tolist(), scores[best].tolist(), strict=True)
        return ordered([Hit(self._rows.segment(row), score) for row, score in found])


def _cut(scores: NDArray[np.floating], limit: int) -> float:
    """Give the score of the last of the best; below any other where there are not that many."""
    known = scores[~np.isnan(scores)]
    return float(np.partition(known, -limit)[-limit]) if len(known) > limit else -math.inf
