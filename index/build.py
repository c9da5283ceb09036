"""Turn one recall file into the segments and the state that the index keeps of it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memu_fs.conflict_markers import blank_markers, find_markers
from memu_fs.digests import segment_id
from memu_fs.git import Times
from memu_fs.index.base import FileState, Segment
from memu_fs.index.slice import Slice, slice_markdown
from memu_fs.index.terms import analyse
from memu_fs.problems import Problem
from memu_fs.recall_file import RecallFile
from memu_fs.secret_scan import SecretFinding, find_secrets
from memu_fs.store import Page
from memu_fs.trust import FORGOTTEN


@dataclass(frozen=True, slots=True)
class Built:
    """A recall file as the index will hold it."""

    state: FileState
    segments: tuple[Segment, ...]
    problems: tuple[Problem, ...]


def build(
    page: Page, file_id: str, *, allow: Sequence[str] = (), forgotten: bool = False, times: Times | None = None
) -> Built:
    """Cut a page into segments. What holds a secret is left out and reported; nothing is written to the file."""
    read_at = time.time_ns()
    file = page.file
    status = FORGOTTEN if forgotten else file.status
    counts: Counter[str] = Counter()
    segments: list[Segment] = []
    problems = list(page.problems)
    for part in (file, *page.others):
        cuts, findings = _cuts(part, file, allow)
        problems += findings
        for cut in cuts:
            segment = _segment(cut, part, file, file_id, status, page.digest, counts[cut.text])
            counts[cut.text] += 1
            segments.append(segment)
    state = FileState(
        path=file.path,
        digest=page.digest,
        file_id=file_id,
        track=file.track,
        name=file.name,
        scope=file.scope,
        status=status,
        hints=page.entry.hints,
        read_at=read_at,
        segments=len(segments),
        created_at=times.created_at if times else None,
        updated_at=times.updated_at if times else None,
        problems=tuple(str(problem) for problem in problems),
    )
    return Built(state, tuple(segments), tuple(problems))


def embedding_text(segment: Segment) -> str:
    """Give what is embedded of a segment: its prefix, then its text."""
    return f"{segment.prefix}\n{segment.text}" if segment.prefix else segment.text


def text_digest(text: str) -> str:
    """Give the key under which a vector is kept for reuse."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _cuts(part: RecallFile, file: RecallFile, allow: Sequence[str]) -> tuple[list[Slice], list[Problem]]:
    problems = []
    if lines := find_markers(part.body):
        line = lines[0] + part.body_line
        problems.append(Problem(part.path, line, "conflict-markers", "git conflict markers; resolve them", "error"))
    findings = find_secrets(part.header + part.raw_body, allow=allow)
    cuts = list(slice_markdown(blank_markers(part.body), first_line=part.body_line, title=file.title))
    if (part is file and file.track == "skill") or (part is file and not cuts):
        cuts = [*_head(part), *cuts]
    elif part is file and cuts and not (findings and find_secrets(file.description, allow=allow)):
        cuts[0] = _described(cuts[0], file.description)
    for finding in findings:
        message = f"looks like a secret ({finding.rule}); the passage is not indexed"
        problems.append(Problem(part.path, finding.line, "secret", message, "error"))
    return [cut for cut in cuts if not findings or not _holds(cut, part, findings, allow)], problems


def _holds(cut: Slice, part: RecallFile, findings: Sequence[SecretFinding], allow: Sequence[str]) -> bool:
    """Say whether a slice or what stands before it holds a secret."""
    text = part.header + part.raw_body
    for finding in findings:
        last = finding.line + text.count("\n", finding.start, finding.end)
        if cut.lines[0] <= last and finding.line <= cut.lines[1]:
            return True
    return bool(find_secrets(cut.prefix, allow=allow))


def _head(file: RecallFile) -> list[Slice]:
    """Give a slice for name and description, which stand in the front matter."""
    if not file.description and not file.meta.get("name"):
        return []
    lines = [line for key in ("name", "description") if (line := file.line_of(key))] or [1]
    text = "\n".join(dict.fromkeys(word for word in (file.title, file.description) if word))
    return [Slice(text=text, prefix="", heading="", start=0, end=0, lines=(min(lines), max(lines)))]


def _described(cut: Slice, description: str) -> Slice:
    prefix = "\n".join(word for word in (cut.prefix, description) if word)
    return Slice(cut.text, prefix, cut.heading, cut.start, cut.end, cut.lines)


def _segment(
    cut: Slice, part: RecallFile, file: RecallFile, file_id: str, status: str, digest: str, occurrence: int
) -> Segment:
    return Segment(
        id=segment_id(file_id, cut.text, occurrence),
        file_id=file_id,
        track=file.track,
        name=file.name,
        path=part.path,
        heading=cut.heading,
        prefix=cut.prefix,
        text=cut.text,
        line_start=cut.lines[0],
        line_end=cut.lines[1],
        status=status,
        valid_from=file.valid_from,
        valid_until=file.valid_until,
        scope=file.scope,
        digest=digest,
        terms=" ".join(analyse(f"{cut.prefix}\n{cut.text}")),
    )
