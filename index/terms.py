"""Turn text into the terms that keyword search matches: the same for documents and queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from py_rust_stemmers import SnowballStemmer

from memu_fs.index.letters import RUN, clusters, normalise

TERMS_VERSION = 1

#: Longest term; of a longer word its beginning and its parts are kept.
LONGEST = 120

_COMMON = """
a about am an and any are as at be been being but by can could did do does doing for from had has have having
he her hers him his how i if in into is it its itself me my no nor not of on or our ours she should so some
such than that the their theirs them then there these they this those to too us very was we were what when
where which who whom why will with would you your yours i'm i've i'll i'd you're you've you'll you'd he's
she's it's we're we've we'll they're they've they'll that's there's what's who's let's isn't aren't wasn't
weren't don't doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't
"""
_STOP_WORDS = frozenset(_COMMON.split())

_STEMMER = SnowballStemmer("english")
_STEPS = re.compile(r"[/\\:@]+")
_JOINTS = re.compile(r"(?:[-+#'&_]|(?<![0-9])\.|\.(?![0-9]))+")
_ATOM = re.compile(r"[0-9]++(?:\.[0-9]++)*+|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^0-9A-Za-z]+")
_SIGNED = re.compile(r"([A-Za-z]+)(\+\+|#)([0-9]*)")
_DIGEST = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,128}")
_PREFIXES = (7, 8, 12)
_PLAIN = re.compile(r"[A-Z]?[a-z]+")


def analyse(text: str) -> list[str]:
    """Give the terms of a text in its order, repetitions included. No term holds white space."""
    terms: list[str] = []
    for chunk in normalise(text).split():
        terms += _remembered(chunk) if len(chunk) <= LONGEST else _analyse_chunk(chunk)
    return terms


@lru_cache(maxsize=50_000)
def _remembered(chunk: str) -> tuple[str, ...]:
    return _analyse_chunk(chunk)


def _analyse_chunk(chunk: str) -> tuple[str, ...]:
    found: list[str] = []
    for run in RUN.finditer(chunk):
        kind, text = run.lastgroup, run.group()
        if kind == "word":
            found += _word_terms(text)
        elif kind == "emoji":
            found += _emoji_terms(text)
        else:
            found += _grams(clusters(text), alone=kind == "cjk")
    return tuple(term[:LONGEST] for term in found)


def _grams(letters: list[str], *, alone: bool) -> Iterator[str]:
    """Give the pairs of neighbouring letters, and the single ones where a letter can be a word."""
    for place, letter in enumerate(letters):
        if alone or len(letters) == 1:
            yield letter
        if place + 1 < len(letters):
            yield letter + letters[place + 1]


def _emoji_terms(text: str) -> Iterator[str]:
    whole = text.replace("\ufe0f", "")
    yield whole
    if whole[0] != whole and not "\U0001f1e6" <= whole[0] <= "\U0001f1ff":
        yield whole[0]


def _word_terms(word: str) -> Iterable[str]:
    """Give a word, or an identifier whole and in parts, each part once."""
    if _PLAIN.fullmatch(word):
        return _plain(word)
    return dict.fromkeys(term for term in _identifier_terms(word) if term)


def _plain(word: str) -> tuple[str, ...]:
    folded = word.casefold()
    if folded in _STOP_WORDS:
        return ()
    return (_stem(folded),)


def _stem(word: str) -> str:
    return _STEMMER.stem_word(word) if word.isascii() and word.isalpha() else word


def _identifier_terms(word: str) -> Iterator[str]:
    """Give an identifier with its sign (``--flag``, ``.net``), then bare, then by parts."""
    folded = word.casefold()
    if folded in _STOP_WORDS and not (word.isupper() and len(word) > 1):
        return
    signed = _SIGNED.fullmatch(word)
    if signed:
        yield from _signed_terms(folded, *signed.groups())
        return
    if word[0] in "-@#$.":
        yield folded
    bare = word.strip("-./\\:@+#$'&_").removesuffix("'s").removesuffix("'S")
    steps = _STEPS.split(bare)
    if len(steps) > 1:
        yield bare.casefold()
    for step in steps:
        yield from _step_terms(step.strip("-.+#'&_"))


def _signed_terms(whole: str, name: str, sign: str, number: str) -> Iterator[str]:
    """Give ``c++17`` whole, as ``c++`` and its number; a name of one letter means nothing by itself."""
    yield whole
    yield name.casefold() + sign
    if len(name) > 1:
        yield from _part_terms(name)
    yield number


def _step_terms(step: str) -> Iterator[str]:
    """Give one step of a path or address: whole, written together, and its parts."""
    parts = [part for part in _JOINTS.split(step) if part]
    if len(parts) > 1:
        yield step.casefold()
        if len(parts) <= 3 and all(part.isalpha() for part in parts):
            yield _stem("".join(parts).casefold())
    for part in parts:
        if len(parts) == 1 or part.casefold() not in _STOP_WORDS:
            yield from _part_terms(part)


def _part_terms(part: str) -> Iterator[str]:
    """Give a part whole, and its words and numbers where case or digits divide it."""
    folded = part.casefold()
    yield _stem(folded)
    if _DIGEST.fullmatch(folded):
        yield from (folded[:length] for length in _PREFIXES)
        return
    atoms = _ATOM.findall(part)
    yield folded if len(atoms) > 1 else ""
    if len(atoms) > 8 and len(part) < 3 * len(atoms):  # noise, not words: a key, base64
        return
    for atom in atoms:
        yield from _atom_terms(atom.casefold())


def _atom_terms(atom: str) -> Iterator[str]:
    """Give a word or a number, and what a dotted number begins with: 3.11 for 3.11.7."""
    if atom[0].isdigit():
        pieces = atom.split(".", 8)
        yield from (".".join(pieces[:count]) for count in range(len(pieces), min(len(pieces), 2) - 1, -1))
    elif (len(atom) > 1 or not atom.isascii()) and atom not in _STOP_WORDS:
        yield _stem(atom)
