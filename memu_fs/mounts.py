"""Say what kind of file system a folder is on, where that decides whether changes are reported."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

#: Others can change files here without this machine's kernel knowing, so no event tells of it.
REMOTE = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "davfs", "drvfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
#: A file system in user space may show anything from anywhere; these are known to show this machine's own disk.
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs"})
MOUNTS = Path("/proc/self/mounts")


def remote_kind(folder: Path) -> str | None:
    """Name the remote file system a folder is on, or ``None`` when it is local or nobody can tell."""
    if folder.drive.startswith("\\\\"):
        return "network share"
    try:
        mounts = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    kind = kind_in(mounts, PurePosixPath(folder.as_posix()))
    return kind if kind is not None and is_remote(kind) else None


def is_remote(kind: str) -> bool:
    """Say whether files of this kind of file system can change without an event here."""
    if kind == "fuse" or kind.startswith("fuse."):
        return kind not in LOCAL_FUSE
    return kind in REMOTE


def kind_in(mounts: str, folder: PurePosixPath) -> str | None:
    """Give the type of the mount that holds a folder: the deepest one, and of equals the last."""
    best, depth = None, -1
    for line in mounts.splitlines():
        _, point, kind, *_ = (*line.split(" "), "", "", "")
        parts = len(PurePosixPath(_unescape(point)).parts)
        if point and parts >= depth and folder.is_relative_to(_unescape(point)):
            best, depth = kind, parts
    return best


def _unescape(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
