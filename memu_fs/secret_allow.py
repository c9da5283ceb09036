"""What may stay although it looks like a secret: marked lines, and the entries of a store's own list."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from memu_fs.errors import MemuError

_MARKER = re.compile(r"memu-fs:[ \t]?allow-secret|pragma:[ \t]?(?:allow|white)list[ -]secret")


@dataclass(frozen=True, slots=True)
class MarkedLines:
    """The lines of a text that carry a marker that allows secrets."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def touch(self, start: int, end: int) -> bool:
        """Say whether a span has a part on a marked line."""
        at = bisect_left(self.ends, start)
        return at < len(self.starts) and self.starts[at] < end


def find_marked_lines(text: str) -> MarkedLines:
    """Find the lines on which a secret may stay."""
    starts, ends = [], []
    match = _MARKER.search(text)
    while match:
        end = text.find("\n", match.end())
        starts.append(text.rfind("\n", 0, match.start()) + 1)
        ends.append(end if end >= 0 else len(text))
        match = _MARKER.search(text, ends[-1])
    return MarkedLines(tuple(starts), tuple(ends))


class AllowEntryError(MemuError):
    """An entry of the secret-allow list cannot be used."""

    def __init__(self, entry: str, reason: str) -> None:
        shown = entry if len(entry) <= 60 else f"{entry[:57]}..."
        super().__init__(f"The secret-allow entry {shown!r} {reason}. Correct it or take it out.")
        self.entry = entry


# The longest secret that an expression is tried on. With at most three open counts and no groups, the
# slowest expression takes about a million steps; longer secrets are allowed by their digest.
_MATCHED = 200
_COUNTS = 3
_PART = re.compile(
    r"(?P<count>[*+?]|\{\d{0,3},\d{0,3}\})|\{\d{1,3}\}|\\.|\[(?!.{0,500}?(?:--|&&|~~|\|\|))\^?\]?(?:\\.|[^\]\\\[])*\]"
    r"|[^\\\[\](){}|*+?]"
)
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class AllowList:
    """The secret-allow entries of a store, understood."""

    digests: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    def allows(self, secret: str) -> bool:
        """Say whether an entry is the digest of this secret, or matches the whole of it."""
        if self.digests and hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest() in self.digests:
            return True
        return len(secret) <= _MATCHED and any(pattern.fullmatch(secret) for pattern in self.patterns)


def parse_allow(entries: Sequence[str]) -> AllowList:
    """Understand secret-allow entries: `sha256:<hex>` of a secret, or a plain regular expression.

    Plain means: no groups, no alternatives (write two entries), at most three of `*`, `+`, `?` and `{m,n}`.
    """
    return _parse(tuple(entries))


@lru_cache(maxsize=16)
def _parse(entries: tuple[str, ...]) -> AllowList:
    digests = {entry[7:].lower() for entry in entries if _DIGEST.fullmatch(entry)}
    patterns = tuple(_compile(entry) for entry in entries if not _DIGEST.fullmatch(entry))
    return AllowList(frozenset(digests), patterns)


def _compile(entry: str) -> re.Pattern[str]:
    if entry.startswith("sha256:"):
        raise AllowEntryError(entry, "is not sha256: and 64 hexadecimal digits")
    if not entry or len(entry) > 500:
        raise AllowEntryError(entry, "must have 1 to 500 characters")
    counts, at = 0, 0
    while at < len(entry):
        part = _PART.match(entry, at)
        if not part:
            raise AllowEntryError(entry, f"has {entry[at]!r} where only plain expressions without groups may stand")
        counts, at = counts + (part["count"] is not None), part.end()
    if counts > _COUNTS:
        raise AllowEntryError(entry, f"has more than {_COUNTS} of * + ? and {{m,n}}")
    return _compiled(entry)


def _compiled(entry: str) -> re.Pattern[str]:
    try:
        return re.compile(entry)
    except (re.error, OverflowError) as error:
        raise AllowEntryError(entry, f"is not a regular expression: {error}") from error
