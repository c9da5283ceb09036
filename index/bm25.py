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


def score(query: Sequence[str], words: Sequence[str], corpus: Corpus) -> float:
    """Score one segment's words for the distinct words of a query, rounded to six decimals."""
    length = 1 - B + B * len(words) * corpus.segments / corpus.words if corpus.words else 1.0
    total = 0.0
    for word in query:
        if count := words.count(word):
            total += _rarity(corpus.holding[word], corpus.segments) * count * (K1 + 1) / (count + K1 * length)
    return round(total, 6)


def _rarity(holding: int, segments: int) -> float:
    return math.log(1 + (segments - holding + 0.5) / (holding + 0.5))
