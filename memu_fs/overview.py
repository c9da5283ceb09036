"""What ``memu-fs status`` says: files, git, index."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memu_fs import git, launch
from memu_fs.errors import MemuError
from memu_fs.store import Store

if TYPE_CHECKING:
    from memu_fs.index.sidecar import Sidecar


@dataclass(frozen=True, slots=True)
class GitOverview:
    """The repository as it concerns the store."""

    top: str
    is_own: bool  #: the store is a repository by itself
    branch: str | None
    head: str
    state: str | None
    uncommitted: int | None  #: files of the store that are not committed as they are; ``None`` if git cannot say


@dataclass(frozen=True, slots=True)
class IndexOverview:
    """The index as it is published."""

    folder: str
    exists: bool
    stale: int
    files: int
    segments: int
    bytes: int
    space: str
    problems: tuple[str, ...]  #: passages that are not indexed, and why
    reason: str | None  #: why it cannot be used


@dataclass(frozen=True, slots=True)
class Overview:
    """A store at this moment."""

    store: str
    id: str
    files: dict[str, int]  #: by track
    git: GitOverview | None
    index: IndexOverview
    daemon: dict[str, Any] | None  #: what a running daemon says of itself

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs status --json``."""
        return asdict(self)


def look(store: Store, sidecar: Sidecar) -> Overview:
    """Look at a store without changing anything."""
    scan = sidecar.scan()
    daemon = launch.status(store.root)
    counts = Counter(entry.track for entry in scan.walk.entries)
    files = {track: counts[track] for track in ("memory", "skill", "workspace")}
    return Overview(str(store.root), str(store.marker.id), files, _git(store), _index(sidecar, scan.stale), daemon)


def _git(store: Store) -> GitOverview | None:
    found = git.repository(store.root)
    if found is None:
        return None
    own = found.top.resolve() == store.root
    paths = git.uncommitted(store.root)
    count = None if paths is None else len(paths)
    return GitOverview(str(found.top), own, found.branch, found.head, found.state, count)


def _index(sidecar: Sidecar, stale: int) -> IndexOverview:
    reason = None
    index = None
    try:
        index = sidecar.index()
    except MemuError as error:
        reason = str(error)
    states = index.files() if index else {}
    problems = tuple(problem for state in states.values() for problem in state.problems)
    return IndexOverview(
        folder=str(sidecar.location),
        exists=index is not None,
        stale=stale,
        files=len(states),
        segments=index.count() if index else 0,
        bytes=folder_bytes(sidecar.location),
        space=index.stamp.space if index else "",
        problems=problems,
        reason=reason,
    )


def folder_bytes(folder: Path) -> int:
    """Give the bytes of all files below a folder."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
