"""Replace files whole: beside the target, flushed, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(target: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write ``data`` to ``target`` so that a reader, a crash or a full disk never shows half of it.

    An existing file keeps its mode unless ``mode`` is given; a new one gets the usual mode of new files.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode if mode is not None else _mode_of(target))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def leads_away(folder: Path) -> bool:
    """Say whether a folder, or the one it lies in, is a symbolic link. A clone may come with some in ``.memu``."""
    return folder.is_symlink() or folder.parent.is_symlink()


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_of(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
