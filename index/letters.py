"""Letters of all scripts: one spelling for what reads the same, and the runs a text is made of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from memu_fs.index.cost import safe_cut

_LATIN = "A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Thai, Lao, Myanmar and Khmer write words without spaces; their digits and punctuation are left out.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u1089\u108f\u109a-\u109f\u1780-\u17d3\u17dd\uaa60-\uaa7f"
)
# Marks that Python counts as no part of a word although they are.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0900-\u0963\u0981-\u0dff\u0f71-\u0f84\u0f8d-\u0fbc\u1885\u1dc0-\u1dff"
_EMOJI = "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u231a-\u23ff"
_SKIN = "[\U0001f3fb-\U0001f3ff]"
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"

_WORD = rf"(?:[^\W{_CJK}{_UNSPACED}]++|[{_MARKS}]++)++"
_ONE_EMOJI = rf"[{_EMOJI}]\ufe0f?{_SKIN}?"

#: The runs of a text that has no white space; the group's name says which kind.
RUN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<cjk>[{_CJK}]+)"
    rf"|(?P<emoji>{_FLAG}|{_ONE_EMOJI}(?:\u200d{_ONE_EMOJI})*)"
    rf"|(?P<word>(?:--?|[@#$.])?{_WORD}(?:[-./\\:@+#'&]+{_WORD})*(?:\+\+|\#)?)"
)

_ACCENTS = re.compile(rf"(?<=[{_LATIN}\u0370-\u03ff\u0415\u0435])[\u0300-\u036f]+")
_UNSEEN = re.compile(
    rf"[\u00ad\u034f\u061c\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff"
    rf"\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u0591-\u05bd\u05bf-\u05c7]|(?<![{_EMOJI}\ufe0f\U0001f3fb-\U0001f3ff])\u200d"
)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_LOOKALIKES = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "ʼ": "'",
        "‐": "-",
        "‑": "-",
        "–": "-",
        "−": "-",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
    }
    | {
        "đ": "d",
        "Đ": "D",
        "ð": "d",
        "Ð": "D",
        "þ": "th",
        "Þ": "Th",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
    }
    | {"ß": "ss", "ẞ": "SS", "ı": "i"}
    | {chr(zero + digit): str(digit) for zero in (0x660, 0x6F0, 0x966, 0xE50, 0xED0) for digit in range(10)}
)


_PORTION = 1024


def normalise(text: str) -> str:
    """Spell alike what reads alike: compatibility forms, accents, vowel points, dashes. Case stays."""
    if not text.isascii():
        text = "".join(map(_fold, _portions(text)))
    return _THOUSANDS.sub("", text)


def _portions(text: str) -> Iterator[str]:
    """Cut a text into portions: normalising endless runs of marks takes quadratic time."""
    start = 0
    while start < len(text):
        cut = safe_cut(text, start, min(start + _PORTION, len(text)))
        yield text[start:cut]
        start = cut


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)
    text = _ACCENTS.sub("", unicodedata.normalize("NFD", _UNSEEN.sub("", text)))
    return unicodedata.normalize("NFC", text)


def clusters(run: str) -> list[str]:
    """Split a run into letters, each with the marks that belong to it."""
    found: list[str] = []
    for letter in run:
        if found and len(found[-1]) < 8 and _continues(found[-1], letter):
            found[-1] += letter
        else:
            found.append(letter)
    return found


def _continues(cluster: str, letter: str) -> bool:
    return cluster[-1] in "\u1039\u17d2" or unicodedata.category(letter)[0] == "M"
