"""Remember which project a folder belongs to, until git's configuration of it changes."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from memu_fs.git import project_of

_Stat = tuple[str, int, int, int]


def remembered_project_of(folder: Path) -> tuple[str | None, Path]:
    """Give what ``git.project_of`` gives; git is asked again only when a file that decides it has changed."""
    real = folder.resolve()  # git looks for its repository above the real folder
    return _ask(str(real), _deciding_files(real))


@lru_cache(maxsize=256)
def _ask(folder: str, _deciding: tuple[_Stat, ...]) -> tuple[str | None, Path]:
    return project_of(Path(folder))


def _deciding_files(folder: Path) -> tuple[_Stat, ...]:
    """Look at the repository's configuration and the user's own; each by inode, size and time."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails where there is none
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [home / ".gitconfig", config / "git" / "config"]
    for above in (folder, *folder.parents):
        mark = above / ".git"
        if mark.is_dir():
            files += [mark / "config", mark / "HEAD"]
            break
        if mark.is_file():
            files += [mark, *_linked(above, mark)]
            break
    return tuple(_stat(file) for file in files)


def _linked(above: Path, mark: Path) -> list[Path]:
    """Follow the ``.git`` file of a worktree or a submodule to the configuration that it shares."""
    try:
        git_dir = above / mark.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
        shared = git_dir / "commondir"
        common = git_dir / shared.read_text("utf-8", "replace").strip() if shared.is_file() else git_dir
    except OSError:
        return []
    return [shared, common / "config", git_dir / "config.worktree"]


def _stat(file: Path) -> _Stat:
    try:
        status = file.stat()
    except OSError:
        return str(file), 0, 0, 0
    return str(file), status.st_ino, status.st_size, status.st_mtime_ns
