"""Answer a host's hook: what is relevant and new to the session, as quoted data, or nothing at all."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memu_fs import injected
from memu_fs.backend import FileHit, Retrieval, SegmentHit
from memu_fs.config import Config
from memu_fs.context import Context, build_context
from memu_fs.digests import segment_id
from memu_fs.event_log import record
from memu_fs.hooks import HOSTS, HookEvent, HookInput, read_hook, write_hook
from memu_fs.invocation import current
from memu_fs.listing import content_of, description_of, times_of, verified_state
from memu_fs.local import LocalMemory
from memu_fs.locate import derive_scope
from memu_fs.quoting import cost
from memu_fs.recall_file import RecallFile
from memu_fs.scope import Scope, scope_of
from memu_fs.store import Store, UnreadableFileError
from memu_fs.trust import is_recalled

#: BM25 points that count as much as a cosine of 1 in ``relevance``.
_KEYWORD_SCALE = 40.0


@dataclass(frozen=True, slots=True)
class Hooked:
    """What a hook prints, and why it is nothing."""

    text: str
    reason: str | None = None
    segments: int = 0
    tokens: int = 0


def answer_hook(memory: LocalMemory, config: Config, host: str, event: HookEvent | None, data: bytes) -> str:
    """Answer a hook from an open memory; what happened goes to the local log, unless the caller has gone and says it.

    Raises:
        HookInputError: when the host's JSON is not what it says it writes.
    """
    started = time.perf_counter()
    store = memory.stores[0]
    told = read_hook(host, data, event)
    scope = derive_scope(config, store, told.cwd, host)
    if told.event == "session-start":
        hooked = give_pinned(store, config, scope, host, told)
    else:
        hooked = _prompt(memory, config, scope, host, told)
    if _is_late():
        return ""
    log_hook(store, told.event, hooked, (time.perf_counter() - started) * 1000)
    return hooked.text


def log_hook(store: Store, event: HookEvent, hooked: Hooked, spent: float) -> None:
    """Record what a hook gave, or why it gave nothing."""
    record(
        store.private,
        "hook",
        ms=spent,
        event=event,
        silent=not hooked.text,
        segments=hooked.segments,
        tokens=hooked.tokens,
        reason=hooked.reason,
    )


def _is_late() -> bool:
    deadline = current().deadline
    return deadline is not None and os.times().elapsed > deadline


def relevance(vector: float | None, keyword: float | None) -> float:
    """Say how relevant a segment is by itself, whatever else was found: its cosine, raised by its BM25 score."""
    return (vector or 0.0) + (keyword or 0.0) / _KEYWORD_SCALE


def pinned_files(store: Store, scope: Scope, seconds: float | None = None) -> list[RecallFile]:
    """Give the pinned files that a reader sees; with ``seconds``, what can be found in that time."""
    end = None if seconds is None else time.monotonic() + seconds
    today = datetime.date.today().isoformat()
    forgotten = store.tombstones()
    found: list[RecallFile] = []
    for entry in store.walk().entries:
        if end is not None and time.monotonic() > end:
            break
        if not scope.sees(scope_of(entry.path)) or (entry.track, entry.name) in forgotten:
            continue
        try:
            file = store.read(entry).file
        except UnreadableFileError:
            continue
        if file.is_pinned and is_recalled(file.status, file.valid_from, file.valid_until, today):
            found.append(file)
    return found


def give_pinned(
    store: Store, config: Config, scope: Scope, host: str, told: HookInput, seconds: float | None = None
) -> Hooked:
    """Give the pinned files at the start of a session, and forget what the session was given before."""
    if told.session:
        injected.forget(store.private, told.session)
    files = pinned_files(store, scope, seconds)
    context = build_context(_as_retrieval(store, files), budget=_budget(config, host))
    return _give(host, told, context) if context.text else Hooked("", "nothing-found")


def _give(host: str, told: HookInput, context: Context) -> Hooked:
    text = write_hook(host, told.event, context.text)
    return Hooked(text, None, len(context.segment_ids), cost(context.text) // 4)


def _budget(config: Config, host: str) -> int:
    """Give the tokens that may go into a prompt: no more than the host takes whole."""
    return min(int(config.number("hook_tokens")), HOSTS[host].most_chars // 4)


def _as_retrieval(store: Store, files: Sequence[RecallFile]) -> Retrieval:
    """Give whole files in the shape of an answer, one segment for each."""
    allow = store.marker.allowed_secrets
    segments, hits = [], []
    for file in files:
        file_id = store.id_of(file.track, file.name)
        text = content_of(file, allow).strip("\n")
        created, updated = times_of(file, None)
        last = file.body_line + file.body.rstrip().count("\n")
        segments.append(
            SegmentHit(
                id=segment_id(file_id, text, 0),
                recall_file_id=file_id,
                track=file.track,
                name=file.name,
                source_file=f"{file.track}/{file.name}",
                path=file.path,
                heading="",
                text=text,
                lines=[file.body_line, last],
                score=1.0,
                created_at=created,
                updated_at=updated,
                why={},
            )
        )
        hits.append(
            FileHit(
                id=file_id,
                track=file.track,
                name=file.name,
                description=description_of(file, allow),
                path=file.path,
                digest=file.digest,
                score=1.0,
                status=file.status,
                origin=file.origin,
                verified=verified_state(file),
                superseded_by=file.superseded_by,
                conflicts=[],
                created_at=created,
                updated_at=updated,
            )
        )
    return Retrieval(query="", mode="keyword", reason=None, stale=0, segments=segments, files=hits, resources=[])


def _prompt(memory: LocalMemory, config: Config, scope: Scope, host: str, told: HookInput) -> Hooked:
    if not told.query.strip():
        return Hooked("", "empty-query")
    answer = memory.progressive_retrieve(told.query, {"scope": scope})
    floor = config.number("hook_floor")
    answer = _keep(answer, {hit["id"] for hit in answer["segments"] if relevance(**hit["why"]) >= floor})
    if not answer["segments"]:
        return Hooked("", "nothing-found")
    private, repeat = memory.stores[0].private, int(config.number("hook_repeat"))
    if told.session:
        ids = [hit["id"] for hit in answer["segments"]]
        answer = _keep(answer, injected.fresh(private, told.session, ids, limit=repeat))
    context = build_context(answer, budget=_budget(config, host))
    if not context.text:
        return Hooked("", "nothing-new")
    if told.session and not _is_late():
        injected.remember(private, told.session, context.segment_ids)
    return _give(host, told, context)


def _keep(answer: Retrieval, ids: set[str]) -> Retrieval:
    """Narrow an answer to some segments and the files they stand in; resources are not put into prompts."""
    segments = [hit for hit in answer["segments"] if hit["id"] in ids]
    files = {hit["recall_file_id"] for hit in segments}
    kept: Retrieval = {
        **answer,
        "segments": segments,
        "files": [hit for hit in answer["files"] if hit["id"] in files],
        "resources": [],
    }
    return kept


def accepted_store(config: Config, named: Sequence[Path]) -> Store | None:
    """Open the store that a hook may read: named in its command, else ``MEMU_FS_STORE``, else the configured one.

    Never the one around the working directory: a cloned repository cannot put itself into a prompt.
    """
    roots = list(named) or list(config.stores)
    return Store(roots[0].expanduser()) if roots else None
