"""An embedder without a model, for tests: words and letter trigrams, hashed into signed buckets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memu_fs.index.base import Vector
from memu_fs.index.embedder import clean, unit

_WORD = re.compile(r"\w+")
_WORD_WEIGHT, _TRIGRAM_WEIGHT = 2.0, 0.5


class HashingEmbedder:
    """Places texts that share words and parts of words near one another."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    @property
    def space(self) -> str:
        """Its name and dimension: nothing else shapes its vectors."""
        return f"hashing:words-trigrams-1:{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Give one row per text."""
        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            self._fill(row, text)
        return unit(rows, self.space)

    def embed_query(self, text: str) -> Vector:
        """Give the vector that the same text has as a document."""
        row: Vector = self.embed_documents([text])[0]
        return row

    def _fill(self, row: NDArray[np.float64], text: str) -> None:
        for word in _WORD.findall(clean(text).casefold()):
            for number, weight in _features(word):
                row[(number >> 1) % self.dimension] += weight if number & 1 else -weight
        if not row.any():
            row[0] = 1.0


@lru_cache(maxsize=65_536)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    edged = f"<{word}>"
    trigrams = (edged[start : start + 3] for start in range(len(edged) - 2))
    return (_number(f"word {word}"), _WORD_WEIGHT), *((_number(part), _TRIGRAM_WEIGHT) for part in trigrams)


def _number(feature: str) -> int:
    return int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
