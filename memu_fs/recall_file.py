"""One Markdown file of a store, understood. Nothing else ever sees raw front matter."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from memu_fs import front_matter
from memu_fs.digests import digest_bytes
from memu_fs.names import conflict_original, identity_of
from memu_fs.problems import Problem
from memu_fs.scope import scope_of
from memu_fs.trust import CONFLICT, ORIGINS, STATUSES

_KNOWN_TEXT = ("name", "description", "status", "origin", "superseded_by", "verify")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class RecallFile:
    """One Markdown file. ``render`` gives back exactly the bytes it was parsed from."""

    path: str  #: from the store's root, forward slashes
    track: str
    name: str
    digest: str  #: sha256 of the bytes
    meta: Mapping[str, object]  #: front matter as plain values; {} when there is none or it is malformed
    bom: str
    header: str  #: raw front matter with its fences, or ""
    raw_body: str  #: bytes that are not UTF-8 are kept as lone surrogates
    problems: tuple[Problem, ...] = field(default=())

    @cached_property
    def body(self) -> str:
        """What follows the front matter, with U+FFFD for each byte that is not UTF-8 and for NUL."""
        return _shown(self.raw_body)

    @property
    def body_line(self) -> int:
        """The 1-based line on which the body starts."""
        return self.header.count("\n") + 1

    @property
    def title(self) -> str:
        """The display name: ``name`` in front matter, else the last part of the identity."""
        return self._text("name") or self.name.rsplit("/", 1)[-1]

    @property
    def description(self) -> str:
        """One line on what the file holds, or ""."""
        return self._text("description")

    @property
    def status(self) -> str:
        """One of ``trust.STATUSES``, or ``conflict`` for a kept copy. An unknown value counts as active."""
        if self.conflict_of:
            return CONFLICT
        status = self._text("status").lower()
        return status if status in STATUSES else "active"

    @property
    def origin(self) -> str:
        """Who first wrote it: ``human``, ``agent`` or ``import``."""
        origin = self._text("origin").lower()
        return origin if origin in ORIGINS else "human"

    @property
    def conflict_of(self) -> str | None:
        """The name of the file that this is a conflict copy of."""
        return conflict_original(self.name)

    @property
    def valid_from(self) -> str:
        """ISO date from which it holds, or ""."""
        return _date(self.meta.get("valid_from"))

    @property
    def valid_until(self) -> str:
        """ISO date up to which it holds, or ""."""
        return _date(self.meta.get("valid_until"))

    @property
    def superseded_by(self) -> str | None:
        """The name of its successor in the same track."""
        return unicodedata.normalize("NFC", self._text("superseded_by")) or None

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags, without a leading ``#``."""
        return tuple(tag.lstrip("#") for tag in _strings(self.meta.get("tags"), split=True))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names that links may use."""
        return _strings(self.meta.get("aliases"))

    @property
    def is_pinned(self) -> bool:
        """Whether a session-start hook always gives it."""
        return self.meta.get("pinned") is True

    @property
    def scope(self) -> str:
        """Its scope value: see ``scope.scope_of``."""
        return scope_of(self.path)

    def line_of(self, key: str) -> int:
        """The 1-based line on which a front-matter key stands, or 0."""
        return front_matter.line_of(self.header, key)

    def _text(self, key: str) -> str:
        value = self.meta.get(key)
        if value is None or isinstance(value, dict | list):
            return ""
        return " ".join(_shown(str(value)).split())


def parse(path: str, data: bytes) -> RecallFile:
    """Understand the bytes of a file of the store. Never fails: what is wrong is in ``problems``."""
    text = data.decode("utf-8", "surrogateescape")
    parts = front_matter.split(text)
    track, name = identity_of(path)
    problems = list(_encoding_problems(path, data, text))
    meta: dict[str, object] = {}
    if parts.unclosed:
        problems.append(Problem(path, 1, "front-matter", "front matter opens here and is never closed"))
    try:
        meta = front_matter.load(_shown(parts.yaml))
    except front_matter.FrontMatterProblem as problem:
        problems.append(Problem(path, problem.line, "front-matter", problem.reason))
    file = RecallFile(path, track, name, digest_bytes(data), meta, parts.bom, parts.header, parts.body)
    problems += _value_problems(file)
    return RecallFile(
        path, track, name, file.digest, meta, parts.bom, parts.header, parts.body, tuple(sorted(problems))
    )


def render(file: RecallFile) -> bytes:
    """Give the bytes of a file."""
    return (file.bom + file.header + file.raw_body).encode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text).replace("\0", "\ufffd")


def _encoding_problems(path: str, data: bytes, text: str) -> list[Problem]:
    found = []
    bad = _SURROGATES.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        offset = len(text[: bad.start()].encode("utf-8", "surrogateescape"))
        found.append(Problem(path, line, "encoding", f"not valid UTF-8 at byte {offset}; shown as U+FFFD"))
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        found.append(Problem(path, line, "encoding", "holds a NUL byte; shown as U+FFFD"))
    return found


def _value_problems(file: RecallFile) -> list[Problem]:
    found = []

    def say(key: str, message: str) -> None:
        found.append(Problem(file.path, file.line_of(key), "front-matter-value", message))

    for key in _KNOWN_TEXT:
        if isinstance(file.meta.get(key), dict | list):
            say(key, f"{key} must be a single text")
    for key, allowed in (("status", STATUSES), ("origin", ORIGINS)):
        value = file.meta.get(key)
        if not isinstance(value, dict | list | None) and str(value).lower() not in allowed:
            say(key, f"{key} {str(value)!r} is unknown; use one of {', '.join(allowed)}")
    for key in ("valid_from", "valid_until"):
        if file.meta.get(key) is not None and not _date(file.meta[key]):
            say(key, f"{key} is not a date such as 2026-05-31")
    for line, key in front_matter.repeated_keys(file.header) if file.meta else ():
        found.append(Problem(file.path, line, "front-matter", f"{key} is given more than once; the last one counts"))
    return found


def _date(value: object) -> str:
    try:
        return datetime.date.fromisoformat(str(value)[:10]).isoformat() if value is not None else ""
    except ValueError:
        return ""


def _strings(value: object, *, split: bool = False) -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.split(r"[,\s]+", value) if split else [value]
    if not isinstance(value, list):
        return ()
    return tuple(_shown(str(item)).strip() for item in value if item is not None and str(item).strip())
