"""What ``memu-fs doctor`` proves, one link of the chain after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from memu_fs import git
from memu_fs.config import Config
from memu_fs.errors import MemuError
from memu_fs.local import LocalMemory
from memu_fs.scope import EVERYTHING
from memu_fs.store import Store, UnreadableFileError
from memu_fs.trust import is_recalled


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None  #: the command that mends it

    def as_json(self) -> dict[str, object]:
        """Give one row of ``memu-fs doctor --json``."""
        return asdict(self)


def diagnose(store: Store, config: Config) -> Iterator[Finding]:
    """Try the whole loop, from the store to a live retrieval."""
    memory = LocalMemory([store], config)
    steps: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("store", lambda: _store(store)),
        ("git", lambda: _git(store)),
        ("config", lambda: _config(config)),
        ("embedder", lambda: _embedder(memory)),
        ("index", lambda: _index(memory)),
        ("retrieve", lambda: _retrieve(memory)),
    )
    for name, step in steps:
        try:
            yield step()
        except MemuError as error:
            yield Finding(name, False, str(error), _FIXES.get(name))


_FIXES = {"index": "memu-fs index --rebuild", "embedder": "memu-fs config show", "retrieve": "memu-fs index --rebuild"}


def _store(store: Store) -> Finding:
    entries = store.walk().entries
    marker = store.marker
    return Finding("store", True, f"{store.root}, {len(entries)} recall files, id {marker.id}")


def _git(store: Store) -> Finding:
    if not git.is_installed():
        return Finding("git", False, "git is not installed or cannot be run", "install git")
    found = git.repository(store.root)
    if found is None and git.is_refused(store.root):
        return Finding("git", False, "git does not use the repository around it", f"git -C {store.root} status")
    if found is None:
        return Finding("git", False, "the store is in no git repository", f"git init {store.root}")
    if found.state:
        return Finding("git", False, f"a {found.state} is in progress", f"git -C {found.top} status")
    if found.is_locked:
        return Finding("git", False, "index.lock is there: git is running, or was killed", f"git -C {found.top} status")
    where = "its own repository" if found.top.resolve() == store.root else f"inside {found.top}"
    branch = found.branch or "detached HEAD"
    return Finding("git", True, f"{where}, {branch}")


def _config(config: Config) -> Finding:
    if not config.path.is_file():
        return Finding("config", True, f"no file at {config.path}; defaults and environment count")
    mode = config.path.stat().st_mode & 0o777
    if sys.platform != "win32" and mode & 0o077 and config.declared.get("embedder_key"):
        detail = f"{config.path} holds a key and other users can read it (mode {mode:04o})"
        return Finding("config", False, detail, f"chmod 600 {config.path}")
    return Finding("config", True, f"{config.path} (mode {mode:04o})")


def _embedder(memory: LocalMemory) -> Finding:
    embedder = memory.sidecars[0].embedder
    vector = embedder.embed_query("is anybody there")
    return Finding("embedder", True, f"{embedder.space} answers with {len(vector)} dimensions")


def _index(memory: LocalMemory) -> Finding:
    sidecar = memory.sidecars[0]
    index = sidecar.index()
    if index is None:
        return Finding("index", False, "there is none yet", "memu-fs index")
    if index.stamp != sidecar.stamp:
        return Finding("index", False, f"made with {index.stamp.space}, not with the settings of now", "memu-fs index")
    stale = sidecar.scan().stale
    if stale:
        return Finding("index", False, f"{stale} files are not level", "memu-fs index")
    return Finding("index", True, f"level, {len(index.files())} files, {index.count()} segments")


def _retrieve(memory: LocalMemory) -> Finding:
    """Ask for a file by its own name and see that it comes back."""
    import datetime

    store, today = memory.stores[0], datetime.date.today().isoformat()
    for entry in store.walk().entries:
        try:
            file = store.read(entry).file
        except UnreadableFileError:
            continue
        if not file.body.strip() or not is_recalled(file.status, file.valid_from, file.valid_until, today):
            continue
        where = {"scope": EVERYTHING, "track": file.track}
        answer = memory.progressive_retrieve(f"{file.title} {file.description}", where)
        names = [hit["name"] for hit in (*answer["files"], *answer["resources"])]
        if file.name in names:
            return Finding("retrieve", True, f"{file.track}/{file.name} is found by its name ({answer['mode']})")
        return Finding("retrieve", False, f"{file.track}/{file.name} is not found by its name", _FIXES["retrieve"])
    return Finding("retrieve", True, "nothing to look for yet")
