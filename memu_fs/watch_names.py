"""Which names under a store mean that something may have changed."""

from __future__ import annotations

from collections.abc import Sequence

from memu_fs.marker import MARKER
from memu_fs.names import TRACKS
from memu_fs.store import PRIVATE_FOLDER, TOMBSTONES

#: What matters in the store's own folder; everything else there belongs to a project, git or the index.
TOP_FOLDERS = (*TRACKS.values(), TOMBSTONES)
TOP_NAMES = frozenset({*TOP_FOLDERS, MARKER})
#: Where a file is written whose event shows that events arrive.
COOKIES = (PRIVATE_FOLDER, "watch")

_DRAFT_SUFFIXES = ("~", ".swp", ".swo", ".swx", ".tmp")
_WRITE_TEST = "4913"  # Vim makes and removes this file to see whether it may write


def is_noise(name: str, *, is_folder: bool) -> bool:
    """Say whether a name is hidden, or is what an editor leaves beside the file it saves."""
    if name.startswith("."):
        return True
    if is_folder:
        return False
    return name.endswith(_DRAFT_SUFFIXES) or (name.startswith("#") and name.endswith("#")) or name == _WRITE_TEST


def matters(parts: Sequence[str], *, is_folder: bool) -> bool:
    """Say whether a change of this path, given from the store's root, may change what is recalled."""
    if not parts or parts[0] not in TOP_NAMES:
        return False
    *folders, name = parts[1:] or [""]
    return not (any(is_noise(folder, is_folder=True) for folder in folders) or is_noise(name, is_folder=is_folder))
