"""Find keys, tokens and passwords in text, without ever holding on to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from memu_fs.secret_allow import find_marked_lines, parse_allow
from memu_fs.secret_rules import Span, known_forms
from memu_fs.secret_shapes import known_shapes


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """Where a secret is and of what kind; never the secret itself."""

    line: int  #: 1-based, of the first character
    start: int
    end: int
    rule: str


# What another rule finds as well is named by that one.
_GENERAL = ("assigned-secret", "bearer-token", "connection-password", "jwt")


def find_secrets(text: str, *, allow: Sequence[str] = ()) -> list[SecretFinding]:
    """Find the secrets of a text in order; their spans never overlap.

    A line marked `memu-fs: allow-secret` passes, and so does a secret that an entry of `allow` matches.
    """
    allowed, marked = parse_allow(allow), find_marked_lines(text)
    spans = (
        (start, end, rule)
        for start, end, rule in _spans(text)
        if not marked.touch(start, end) and not allowed.allows(text[start:end])
    )
    return list(_located(text, spans))


def redact(text: str) -> str:
    """Put `[secret: <rule>]` in the place of every secret; marked lines are not spared."""
    while spans := _spans(text):
        parts, done = [], 0
        for start, end, rule in spans:
            parts += [text[done:start], f"[secret: {rule}]"]
            done = end
        text = "".join((*parts, text[done:]))
    return text


def _spans(text: str) -> list[Span]:
    """Collect what the rules find, joining spans that overlap under the more specific name."""
    joined: list[Span] = []
    for start, end, rule in sorted(chain(known_forms(text), known_shapes(text))):
        if joined and start < joined[-1][1]:
            first, last, name = joined[-1]
            joined[-1] = (first, max(last, end), rule if name in _GENERAL else name)
        else:
            joined.append((start, end, rule))
    return joined


def _located(text: str, spans: Iterable[Span]) -> Iterator[SecretFinding]:
    line, done = 1, 0
    for start, end, rule in spans:
        line, done = line + text.count("\n", done, start), start
        yield SecretFinding(line, start, end, rule)
