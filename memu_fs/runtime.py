"""Where a store's daemon listens. Daemon and thin client share it, so it imports next to nothing."""

import os

#: Requests and answers of another number are not understood.
PROTOCOL = 1


def runtime_folder() -> str:
    """Give the user's private folder for sockets; it may not be there yet."""
    if chosen := os.environ.get("MEMU_FS_RUNTIME"):
        return chosen
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        return base + "/memu-fs"
    if os.name == "nt":
        return os.environ.get("LOCALAPPDATA", "C:") + "\\memu-fs\\run"
    return f"/tmp/memu-fs-{os.getuid()}"


def name_of(root: str) -> str:
    """Give the short name of a store's daemon: the FNV-1a hash of the store's real path (16 digits)."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(root):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def socket_path(root: str) -> str:
    """Give the path of the socket, or of the address file where there are no Unix sockets."""
    return f"{runtime_folder()}{os.sep}{name_of(root)}.sock"


def is_private(folder: str) -> bool:
    """Say whether a folder is ours alone, so that nobody else can have put a socket there."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    if os.name == "nt":
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def has_unix_sockets() -> bool:
    """Say whether the daemon listens on a Unix socket; else it listens on loopback and writes down port and token."""
    return os.name != "nt" and os.environ.get("MEMU_FS_SOCKET") != "tcp"
