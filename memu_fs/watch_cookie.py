"""A file of our own in the store's private folder: where its event arrives, every earlier one has."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from memu_fs.store import PRIVATE_FOLDER, PrivateFolderError, make_private

#: Where cookies are written, from the store's root.
COOKIES = (PRIVATE_FOLDER, "watch")

_numbers = itertools.count()


def new_cookie(root: Path) -> Path | None:
    """Give a path that no cookie had, in a folder that exists; ``None`` where nothing can be written."""
    folder = root.joinpath(*COOKIES)
    try:
        make_private(root)
        folder.mkdir(exist_ok=True)
    except (OSError, PrivateFolderError):
        return None
    return None if folder.is_symlink() else folder / f"{os.getpid()}-{next(_numbers)}"


def write_cookie(cookie: Path) -> bool:
    """Make the file; ``False`` when the system refuses."""
    try:
        cookie.unlink(missing_ok=True)  # left by a process of the same number that was killed
        cookie.touch(exist_ok=False)
    except OSError:
        return False
    return True


def remove_cookie(cookie: Path) -> None:
    """Remove the file, if it is still there to be removed."""
    try:
        cookie.unlink()
    except OSError:
        return
