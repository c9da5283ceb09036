"""Make a store, or make a store of what is there. Existing files are never touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from memu_fs import config_file, git
from memu_fs.config import Config, expanded
from memu_fs.errors import MemuError
from memu_fs.files import replace_file
from memu_fs.marker import MARKER, Marker, read_marker
from memu_fs.names import TRACKS
from memu_fs.store import make_private

_PROJECT_FILES = frozenset({"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "CLAUDE.md"})
_DEEP = 6


class NoRoomError(MemuError):
    """The folder cannot become a store."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot become a store: {reason}.")


@dataclass(frozen=True, slots=True)
class Initialised:
    """What ``init`` found and made."""

    root: Path
    made: tuple[str, ...]  #: folders and files, from the root
    repository: str  #: ``new``, ``existing``, ``inside <folder>`` or ``none``
    config: Path | None  #: the file that now names this store, or ``None`` when one is configured already
    config_mode: str | None
    configured: Path  #: the store that commands find from other folders
    outside: int  #: Markdown files in the folder that lie outside the tracks; they are not read

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs init --json``."""
        return {
            "store": str(self.root),
            "made": list(self.made),
            "repository": self.repository,
            "config": str(self.config) if self.config else None,
            "config_mode": self.config_mode,
            "configured": str(self.configured),
            "outside": self.outside,
        }


def initialise(folder: Path, config: Config) -> Initialised:
    """Make ``folder`` a store: track folders, marker, a git repository where there is none around it.

    The first store of a device becomes its configured one.

    Raises:
        NoRoomError: when the folder cannot be written or a file stands in the way.
    """
    root = expanded(folder).resolve()
    made: list[str] = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        read_marker(root)
        for name in TRACKS.values():
            if not (root / name).exists():
                (root / name).mkdir()
                made.append(f"{name}/")
            elif not (root / name).is_dir():
                raise NoRoomError(root, f"{name} is a file")
        if not (root / MARKER).exists():
            replace_file(root / MARKER, Marker(uuid4()).as_toml().encode())
            made.append(MARKER)
        make_private(root)
    except OSError as error:
        raise NoRoomError(root, error.strerror or str(error)) from None
    repository = _repository(root)
    changed, mode = _configure(root, config)
    configured = root if changed or not config.stores else config.stores[0]
    return Initialised(root, tuple(made), repository, changed, mode, configured, _count_outside(root))


def _count_outside(root: Path) -> int:
    """Count the Markdown files that lie outside the track folders; hidden folders are not looked into."""
    count = 0
    for folder, names, files in os.walk(root):
        names[:] = [] if folder.count(os.sep) - str(root).count(os.sep) > _DEEP else sorted(names)
        names[:] = [name for name in names if not name.startswith(".")]
        if Path(folder) == root:
            names[:] = [name for name in names if name not in TRACKS.values()]
        count += sum(name.endswith(".md") and name not in _PROJECT_FILES for name in files)
    return count


def _repository(root: Path) -> str:
    if not git.is_installed():
        return "none"
    found = git.repository(root)
    if found is not None:
        return "existing" if found.top.resolve() == root else f"inside {found.top}"
    if not git.init(root):
        return "none"
    git.commit_paths(root, [MARKER], "Start a memory store\n")
    return "new"


def _configure(root: Path, config: Config) -> tuple[Path | None, str | None]:
    if config.declared.get("store"):
        return None, None
    return config.path, config_file.set_value(config, "store", str(root))
