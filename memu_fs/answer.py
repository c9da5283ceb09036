"""Answer a query: level, search, fuse, check the hits against the files, fill by file."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memu_fs.backend import FileHit, Filter, Mode, ResourceHit, Retrieval, SegmentHit
from memu_fs.digests import file_id
from memu_fs.errors import MemuError
from memu_fs.git import Times
from memu_fs.index.base import FileState, Hit, Index, IndexUnusableError, Where
from memu_fs.index.build import build
from memu_fs.index.rank import Candidate, RankedFile, by_file, fuse, order
from memu_fs.index.scan import Scan
from memu_fs.index.terms import analyse
from memu_fs.listing import caption_of, content_of, description_of, local_path_of, times_of, url_of, verified_state
from memu_fs.recall_file import RecallFile
from memu_fs.scope import scope_of
from memu_fs.store import Page, Store, UnreadableFileError
from memu_fs.trust import FORGOTTEN, RECALLED, is_recalled

if TYPE_CHECKING:
    from memu_fs.index.sidecar import Sidecar

#: Segments that one file may show.
SEGMENTS_A_FILE = 4
#: Resources are ranked on their own.
RESOURCES = 5
#: How many segments each ranking brings to the fusion.
CANDIDATES = 200
#: Words of a query that are searched; the rest of a pasted page adds nothing.
QUERY_TERMS = 128
QUERY_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, checked."""

    query: str
    wanted: Filter
    limit: int
    content: bool = False
    explain: bool = False
    mode: Mode | None = None  #: keyword or vector alone, for measuring; ``None`` for the best there is


@dataclass(slots=True)
class _Source:
    """One store as it is searched: its index, and its files at this moment."""

    sidecar: Sidecar
    index: Index | None
    found: Scan
    states: dict[str, FileState]

    @property
    def store(self) -> Store:
        return self.sidecar.store

    @property
    def key(self) -> str:
        return str(self.store.root)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A ranked file as it is on disk now, with the segments that still stand in it."""

    source: _Source
    page: Page
    candidates: tuple[Candidate, ...]

    @property
    def score(self) -> float:
        return self.candidates[0].score


def answer(sidecars: Sequence[Sidecar], question: Question, seconds: float) -> Retrieval:
    """Answer a question from the stores behind ``sidecars``; each may first spend ``seconds`` on getting level."""
    stale, reasons = 0, []
    sources = []
    for sidecar in sidecars:
        level = sidecar.level(seconds)
        stale += sum(question.wanted.scope.sees(scope_of(path)) for path in level.behind)
        reasons += [level.reason] if level.reason else []
        sources.append(_source(sidecar, level.scan))
    mode, vectors, reason = _embed(sources, question)
    reasons += [reason] if reason else []
    tracks = tuple(track for track in question.wanted.tracks if track != "workspace")
    files = _best(sources, question, vectors, mode, tracks, question.limit) if tracks else []
    resources = []
    if "workspace" in question.wanted.tracks:
        most = min(RESOURCES, question.limit) if tracks else question.limit
        resources = _best(sources, question, vectors, mode, ("workspace",), most)
    return _render(question, mode, reasons, stale, files, resources, several=len(sources) > 1)


def _source(sidecar: Sidecar, found: Scan) -> _Source:
    try:
        index = sidecar.index()
    except IndexUnusableError:
        index = None
    return _Source(sidecar, index, found, index.files() if index else {})


def _embed(sources: Sequence[_Source], question: Question) -> tuple[Mode, Any, str | None]:
    """Embed the query once; without vectors that fit every index, answer by keywords and say why."""
    searched = [source for source in sources if source.index is not None]
    if not searched:
        return "keyword", None, "there is no index yet: run memu-fs index"
    has_terms = bool(analyse(question.query[:QUERY_CHARS]))
    if question.mode == "keyword":
        return "keyword", None, "asked for keywords alone"
    try:
        embedder = searched[0].sidecar.embedder
        if any(source.index.stamp.space != embedder.space for source in searched if source.index):
            reason = "the index holds another embedding space: run memu-fs index"
            return "keyword", None, reason
        vector = embedder.embed_query(question.query[:QUERY_CHARS])
    except MemuError as error:  # a key that is missing too: keywords need none
        return "keyword", None, str(error)
    if question.mode == "vector":
        return "vector", vector, "asked for vectors alone"
    return ("hybrid", vector, None) if has_terms else ("vector", vector, "the query has no words to look up")


def _best(
    sources: Sequence[_Source], question: Question, vector: Any, mode: Mode, tracks: tuple[str, ...], limit: int
) -> list[_Checked]:
    """Give the best files that are really there, with the segments that really stand in them."""
    depth = max(CANDIDATES, 4 * limit * SEGMENTS_A_FILE)
    terms = list(dict.fromkeys(analyse(question.query[:QUERY_CHARS])))[:QUERY_TERMS]
    near: list[tuple[str, Hit]] = []
    match: list[tuple[str, Hit]] = []
    for source in sources:
        if source.index is None:
            continue
        where = _where(source.index, question.wanted, tracks)
        if mode != "keyword":
            near += [(source.key, hit) for hit in source.index.nearest(vector, where, depth)]
        if mode != "vector":
            match += [(source.key, hit) for hit in source.index.matching(terms, where, depth)]
    by_key = {source.key: source for source in sources}
    checked: list[_Checked] = []
    for ranked in by_file(fuse(near, match), SEGMENTS_A_FILE):
        if len(checked) == limit:
            break
        found = _check(by_key[ranked.candidates[0].store], ranked, question.wanted)
        checked += [found] if found else []
    return sorted(checked, key=lambda item: order(item.candidates[0]))


def _where(index: Index, wanted: Filter, tracks: tuple[str, ...]) -> Where:
    scopes = wanted.scope.visible(index.scopes())
    if wanted.include_inactive:
        return Where(scopes, tracks)
    return Where(scopes, tracks, RECALLED, _today())


def _today() -> str:
    return datetime.date.today().isoformat()


def _check(source: _Source, ranked: RankedFile, wanted: Filter) -> _Checked | None:
    """Read the file that was hit. Gone or no longer recalled: drop it. Changed: keep what still stands in it."""
    segment = ranked.candidates[0].segment
    entry = source.found.by_name.get((segment.track, segment.name))
    if entry is None or not wanted.scope.sees(scope_of(entry.path)):
        return None
    try:
        page = source.store.read(entry)
    except UnreadableFileError:
        return None
    if not wanted.include_inactive and not _is_recalled(source, page.file):
        return None
    if all(candidate.segment.digest == page.digest for candidate in ranked.candidates):
        return _Checked(source, page, ranked.candidates)
    now = build(page, segment.file_id, allow=source.store.marker.allowed_secrets)
    standing = {cut.id: cut for cut in now.segments}
    kept = [
        replace(candidate, segment=standing[candidate.segment.id])
        for candidate in ranked.candidates
        if candidate.segment.id in standing
    ]
    return _Checked(source, page, tuple(kept)) if kept else None


def _is_recalled(source: _Source, file: RecallFile) -> bool:
    forgotten = (file.track, file.name) in source.found.forgotten
    return not forgotten and is_recalled(file.status, file.valid_from, file.valid_until, _today())


def _render(
    question: Question,
    mode: Mode,
    reasons: Sequence[str],
    stale: int,
    files: Sequence[_Checked],
    resources: Sequence[_Checked],
    *,
    several: bool,
) -> Retrieval:
    pairs = [(candidate, checked) for checked in files for candidate in checked.candidates]
    pairs.sort(key=lambda pair: order(pair[0]))
    retrieval = Retrieval(
        query=question.query,
        mode=mode,
        reason="; ".join(dict.fromkeys(reasons)) or None,
        stale=stale,
        segments=list(_segments(pairs, explain=question.explain)),
        files=[_file(checked, content=question.content) for checked in files],
        resources=[_resource(checked) for checked in resources],
    )
    if several:
        for checked, file in zip(files, retrieval["files"], strict=True):
            file["store"] = checked.source.key
        for (_, checked), segment in zip(pairs, retrieval["segments"], strict=True):
            segment["store"] = checked.source.key
        for checked, resource in zip(resources, retrieval["resources"], strict=True):
            resource["store"] = checked.source.key
    return retrieval


def _segments(pairs: Sequence[tuple[Candidate, _Checked]], *, explain: bool) -> Iterator[SegmentHit]:
    ranks = {name: _ranks([candidate for candidate, _ in pairs], name) for name in ("vector", "keyword")}
    for candidate, checked in pairs:
        segment = candidate.segment
        created, updated = _times(checked)
        why: dict[str, Any] = {"vector": candidate.vector, "keyword": candidate.keyword}
        if explain:
            why |= {f"{name}_rank": places.get(segment.id) for name, places in ranks.items()}
        yield SegmentHit(
            id=segment.id,
            recall_file_id=segment.file_id,
            track=segment.track,
            name=segment.name,
            source_file=f"{segment.track}/{segment.name}",
            path=segment.path,
            heading=segment.heading,
            text=segment.text,
            lines=[segment.line_start, segment.line_end],
            score=candidate.score,
            created_at=created,
            updated_at=updated,
            why=why,
        )


def _ranks(candidates: Sequence[Candidate], name: str) -> dict[str, int]:
    """Give the place of each shown segment in one ranking alone, from 1."""
    scored = [item for item in candidates if getattr(item, name) is not None]
    scored.sort(key=lambda item: (-getattr(item, name), order(item)))
    return {item.segment.id: place for place, item in enumerate(scored, 1)}


def _times(checked: _Checked) -> tuple[str | None, str | None]:
    state = checked.source.states.get(checked.page.file.path)
    known = None
    if state and state.created_at and state.updated_at:
        known = Times(state.created_at, state.updated_at)
    return times_of(checked.page.file, known)


def _id(checked: _Checked) -> str:
    file = checked.page.file
    return file_id(checked.source.store.marker.id, file.track, file.name)


def _file(checked: _Checked, *, content: bool) -> FileHit:
    file = checked.page.file
    source, allow = checked.source, checked.source.store.marker.allowed_secrets
    created, updated = _times(checked)
    hit = FileHit(
        id=_id(checked),
        track=file.track,
        name=file.name,
        description=description_of(file, allow),
        path=file.path,
        digest=file.digest,
        score=checked.score,
        status=FORGOTTEN if (file.track, file.name) in source.found.forgotten else file.status,
        origin=file.origin,
        verified=verified_state(file),
        superseded_by=file.superseded_by,
        conflicts=sorted(source.found.conflicts.get((file.track, file.name), [])),
        created_at=created,
        updated_at=updated,
    )
    if content:
        hit["content"] = content_of(file, allow)
    return hit


def _resource(checked: _Checked) -> ResourceHit:
    file, allow = checked.page.file, checked.source.store.marker.allowed_secrets
    created, updated = _times(checked)
    return ResourceHit(
        id=_id(checked),
        track=file.track,
        name=file.name,
        path=file.path,
        url=url_of(file, allow),
        local_path=local_path_of(file),
        caption=caption_of(file, allow),
        score=checked.score,
        created_at=created,
        updated_at=updated,
    )
