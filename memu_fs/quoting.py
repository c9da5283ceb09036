"""Quote text that others wrote, so that it can stand in a prompt as data: nothing in it can end its own quotation."""

from __future__ import annotations

import re

#: Every line of quoted text starts with it; no line of ours does.
MARK = ">"
CUT = "..."

_ESCAPES = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
# What shows nothing: controls but tab and newline, lone surrogates, and Unicode's default-ignorable characters
# (zero-width, bidi controls, variation selectors, tags), with which text can be hidden from people.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)
# Hosts wrap what a hook says in tags of their own, and models know special tokens such as <|end|>.
_TAG = re.compile(r"<(?=[/!?|A-Za-z_:])")
_WIDE = "\u2e80"
# What moves a terminal's cursor, ends a line or turns the order of letters round.
_UNRULY = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SURPLUS = re.compile(r"\s+")


def quote_lines(text: str) -> list[str]:
    """Quote a text line by line, without the blank lines around it; [] when nothing can be seen in it.

    Whatever counts as a line break anywhere is one, hidden characters are gone, and ``<`` is ``&lt;`` where a tag
    would start.
    """
    lines = [_clean(line).rstrip() for line in text.splitlines()]
    shown = [number for number, line in enumerate(lines) if line]
    if not shown:
        return []
    return [f"{MARK} {line}".rstrip() for line in lines[shown[0] : shown[-1] + 1]]


def quote_phrase(text: str, most: int = 200) -> str:
    """Quote a text on one line between double quotes, with ``\\`` before a quote or ``\\`` inside; "" for nothing."""
    phrase = _SURPLUS.sub(" ", " ".join(map(_clean, text.splitlines()))).strip()
    if not phrase:
        return ""
    if len(phrase) > most:
        phrase = phrase[: most - len(CUT)].rstrip() + CUT
    return '"' + phrase.replace("\\", "\\\\").replace('"', '\\"') + '"'


def visible(line: str) -> str:
    """Give one line as a terminal may show it: what would act on it, line breaks too, is written as an escape."""
    return _UNRULY.sub(lambda match: match[0].encode("unicode_escape").decode(), line)


def shorten_lines(lines: list[str], room: int) -> list[str]:
    """Keep the quoted lines that cost at most ``room``; the line at which they end is cut and says ``...``."""
    kept: list[str] = []
    left = room
    for number, line in enumerate(lines, 1):
        price = cost(line) + cost("\n")
        rest = 0 if number == len(lines) else cost(f"{MARK} {CUT}\n")
        if price + rest > left:
            return [*kept, _shorten(line, left - cost("\n"))]
        kept.append(line)
        left -= price
    return kept


def cost(text: str) -> int:
    """Give what a text costs, in quarters of a token: 4 for an East Asian character or a symbol above, else 1."""
    return len(text) if text.isascii() else len(text) + 3 * sum(map(_WIDE.__le__, text))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without knowing the model."""
    return -(-cost(text) // 4)


def _clean(line: str) -> str:
    return _TAG.sub("&lt;", _HIDDEN.sub("", _ESCAPES.sub("", line)))


def _shorten(line: str, room: int) -> str:
    room -= cost(f"{MARK} {CUT}")
    kept = ""
    for char in line[len(MARK) + 1 :]:
        room -= cost(char)
        if room < 0:
            break
        kept += char
    return f"{MARK} {kept.rstrip()}{CUT}"
