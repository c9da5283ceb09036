"""The process that holds a store warm: one per store, under a lock, behind a private socket."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from memu_fs import capture
from memu_fs.config import Config
from memu_fs.errors import MemuError
from memu_fs.files import replace_file
from memu_fs.launch import make_runtime_folder
from memu_fs.runtime import has_unix_sockets, is_private, name_of, runtime_folder, socket_path
from memu_fs.server import Serving, application
from memu_fs.store import Store
from memu_fs.warm import WarmMemory
from memu_fs.watch import Watcher

log = logging.getLogger("memu_fs.daemon")
#: How often the loop looks whether it should end.
_TICK_SECONDS = 1.0


class DaemonRunsError(MemuError):
    """Another process holds this store warm already."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"A daemon runs for {root} already. See it with: memu-fs daemon status")


class RuntimeFolderError(MemuError):
    """The folder for sockets is not the user's own."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is not yours alone; remove it, or set MEMU_FS_RUNTIME to a private folder.")


def run(store: Store, config: Config, *, idle_minutes: float | None) -> None:
    """Serve a store until stopped, or until nobody asked for ``idle_minutes``.

    Raises:
        DaemonRunsError: when the store has a daemon already.
    """
    from filelock import FileLock, Timeout

    make_runtime_folder()
    if not is_private(runtime_folder()):
        raise RuntimeFolderError(runtime_folder())
    lock = FileLock(Path(runtime_folder()) / f"{name_of(str(store.root))}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DaemonRunsError(store.root) from None
    try:
        _serve(store, config, idle_minutes)
    finally:
        lock.release()


def _serve(store: Store, config: Config, idle_minutes: float | None) -> None:
    import uvicorn

    watcher = Watcher(store.root, notify=log.warning)
    memory = WarmMemory(store, config, watcher)
    watcher.start()
    stopping = threading.Event()
    listener, token = _listen(store)
    serving = Serving(memory, token, stopping.set)
    settings = uvicorn.Config(
        application(serving), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(settings)
    passes = threading.Thread(target=_keep_level, args=(memory, watcher, stopping), name="passes")
    ending = threading.Thread(target=_end_when_due, args=(server, serving, stopping, idle_minutes), daemon=True)
    capture.install()
    log.warning("serving %s, process %s", store.root, os.getpid())
    passes.start()
    ending.start()
    try:
        server.run(sockets=[listener])
    finally:
        stopping.set()
        with suppress(FileNotFoundError):
            Path(socket_path(str(store.root))).unlink()
        watcher.stop()
        passes.join()
        memory.close()
        log.warning("ended, process %s", os.getpid())


def _listen(store: Store) -> tuple[socket.socket, str | None]:
    """Listen where the thin client looks. What a dead daemon left there is removed: we hold the lock."""
    place = Path(socket_path(str(store.root)))
    place.unlink(missing_ok=True)
    if has_unix_sockets():
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(place))
        finally:
            os.umask(before)
        return listener, None
    listener, token = socket.socket(socket.AF_INET, socket.SOCK_STREAM), secrets.token_urlsafe(32)
    listener.bind(("127.0.0.1", 0))
    replace_file(place, f"{listener.getsockname()[1]} {token}".encode(), mode=0o600)
    return listener, token


def _keep_level(memory: WarmMemory, watcher: Watcher, stopping: threading.Event) -> None:
    """Bring the index level whenever the watcher wakes up; finish the pass in hand before ending."""
    memory.sidecar.run_pass()
    memory.warm_up()
    while not stopping.is_set():
        if watcher.wait(_TICK_SECONDS) and not stopping.is_set():
            memory.sidecar.run_pass()
            if memory.sidecar.last_error:
                log.warning("pass failed: %s", memory.sidecar.last_error)


def _end_when_due(server: object, serving: Serving, stopping: threading.Event, idle_minutes: float | None) -> None:
    while not stopping.wait(_TICK_SECONDS):
        gone = not serving.memory.sidecar.store.root.is_dir()
        idle = idle_minutes is not None and time.time() - serving.last_request > idle_minutes * 60
        if idle or gone:
            log.warning("nobody asked for %s minutes" if idle else "the store is gone (%s)", idle_minutes)
            break
    stopping.set()
    server.should_exit = True  # type: ignore[attr-defined]
