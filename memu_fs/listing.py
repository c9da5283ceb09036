"""Describe recall files in the shapes of the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memu_fs.backend import ListedFile
from memu_fs.digests import file_id
from memu_fs.git import Times
from memu_fs.recall_file import RecallFile
from memu_fs.secret_scan import find_secrets, redact
from memu_fs.store import Store


def times_of(file: RecallFile, times: Times | None) -> tuple[str | None, str | None]:
    """Give when a file was created and updated: front matter first, else git, else unknown."""
    created, updated = (_moment(file.meta.get(key)) for key in ("created", "updated"))
    return created or (times.created_at if times else None), updated or (times.updated_at if times else None)


def verified_state(file: RecallFile) -> str | None:
    """Say whether a skill that carries ``verify`` was shown to work on this device; ``None`` for everything else."""
    return "never" if file.track == "skill" and file.meta.get("verify") else None


def url_of(file: RecallFile, allow: tuple[str, ...]) -> str | None:
    """Give the address that a resource describes."""
    value = file.meta.get("url")
    return without_secrets(value, allow) if isinstance(value, str) and value else None


def local_path_of(file: RecallFile) -> str | None:
    """Give the path that a resource describes."""
    value = file.meta.get("local_path")
    return str(value) if isinstance(value, str) and value else None


def description_of(file: RecallFile, allow: tuple[str, ...]) -> str:
    """Give a file's description for an answer."""
    return without_secrets(file.description, allow)


def caption_of(file: RecallFile, allow: tuple[str, ...]) -> str:
    """Say what a resource holds: its description, else its first line of text."""
    first = next((line.strip() for line in file.body.split("\n") if line.strip()), "")
    return without_secrets(file.description or first, allow)


def content_of(file: RecallFile, allow: tuple[str, ...]) -> str:
    """Give a file's body for an answer."""
    return without_secrets(file.body.replace("\r\n", "\n"), allow)


def without_secrets(text: str, allow: tuple[str, ...]) -> str:
    """Give a text with every secret that is not allowed replaced by its rule."""
    return redact(text) if find_secrets(text, allow=allow) else text


def plain_without_secrets(value: object, allow: tuple[str, ...]) -> object:
    """Do the same for every text in a value of plain lists and mappings."""
    if isinstance(value, str):
        return without_secrets(value, allow)
    if isinstance(value, Mapping):
        return {key: plain_without_secrets(item, allow) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_without_secrets(item, allow) for item in value]
    return value


def listed(store: Store, file: RecallFile, times: Times | None, *, content: bool) -> ListedFile:
    """Describe one file of a listing."""
    created, updated = times_of(file, times)
    allow = store.marker.allowed_secrets
    item = ListedFile(
        id=file_id(store.marker.id, file.track, file.name),
        track=file.track,
        name=file.name,
        title=without_secrets(file.title, allow),
        description=description_of(file, allow),
        path=file.path,
        digest=file.digest,
        scope=file.scope,
        status=file.status,
        origin=file.origin,
        pinned=file.is_pinned,
        tags=list(file.tags),
        created_at=created,
        updated_at=updated,
    )
    if content:
        item["content"] = content_of(file, allow)
    return item


def _moment(value: object) -> str | None:
    text = str(value) if value is not None else ""
    return text if re.match(r"\d{4}-\d\d-\d\d", text) else None
