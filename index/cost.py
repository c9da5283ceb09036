"""What text costs in a model's window, without knowing the model, and where text may be cut."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_TOKEN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[가-힣]+|[^\sA-Za-z0-9가-힣]")
_HANGUL = re.compile(r"[가-힣]")

# Word pieces of an English word by its length; longer words fall into pieces of two or three letters.
# All weights are multiples of 1/16, so that sums are exact in any order.
_WORD = (
    0.0,
    1.0,
    1.0,
    1.0625,
    1.0625,
    1.0625,
    1.1875,
    1.1875,
    1.25,
    1.5,
    1.5,
    1.5,
    1.5,
    1.625,
    2.0,
    3.0,
    4.0,
)
_RARE = 0.4375
_CAPITALS = 0.4375
_DIGITS = 0.5625
_SYLLABLE = 2.375

#: Where a span may be cut, from the best place to the worst: after each match.
SENTENCES = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+\s++|(?<![。！？｡])[。！？｡]++[」』”’）】]*+\s*+")
LINES = re.compile(r"\n\s*")
WORDS = re.compile(r"\s+")

_CLUSTER = 64
_STEP = 32


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a model's window needs for a text."""
    return math.ceil(cost(text))


def cost(text: str) -> float:
    """Give the estimate before rounding: the cost of two texts beside each other is the sum of both."""
    return sum(map(_weights.__getitem__, _TOKEN.findall(text)))


def _weigh(token: str) -> float:
    length = len(token)
    first, last = token[0], token[-1]
    if "a" <= last <= "z":
        return _WORD[length] if length < len(_WORD) else length * _RARE
    if "0" <= first <= "9":
        return max(1.0, length * _DIGITS)
    if "A" <= first <= "Z":
        return max(1.0, length * _CAPITALS)
    return length * _SYLLABLE if "가" <= first <= "힣" else 1.0


class _Weights(dict[str, float]):
    """The weights of tokens seen before, of which it keeps a bounded number."""

    def __missing__(self, token: str) -> float:
        weight = _weigh(token)
        if len(token) < 20 and len(self) < 50_000:
            self[token] = weight
        return weight


_weights = _Weights()


def shorten(text: str, limit: float) -> str:
    """Cut a text down to what it may cost, an ellipsis included; a text that fits stays as it is."""
    if cost(text) <= limit:
        return text
    spent, kept = 1.0, 0
    for token in _TOKEN.finditer(text):
        spent += _weights[token.group()]
        if spent > limit:
            break
        kept = token.end()
    return text[: kept or safe_cut(text, 0, int(limit / _SYLLABLE))] + "…"


def keep_last(parts: Iterable[str], limit: float) -> list[str]:
    """Keep as many of the last parts as may be had for a cost, each shortened to fit alone."""
    kept: list[str] = []
    for part in reversed([shorten(part, limit) for part in parts if part]):
        limit -= cost(part) + 1
        if limit < -1:
            break
        kept.insert(0, part)
    return kept


def split(text: str, span: Span, limit: float, cuts: tuple[re.Pattern[str], ...]) -> Iterator[tuple[Span, float]]:
    """Cut a span into units that cost at most ``limit``: at the best places given, else anywhere."""
    weight = cost(text[slice(*span)])
    if weight <= limit:
        yield span, weight
    elif not cuts:
        yield from _split_anywhere(text, span)
    else:
        start, end = span
        for match in cuts[0].finditer(text, start, end):
            if match.end() > start:
                yield from split(text, (start, match.end()), limit, cuts[1:])
                start = match.end()
        if start < end:
            yield from split(text, (start, end), limit, cuts[1:])


def _split_anywhere(text: str, span: Span) -> Iterator[tuple[Span, float]]:
    """Cut a span between characters. Costs are upper bounds: a word costs more than the sum of its pieces."""
    start, end = span
    while start < end:
        cut = safe_cut(text, start, min(start + _STEP, end))
        yield (start, cut), cut - start + _SYLLABLE * len(_HANGUL.findall(text, start, cut))
        start = cut


def safe_cut(text: str, start: int, cut: int) -> int:
    """Move a cut back so that it is in no character of several code points, unless that one is endless."""
    for place in range(cut, max(start, cut - _CLUSTER), -1):
        if place >= len(text) or not _sticks(text[place - 1], text[place]):
            return place
    return cut


def _sticks(before: str, after: str) -> bool:
    if after < "\u0300":
        return False
    joined = before == "\u200d" or after == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff"
    surrogates = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return joined or surrogates or unicodedata.category(after).startswith("M")


def gather(units: Iterable[tuple[Span, float]], limit: float) -> Iterator[tuple[Span, float]]:
    """Join neighbouring units as long as they cost at most ``limit`` together."""
    held: tuple[Span, float] | None = None
    for span, weight in units:
        if held is not None and held[1] + weight <= limit:
            held = ((held[0][0], span[1]), held[1] + weight)
            continue
        if held is not None:
            yield held
        held = (span, weight)
    if held is not None:
        yield held
