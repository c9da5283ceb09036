"""Which held rows hold a word: postings in a few large arrays, and the newest ones beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Places = NDArray[np.integer[Any]]  #: row numbers

_FIRST = 1 << 12  # places for new postings
_MANY = 50_000  # postings that are looked through one by one


class Postings:
    """Rows and counts by word.

    What is added goes to the end and changes nothing before it: a reader that knows how much there was when
    its pass was published sees just that. Rows that died stay until the postings are made anew.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # of each word, in their order
        self._starts = np.zeros(1, np.int64)  # where the settled postings of each word begin, and the end
        self._settled = np.zeros((2, 0), np.int32)  # row, count
        self._fresh = np.zeros((3, _FIRST), np.int32)  # number of the word, row, count
        self._size = 0

    @property
    def size(self) -> int:
        """How many postings have been added since these were made."""
        return self._size

    @property
    def is_due(self) -> bool:
        """Say whether so many have been added that looking through them takes time."""
        return self._size > _MANY + self._settled.shape[1] // 16

    def add(self, rows: Sequence[int], words: Iterable[Sequence[str]]) -> None:
        """Add the words of some rows."""
        numbers = self._numbers
        found: list[int] = []
        for row, every in zip(rows, words, strict=True):
            for word, count in Counter(every).items():
                found += (numbers.setdefault(word, len(numbers)), row, count)
        new = np.array(found, np.int32).reshape(-1, 3).T
        end = self._size + new.shape[1]
        if end > self._fresh.shape[1]:
            self._fresh = _grown(self._fresh, end)
        self._fresh[:, self._size : end] = new
        self._size = end

    def find(self, words: Sequence[str], size: int) -> list[tuple[Numbers, Numbers]]:
        """Give the rows that hold each word, dead ones too, and how often; of the added ones the first ``size``."""
        numbers = [self._numbers.get(word, -1) for word in words]
        fresh = self._fresh[:, :size]
        fresh = fresh[:, np.isin(fresh[0], numbers)] if size else fresh
        return [self._of(number, fresh) for number in numbers]

    def _of(self, number: int, fresh: Numbers) -> tuple[Numbers, Numbers]:
        found = fresh[1:, fresh[0] == number]
        if 0 <= number < len(self._starts) - 1:
            settled = self._settled[:, self._starts[number] : self._starts[number + 1]]
            found = np.concatenate((settled, found), axis=1) if found.size else settled
        return found[0], found[1]

    def renewed(self, alive: NDArray[np.bool_]) -> Postings:
        """Give new postings that hold what these hold of living rows, all of it settled."""
        settled, old = self._living_settled(alive)
        fresh, more = self._living_fresh(alive)
        sizes = old + more
        starts = _starts(sizes)
        made = Postings()
        made._settled = np.empty((2, starts[-1]), np.int32)
        # Each stretch of a word moves as a whole: the settled ones first, then the fresh ones.
        made._settled[:, _moved(old, starts[:-1])] = settled
        made._settled[:, _moved(more, starts[:-1] + old)] = fresh
        made._numbers = {word: number for number, word in enumerate(compress(self._numbers, sizes > 0))}
        made._starts = _starts(sizes[sizes > 0])
        return made

    def _living_settled(self, alive: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.int64]]:
        """Give the settled postings of living rows, and how many each word has."""
        kept = alive[self._settled[0]]
        before = np.concatenate((np.zeros(1, np.int32), np.cumsum(kept, dtype=np.int32)))
        sizes = np.zeros(len(self._numbers), np.int64)
        sizes[: len(self._starts) - 1] = np.diff(before[self._starts])
        return self._settled[:, kept], sizes

    def _living_fresh(self, alive: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.int64]]:
        """Give the fresh postings of living rows in the order of their words, and how many each word has."""
        fresh = self._fresh[:, : self._size]
        fresh = fresh[:, alive[fresh[1]]]
        sizes = np.bincount(fresh[0], minlength=len(self._numbers))
        return fresh[1:, np.argsort(fresh[0], kind="stable")], sizes


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give where each of some stretches begins, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _moved(sizes: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give where stretches that follow each other go, when each is to begin at a start of its own."""
    places = np.repeat(starts - _starts(sizes)[:-1], sizes)
    places += np.arange(len(places))
    return places


def _grown(array: Numbers, least: int) -> Numbers:
    grown = np.zeros((len(array), max(least, array.shape[1] * 3 // 2)), np.int32)
    grown[:, : array.shape[1]] = array
    return grown
