"""Start a daemon that outlives its starter, and talk to one that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memu_fs import thin
from memu_fs.config import Config
from memu_fs.errors import MemuError
from memu_fs.files import replace_file
from memu_fs.runtime import is_private, name_of, runtime_folder
from memu_fs.store import Store, make_private

if TYPE_CHECKING:
    from filelock import FileLock

START_SECONDS = 30.0
_MOST_LOG = 1_000_000
#: On Windows: no window, and no Ctrl+C that was meant for the starter.
_DETACHED = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


class RuntimeFolderError(MemuError):
    """The folder for sockets is not the user's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is not yours alone; remove it, or set MEMU_FS_RUNTIME to a private folder.")


def start(root: Path) -> subprocess.Popen[bytes] | None:
    """Start a store's daemon, detached; ``None`` when one runs already, or is starting or ending.

    Raises:
        RuntimeFolderError: when the folder for sockets is not the user's own.
        OSError: when the store cannot be written to.
    """
    if is_held(root):
        return None
    with _open_log(root) as output:
        return subprocess.Popen(
            # -P: Python would take modules from the current folder otherwise, and a store may be anyone's
            [sys.executable, "-P", "-m", "memu_fs", "watch", "--background", "--store", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=root.anchor,
            env=_environment(),
            start_new_session=True,
            creationflags=_DETACHED,
            close_fds=True,
        )


def start_for_next_time(store: Store, config: Config) -> bool:
    """Start a daemon unless the settings say no or the store cannot be written; say whether one was started."""
    try:
        note_configured(config)
        is_wanted = config.text("daemon") != "off" and os.access(store.root, os.W_OK)
        return is_wanted and start(store.root) is not None
    except (OSError, MemuError):  # the answer was given; a daemon is a convenience
        return False


def lock_of(root: Path) -> FileLock:
    """Give the lock that a store's daemon holds as long as it lives.

    Raises:
        RuntimeFolderError: when the folder for sockets is not the user's own.
    """
    from filelock import FileLock

    return FileLock(make_runtime_folder() / f"{name_of(str(root))}.lock", mode=0o600)


def is_held(root: Path) -> bool:
    """Say whether a store has a daemon, answering or not."""
    from filelock import Timeout

    try:
        with lock_of(root).acquire(timeout=0):
            return False
    except Timeout:
        return True


def wait_for(root: Path, starting: subprocess.Popen[bytes] | None = None) -> dict[str, Any] | None:
    """Wait until a store's daemon answers; give its status, or ``None`` when it ends before, or not in time."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        has_ended = starting is not None and starting.poll() is not None
        if answer := status(root):
            return answer
        if has_ended and not is_held(root):
            return None
        time.sleep(0.05)
    return None


def status(root: Path) -> dict[str, Any] | None:
    """Ask a store's daemon how it is; ``None`` when none runs."""
    return thin.exchange(str(root), "/status", {}, 5.0) or None


def stop(root: Path, seconds: float = 60.0) -> bool:
    """End a store's daemon and wait until it is gone; say whether one ran."""
    if not is_held(root):
        return False
    wait_for(root)
    thin.exchange(str(root), "/stop", {}, 5.0)
    end = time.monotonic() + seconds
    while is_held(root):
        if time.monotonic() > end:
            raise StillRunsError(root)
        time.sleep(0.02)
    return True


class StillRunsError(MemuError):
    """A daemon was told to end and has not."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"The daemon of {root} is finishing a pass; wait for it, or see: memu-fs daemon logs")


def note_configured(config: Config) -> None:
    """Leave a note of what is configured for the thin client, which cannot read TOML in its time."""
    if not config.path.is_file():
        return
    folder = make_runtime_folder()
    own = config.stores if config.source("store") == "file" else ()
    note = {
        "config": str(config.path),
        "status": thin.file_state(str(config.path)),
        "env": thin.config_variables(os.environ),
        "store": str(own[0].resolve()) if len(own) == 1 else None,
        "hook_seconds": config.number("hook_seconds"),
    }
    text = json.dumps(note).encode()
    target = folder / "configured.json"
    if not target.is_file() or target.read_bytes() != text:
        replace_file(target, text, mode=0o600)


def make_runtime_folder() -> Path:
    """Make the user's private folder for sockets.

    Raises:
        RuntimeFolderError: when it is there and others can write to it or read it.
    """
    folder = Path(runtime_folder())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(str(folder)):
        raise RuntimeFolderError(folder)
    return folder


def log_file(root: Path) -> Path:
    """Give the file that a store's daemon writes to when it runs in the background."""
    return root / ".memu" / "log" / "daemon.log"


def _open_log(root: Path) -> BinaryIO:
    make_private(root)
    file = log_file(root)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    if file.is_file() and file.stat().st_size > _MOST_LOG:
        file.replace(file.with_suffix(".1.log"))
    return file.open("ab")


def _environment() -> dict[str, str]:
    """Give the daemon's environment: with one heap for LanceDB's threads, and no path that needs this folder."""
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    for name in ("MEMU_FS_CONFIG", "MEMU_FS_RUNTIME"):
        if chosen := environment.get(name):
            environment[name] = str(Path(chosen).expanduser().absolute())
    return environment
