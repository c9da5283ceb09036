"""Find every problem of every file of a store, with path and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memu_fs.conflict_markers import find_markers
from memu_fs.links import Link, map_links
from memu_fs.marker import MARKER
from memu_fs.problems import Problem
from memu_fs.recall_file import RecallFile
from memu_fs.secret_scan import find_secrets
from memu_fs.store import Page, Store, UnreadableFileError

#: The Agent Skills limits.
SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
SKILL_NAME_CHARS = 64
SKILL_DESCRIPTION_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a check found."""

    files: int
    problems: tuple[Problem, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs fixing; notices do not count."""
        return all(problem.level == "notice" for problem in self.problems)

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs check --json``."""
        return {"files": self.files, "problems": [problem.as_json() for problem in self.problems]}


def check_store(store: Store) -> Checkup:
    """Look at every file of a store; nothing is changed."""
    found = store.walk()
    pages: list[Page] = []
    problems = list(found.problems)
    for entry in found.entries:
        try:
            pages.append(store.read(entry))
        except UnreadableFileError as error:
            problems.append(Problem(entry.path, 0, "unreadable", error.reason, "error"))
    by_name = {(page.file.track, page.file.name): page.file for page in pages}
    forgotten = store.tombstones()
    for page in pages:
        problems += page.problems
        problems += _trust(page.file, by_name)
        problems += _skill(page.file) if page.file.track == "skill" else []
        if (page.file.track, page.file.name) in forgotten:
            problems.append(Problem(page.file.path, 0, "forgotten", "was forgotten and is back; it is not recalled"))
        for part in (page.file, *page.others):
            problems += _text(part, store)
    files = [part for page in pages for part in (page.file, *page.others)]
    for path, links in map_links(files).dangling.items():
        problems += [Problem(path, link.line, "link", _lost(link)) for link in links if not _is_file(store, path, link)]
    problems += _marker(store)
    return Checkup(len(pages), tuple(sorted(set(problems))))


def _lost(link: Link) -> str:
    return f"the link to {link.target} leads nowhere" if link.is_path else f"[[{link.target}]] leads nowhere"


def _is_file(store: Store, source: str, link: Link) -> bool:
    """Say whether a Markdown link leads to a file that is there, though it is no recall file."""
    return link.is_path and (store.root / source).parent.joinpath(link.target).is_file()


def _text(part: RecallFile, store: Store) -> Iterator[Problem]:
    for line in find_markers(part.body)[:1]:
        yield Problem(
            part.path, line + part.body_line, "conflict-markers", "git conflict markers; resolve them", "error"
        )
    for finding in find_secrets(part.header + part.raw_body, allow=store.marker.allowed_secrets):
        message = f"looks like a secret ({finding.rule}); the passage is not indexed"
        yield Problem(part.path, finding.line, "secret", message, "error")
    if not part.body.strip() and not part.description:
        yield Problem(part.path, 0, "empty", "holds no text", "notice")


def _trust(file: RecallFile, by_name: Mapping[tuple[str, str], RecallFile]) -> Iterator[Problem]:
    if file.conflict_of:
        message = f"a conflict copy of {file.conflict_of}; take over what it holds, then delete it"
        yield Problem(file.path, 0, "conflict-copy", message)
    successor = file.superseded_by
    if successor and (file.track, successor) not in by_name:
        yield Problem(
            file.path, file.line_of("superseded_by"), "superseded", f"its successor {successor} does not exist"
        )
    if file.status == "superseded" and not successor:
        yield Problem(file.path, file.line_of("status"), "superseded", "superseded, but superseded_by is missing")
    if file.valid_from and file.valid_until and file.valid_until < file.valid_from:
        yield Problem(file.path, file.line_of("valid_until"), "front-matter-value", "valid_until is before valid_from")


def _skill(file: RecallFile) -> Iterator[Problem]:
    if not file.description:
        yield Problem(file.path, 1, "skill", "a skill needs a description that says what it does and when to use it")
    elif len(file.description) > SKILL_DESCRIPTION_CHARS:
        message = f"the description is longer than {SKILL_DESCRIPTION_CHARS} characters"
        yield Problem(file.path, file.line_of("description"), "skill", message)
    name = file.meta.get("name")
    if not name:
        yield Problem(file.path, 1, "skill", "a skill needs a name")
    elif not SKILL_NAME.fullmatch(str(name)) or len(str(name)) > SKILL_NAME_CHARS:
        message = f"the name must be lower-case words joined by hyphens, at most {SKILL_NAME_CHARS} characters"
        yield Problem(file.path, file.line_of("name"), "skill", message)


def _marker(store: Store) -> Iterator[Problem]:
    if not (store.root / MARKER).is_file():
        yield Problem(MARKER, 0, "marker", "the store has no marker; give it one with: memu-fs init", "notice")
