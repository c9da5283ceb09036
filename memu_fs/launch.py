"""Start a daemon that outlives its starter, and talk to one that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from memu_fs import thin
from memu_fs.config import Config
from memu_fs.files import replace_file
from memu_fs.runtime import runtime_folder
from memu_fs.store import Store, make_private

START_SECONDS = 30.0


def start(root: Path) -> None:
    """Start a store's daemon, detached; when one runs already, the new one sees that and ends."""
    log = make_private(root) / "log" / "daemon.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-m", "memu_fs", "watch", "--background", "--store", str(root)]
    with log.open("ab") as output:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=root,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # glibc keeps a heap for each of LanceDB's threads otherwise
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            close_fds=True,
        )


def start_for_next_time(store: Store, config: Config) -> None:
    """Start a daemon after an answer without one, unless the settings say no; a failure is no failure of the answer."""
    try:
        note_configured(config)
        if config.text("daemon") == "auto" and os.access(store.root, os.W_OK):
            start(store.root)
    except OSError:
        return


def wait_for(root: Path, seconds: float = START_SECONDS) -> dict[str, Any] | None:
    """Wait until a store's daemon answers; give its status, or ``None`` when it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := status(root):
            return answer
        time.sleep(0.05)
    return None


def status(root: Path) -> dict[str, Any] | None:
    """Ask a store's daemon how it is; ``None`` when none runs."""
    return thin.exchange(str(root), "/status", {}, 5.0)


def stop(root: Path, seconds: float = 60.0) -> bool:
    """End a store's daemon and wait until it is gone; say whether one ran."""
    answer = status(root)
    if answer is None:
        return False
    thin.exchange(str(root), "/stop", {}, 5.0)
    end = time.monotonic() + seconds
    while time.monotonic() < end and _is_alive(int(answer["pid"])):
        time.sleep(0.02)
    return True


def note_configured(config: Config) -> None:
    """Leave a note of the configured store for the thin client, which cannot read TOML in its time."""
    folder = Path(runtime_folder())
    stores = config.stores
    if config.source("store") != "file" or len(stores) != 1 or not config.path.is_file():
        return
    make_runtime_folder()
    status = config.path.stat()
    note = {
        "config": str(config.path),
        "status": [status.st_mtime_ns, status.st_size],
        "env": thin.config_variables(),
        "store": str(stores[0].resolve()),
        "hook_seconds": config.number("hook_seconds"),
    }
    text = json.dumps(note).encode()
    target = folder / "configured.json"
    if not target.is_file() or target.read_bytes() != text:
        replace_file(target, text, mode=0o600)


def make_runtime_folder() -> Path:
    """Make the user's private folder for sockets."""
    folder = Path(runtime_folder())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Say whether a process has ended and only waits for its parent, as it does in a container without init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False
