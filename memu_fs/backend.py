"""The protocol: three methods, and the shapes they give. Local and remote answer with the same bytes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from memu_fs.errors import UsageError
from memu_fs.names import FOLDERS, TRACKS
from memu_fs.scope import Scope

Mode = Literal["hybrid", "keyword", "vector"]

DEFAULT_PAGE = 50
MAX_PAGE = 1000
DEFAULT_FILES = 5
MAX_FILES = 1000
MAX_QUERY_CHARS = 100_000


class SegmentHit(TypedDict):
    """One ranked segment."""

    id: str
    recall_file_id: str
    track: str
    name: str
    source_file: str  #: ``track/name``
    path: str
    heading: str
    text: str
    lines: list[int]  #: first and last line, 1-based, in the file on disk
    score: float
    created_at: str | None
    updated_at: str | None
    why: dict[str, Any]
    store: NotRequired[str]  #: root folder, when several stores are searched


class FileHit(TypedDict):
    """One recall file of an answer; it scores as its best segment."""

    id: str
    track: str
    name: str
    description: str
    path: str
    digest: str
    score: float
    status: str
    origin: str
    verified: str | None
    superseded_by: str | None
    conflicts: list[str]  #: paths of conflict copies kept beside it
    created_at: str | None
    updated_at: str | None
    content: NotRequired[str]
    store: NotRequired[str]


class ResourceHit(TypedDict):
    """One resource of an answer."""

    id: str
    track: str
    name: str
    path: str
    url: str | None
    local_path: str | None
    caption: str
    score: float
    created_at: str | None
    updated_at: str | None
    store: NotRequired[str]


class Retrieval(TypedDict):
    """The answer to a query."""

    query: str
    mode: Mode
    reason: str | None
    stale: int
    segments: list[SegmentHit]
    files: list[FileHit]
    resources: list[ResourceHit]


class ListedFile(TypedDict):
    """One recall file of a listing."""

    id: str
    track: str
    name: str
    title: str
    description: str
    path: str
    digest: str
    scope: str
    status: str
    origin: str
    pinned: bool
    tags: list[str]
    created_at: str | None
    updated_at: str | None
    content: NotRequired[str]
    store: NotRequired[str]


class FilePage(TypedDict):
    """One page of a listing; ``next_cursor`` is ``None`` on the last."""

    recall_files: list[ListedFile]
    next_cursor: str | None


class Committed(TypedDict):
    """What a commit wrote."""

    recall_files: list[dict[str, Any]]
    resources: list[dict[str, Any]]
    commit: str | None


class UnknownFieldError(UsageError):
    """A filter field that means nothing; it is refused rather than ignored, so that nothing is ever widened."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"Unknown filter field {', '.join(names)}; use scope, track, include_inactive.")


class MissingScopeError(UsageError):
    """A read without a scope."""

    def __init__(self) -> None:
        super().__init__("A read needs a scope: give where={'scope': ...}, such as 'shared', 'project:NAME' or 'all'.")


class BadCursorError(UsageError):
    """A cursor that no page gave."""

    def __init__(self) -> None:
        super().__init__("The cursor is not one that a page gave; start again without it.")


class EmptyQueryError(UsageError):
    """A query with nothing to search for."""

    def __init__(self) -> None:
        super().__init__("The query is empty; say what to look for.")


class LongQueryError(UsageError):
    """A query that is no question any more."""

    def __init__(self, length: int) -> None:
        super().__init__(f"The query has {length} characters; ask in at most {MAX_QUERY_CHARS}.")


class LimitError(UsageError):
    """A limit outside what can be given."""

    def __init__(self, limit: int, most: int) -> None:
        super().__init__(f"The limit {limit} cannot be used; give 1 to {most}.")


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a read, checked."""

    scope: Scope
    tracks: tuple[str, ...]
    include_inactive: bool = False


class MemoryBackend(Protocol):
    """A memory, wherever it is. Synchronous; asynchronous callers use a thread."""

    def list_all_recall_files(
        self, where: Mapping[str, object], cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> FilePage:
        """Give one page of recall files in the order of (track, name, id)."""

    def progressive_retrieve(
        self,
        query: str,
        where: Mapping[str, object],
        *,
        limit: int = DEFAULT_FILES,
        content: bool = False,
        explain: bool = False,
    ) -> Retrieval:
        """Rank segments and return files."""

    def commit_results(
        self,
        recall_files: Sequence[Mapping[str, object]],
        resource: Sequence[Mapping[str, object]] = (),
        user: Mapping[str, object] | None = None,
    ) -> Committed:
        """Write recall files and resources, all or none, and commit them to git."""


def read_filter(where: Mapping[str, object]) -> Filter:
    """Check the filter of a read.

    Keys: ``scope`` (required; a ``Scope``, a text or a list of texts as for ``--scope``), ``track`` (a text or
    a list), ``include_inactive``.

    Raises:
        UnknownFieldError: for any other key.
        MissingScopeError: without a scope.
    """
    if unknown := sorted(map(str, where.keys() - {"scope", "track", "include_inactive"})):
        raise UnknownFieldError(unknown)
    scope = where.get("scope")
    if not isinstance(scope, Scope):
        if not scope:
            raise MissingScopeError
        scope = Scope.parse(_texts("scope", scope))
    track = where.get("track")
    tracks = tuple(dict.fromkeys(_track(text) for text in _texts("track", list(TRACKS) if track is None else track)))
    if not tracks:
        raise UsageError("track names no track; use memory, skill or resource, or leave it out.")
    inactive = where.get("include_inactive", False)
    if not isinstance(inactive, bool):
        raise UsageError("include_inactive must be true or false.")
    return Filter(scope, tracks, inactive)


def check_query(query: str) -> str:
    """Give the query without surrounding space and with a question mark for what is not Unicode.

    Raises:
        EmptyQueryError: when nothing is left.
        LongQueryError: when it is longer than ``MAX_QUERY_CHARS``.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise LongQueryError(len(query))
    text = query.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").strip()
    if not text:
        raise EmptyQueryError
    return text


def check_limit(limit: int, most: int) -> int:
    """Give the limit.

    Raises:
        LimitError: when it is below 1 or above ``most``.
    """
    if not 1 <= limit <= most:
        raise LimitError(limit, most)
    return limit


def encode_cursor(key: tuple[str, str, str]) -> str:
    """Turn the (track, name, id) of a page's last file into an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(key, ensure_ascii=True).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[str, str, str]:
    """Undo ``encode_cursor``.

    Raises:
        BadCursorError: for anything that no page gave.
    """
    try:
        key = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise BadCursorError from None
    if not isinstance(key, list) or len(key) != 3 or not all(isinstance(part, str) for part in key):
        raise BadCursorError
    return key[0], key[1], key[2]


def _texts(name: str, value: object) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(item, str) for item in values):
        raise UsageError(f"{name} must be a text or a list of texts.")
    return list(values)


def _track(text: str) -> str:
    track = FOLDERS.get(text, text)
    if track not in TRACKS:
        raise UsageError(f"There is no track {text!r}; use memory, skill or resource.")
    return track
