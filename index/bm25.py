"""BM25 over analysed words. Both indexes score with this, so that a rank never depends on maintenance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    rarity = {word: _rarity(corpus.holding[word], corpus.segments) for word in query}
    usual = corpus.words / corpus.segments if corpus.words else 1.0
    return [round(_score(rarity, split(text), usual), 6) for text in texts]


def _score(rarity: Mapping[str, float], words: Sequence[str], usual: float) -> float:
    length = 1 - B + B * len(words) / usual
    counts = ((weight, words.count(word)) for word, weight in rarity.items())
    return sum(weight * count * (K1 + 1) / (count + K1 * length) for weight, count in counts if count)


def _rarity(holding: int, segments: int) -> float:
    return math.log(1 + (segments - holding + 0.5) / (holding + 0.5))
