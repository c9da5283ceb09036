"""BM25 over analysed words. Both indexes score with this, so that a rank never depends on maintenance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.75

# What the ``whitespace`` tokenizer of LanceDB splits at; ``str.split`` splits at more.
_WORD = re.compile(r"[^ \t\n\r\f]+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 needs to know of all segments together."""

    segments: int
    words: int  #: in all segments
    holding: Mapping[str, int]  #: how many segments hold a word, for the words asked about


def split(terms: str) -> list[str]:
    """Give the words of a ``terms`` column."""
    return _WORD.findall(terms)


def distinct(terms: Iterable[str]) -> list[str]:
    """Give the words of a query, each once, in order."""
    return list(dict.fromkeys(word for term in terms for word in split(term)))


def scores(query: Sequence[str], texts: Sequence[str], corpus: Corpus) -> list[float]:
    """Score the ``terms`` of some segments for the distinct words of a query, each to six decimals."""
    found = [split(text) for text in texts]
    norms = lengths(np.array([len(words) for words in found]), corpus)
    total = np.zeros(len(found))
    for word, rarity in zip(query, rarities(query, corpus), strict=True):
        total += gains(np.array([words.count(word) for words in found]), norms, rarity)
    return [float(score) for score in rounded(total)]


def gains(counts: NDArray[Any], norms: NDArray[np.float64], rarity: float) -> NDArray[np.float64]:
    """Give what one word adds to the scores of some segments. Added up in the query's order, they are the score."""
    return rarity * counts * (K1 + 1) / (counts + K1 * norms)


def rounded(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give scores to six decimals."""
    return np.round(scores, 6)


def lengths(words: NDArray[Any], corpus: Corpus) -> NDArray[np.float64]:
    """Give how much the lengths of some segments count, by how many words they have."""
    usual = corpus.words / corpus.segments if corpus.words else 1.0
    return 1 - B + B * words / usual


def rarities(query: Sequence[str], corpus: Corpus) -> list[float]:
    """Give the weight of each word of a query: the fewer segments hold it, the more it counts."""
    return [_rarity(corpus.holding[word], corpus.segments) for word in query]


def _rarity(holding: int, segments: int) -> float:
    return math.log(1 + (segments - holding + 0.5) / (holding + 0.5))
