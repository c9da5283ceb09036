"""Which store a command means, and which scope it reads with. One rule for reading and writing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memu_fs.config import Config, expanded
from memu_fs.errors import MemuError
from memu_fs.git import repository
from memu_fs.marker import MARKER
from memu_fs.project_cache import remembered_project_of
from memu_fs.scope import Scope
from memu_fs.store import Store


class NoStoreError(MemuError):
    """No store was named and none was found."""

    def __init__(self) -> None:
        super().__init__("There is no store here and none is configured. Make one with: memu-fs init FOLDER")


class MissingStoreError(MemuError):
    """The named folder is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} does not exist. Make a store there with: memu-fs init {path}")


def find_stores(config: Config, named: Sequence[Path], cwd: Path) -> list[Store]:
    """Open the stores that a typed command means: named, else ``MEMU_FS_STORE``, else around ``cwd``, else configured.

    Raises:
        NoStoreError: when there is none.
        NotAStoreError: when a named folder is no store.
    """
    roots = list(named)
    if not roots and config.source("store") == "environment":
        roots = list(config.stores)
    if not roots and (around := store_around(cwd)):
        roots = [around]
    if not roots:
        roots = list(config.stores)
    if not roots:
        raise NoStoreError
    return [_open(root) for root in dict.fromkeys((cwd / expanded(root)).absolute() for root in roots)]


def store_around(folder: Path) -> Path | None:
    """Give the nearest folder at or above ``folder`` that carries a marker."""
    folder = folder.absolute()
    return next((above for above in (folder, *folder.parents) if (above / MARKER).is_file()), None)


def derive_scope(config: Config, store: Store, cwd: Path, agent: str | None = None) -> Scope:
    """Derive the reader's scope: the project of the working directory, and the host that asks.

    Inside a store's own repository there is no project.
    """
    return Scope(project_name(config, store, cwd), agent)


def project_name(config: Config, store: Store, cwd: Path) -> str | None:
    """Name the project of a working directory: its remote, else this device's name for the folder, else its own.

    A folder's own name gets a hyphen for each dot, so that a folder ``github.com`` is not taken for the host and
    does not see what belongs to its projects.
    """
    remote, folder = remembered_project_of(cwd)
    if folder == store.root or cwd.resolve().is_relative_to(store.root):
        return None
    for key in (remote, str(folder)):
        if key and key in config.projects:
            return config.projects[key]
    if remote:
        return remote
    return folder.name.replace(".", "-") or None


def is_own_repository(store: Store) -> bool:
    """Say whether the store is a repository by itself, rather than a folder inside a project's."""
    found = repository(store.root)
    return found is not None and found.top.resolve() == store.root


def _open(root: Path) -> Store:
    if not root.exists():
        raise MissingStoreError(root)
    return Store(root)
