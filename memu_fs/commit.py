"""Write a payload of recall files: checked first, then all or none, then one git commit of those paths alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memu_fs import front_matter, git, recall_file
from memu_fs.backend import Committed
from memu_fs.errors import MemuError, UsageError
from memu_fs.listing import listed
from memu_fs.names import FOLDERS, collision_key, identity_of, path_for
from memu_fs.secret_scan import find_secrets, redact
from memu_fs.store import MAX_FILE_BYTES, FileChangedError, FileNotWrittenError, Store
from memu_fs.walk import Walk

#: Track, name and what the payload says of it.
Item = tuple[str, str, Mapping[str, object]]


class PayloadError(UsageError):
    """A payload that cannot be committed."""


class SecretInPayloadError(MemuError):
    """A file of the payload holds a secret."""

    def __init__(self, reference: str, line: int, rule: str) -> None:
        super().__init__(
            f"{redact(reference)} looks like it holds a secret ({rule}, line {line}); nothing was written. "
            "Take it out, then retry."
        )


class BaseMissingError(MemuError):
    """A payload would replace a file that its writer has not said to have read."""

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"{reference} exists already. Read it, give its digest as 'base', then retry; nothing was written."
        )


@dataclass(frozen=True, slots=True)
class Write:
    """One file to write: what it must hold before, and what it holds after."""

    reference: str
    path: str
    data: bytes
    expected: str | None
    before: bytes | None


def commit_payload(
    store: Store,
    recall_files: Sequence[Mapping[str, object]],
    resource: Sequence[Mapping[str, object]] = (),
) -> Committed:
    """Write recall files and resources in memU's shape, all or none.

    A recall file is ``{name, track, description, content, base}``: ``track`` defaults to memory, absent or
    empty fields leave what is there, ``base`` is the digest of the file that is replaced. A resource is
    ``{path, description}``. Blank names are skipped; of repeated names the last counts.

    Raises:
        PayloadError, BadNameError: when the payload does not fit.
        SecretInPayloadError, BaseMissingError, FileChangedError: when a file must not be written.
    """
    items = _told_apart([*_recall_files(recall_files), *_resources(resource)])
    found = store.walk()
    writes = [write for track, name, item in items if (write := _plan(store, found, track, name, item))]
    for write in writes:
        if len(write.data) > MAX_FILE_BYTES:
            raise PayloadError(f"{write.reference} is larger than {MAX_FILE_BYTES // 1024 // 1024} MB.")
        for finding in find_secrets(write.data.decode("utf-8", "replace"), allow=store.marker.allowed_secrets):
            raise SecretInPayloadError(write.reference, finding.line, finding.rule)
    _write_all(store, writes)
    commit = git.commit_paths(store.root, [write.path for write in writes], _message(writes)) if writes else None
    shown = [listed(store, store.read_file(write.path), None, content=True) for write in writes]
    return Committed(
        recall_files=[dict(item) for item in shown if item["track"] != "workspace"],
        resources=[dict(item) for item in shown if item["track"] == "workspace"],
        commit=commit,
    )


def _told_apart(items: Sequence[Item]) -> list[Item]:
    """Of repeated names keep the last; refuse names that some system could not tell apart."""
    latest: dict[tuple[str, str], Item] = {}
    for track, name, item in items:
        key = collision_key(track, name)
        if key in latest and _spelling(latest[key][1]) != _spelling(name):
            raise PayloadError(f"{name!r} and {latest[key][1]!r} are the same name on some systems; rename one.")
        latest[key] = (track, name, item)
    return list(latest.values())


def _spelling(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _fields(kind: str, item: Mapping[str, object], allowed: frozenset[str]) -> None:
    if not isinstance(item, Mapping):
        raise PayloadError(f"{kind} must be an object with the fields {', '.join(sorted(allowed))}.")
    if unknown := sorted(map(str, item.keys() - allowed)):
        raise PayloadError(f"{kind} has the unknown field {unknown[0]!r}.")


def _list(name: str, items: object) -> list[Any]:
    if not isinstance(items, list | tuple):
        raise PayloadError(f"{name} must be a list of objects.")
    return list(items)


def _recall_files(items: Sequence[Mapping[str, object]]) -> Iterator[Item]:
    for item in _list("recall_files", items):
        _fields("A recall file", item, frozenset({"name", "track", "description", "content", "base"}))
        track, name = _text(item, "track") or "memory", _text(item, "name").strip()
        if name:
            yield FOLDERS.get(track, track), name, item


def _resources(items: Sequence[Mapping[str, object]]) -> Iterator[Item]:
    for item in _list("resource", items):
        _fields("A resource", item, frozenset({"path", "description"}))
        path, description = _text(item, "path").strip(), _text(item, "description")
        if path:
            key = "url" if "://" in path else "local_path"
            parts = path.split("://", 1)[-1].split("/")
            name = "/".join(part for part in parts if part not in {"", ".", ".."}) or path
            yield "workspace", name, {"name": name, "description": description, key: path, "overwrite": True}


def _plan(store: Store, found: Walk, track: str, name: str, item: Mapping[str, object]) -> Write | None:
    """Say what one item writes; ``None`` when it changes nothing."""
    path = path_for(track, name)
    reference = f"{track}/{name}"
    key = collision_key(track, name)
    same = [entry for entry in found.entries if collision_key(*identity_of(entry.path)) == key]
    if len(same) > 1:
        raise PayloadError(f"{reference} is the name of several files: {', '.join(entry.path for entry in same)}.")
    base = _text(item, "base")
    if not same:
        if base:
            raise FileChangedError(path)
        return Write(reference, path, _new_file(name, item), None, None)
    before = store.read_bytes(same[0].path)
    old = recall_file.parse(same[0].path, before)
    data = _changed(old, item)
    if data == before:
        return None
    if not base and not item.get("overwrite"):
        raise BaseMissingError(reference)
    if base and base != old.digest:
        raise FileChangedError(old.path)
    return Write(reference, old.path, data, old.digest, before)


def _new_file(name: str, item: Mapping[str, object]) -> bytes:
    """Render a file that an agent makes; what it says of itself is not believed."""
    values: dict[str, object] = {"name": name.rsplit("/", 1)[-1]}
    for key in ("description", "url", "local_path"):
        if text := _text(item, key):
            values[key] = text
    content = front_matter.split(_text(item, "content").replace("\r\n", "\n"))
    try:
        claimed = front_matter.load(content.yaml)
    except front_matter.FrontMatterProblem as problem:
        raise PayloadError(f"{name}: {problem.reason} (line {problem.line} of its content).") from None
    kept = {key: value for key, value in claimed.items() if key not in {"origin", "status", "sources", "verified"}}
    values = {**values, **kept, "origin": "agent", "status": "unverified"}
    body = content.body.strip("\n")
    return (front_matter.dump(values) + (f"\n{body}\n" if body else "")).encode()


def _changed(old: recall_file.RecallFile, item: Mapping[str, object]) -> bytes:
    """Put a new body and description into a file; what is absent or empty stays, and so do its line ends."""
    newline = "\r\n" if "\r\n" in old.header + old.raw_body else "\n"
    header, body = old.header, old.raw_body
    description = " ".join(_text(item, "description").split())
    is_malformed = not old.meta and any(problem.rule == "front-matter" for problem in old.problems)
    if description and description != old.description and not is_malformed:
        header = front_matter.set_key(header, "description", description, newline)
        if not _says(header, "description", description):
            raise PayloadError(f"The front matter of {old.path} cannot take a description; change it by hand.")
    new = front_matter.split(_text(item, "content").replace("\r\n", "\n")).body.strip("\n")
    if new.strip():
        body = (("\n" if header else "") + new + "\n").replace("\n", newline)
    return (old.bom + header + body).encode("utf-8", "surrogateescape")


def _says(header: str, key: str, value: str) -> bool:
    try:
        return front_matter.load(front_matter.split(header).yaml).get(key) == value
    except front_matter.FrontMatterProblem:
        return False


def _write_all(store: Store, writes: Sequence[Write]) -> None:
    """Write every file; when one fails, put back those that were written."""
    done: list[tuple[Write, str]] = []
    try:
        for write in writes:
            done.append((write, store.write(write.path, write.data, expected=write.expected)))
    except (FileChangedError, FileNotWrittenError):
        for write, digest in reversed(done):
            if write.before is None:
                (store.root / write.path).unlink()
            else:
                store.write(write.path, write.before, expected=digest)
        raise


def _message(writes: Sequence[Write]) -> str:
    what = " ".join(writes[0].path.split()) if len(writes) == 1 else f"{len(writes)} files"
    return f"memory: write {what}\n\nMemu-Origin: agent\n"


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PayloadError(f"{key} must be a text.")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise PayloadError(f"{key} is not valid Unicode.")
    return value
