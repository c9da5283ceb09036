"""The process that holds a store warm: one per store, under a lock, behind a private socket."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memu_fs import capture
from memu_fs.config import Config
from memu_fs.errors import MemuError
from memu_fs.files import replace_file
from memu_fs.launch import lock_of
from memu_fs.runtime import has_unix_sockets, socket_path
from memu_fs.server import Serving, application
from memu_fs.store import Store
from memu_fs.warm import WarmMemory
from memu_fs.watch import Watcher

if TYPE_CHECKING:
    import uvicorn

log = logging.getLogger("memu_fs.daemon")
#: How often the loop looks whether it should end.
_TICK_SECONDS = 1.0


class DaemonRunsError(MemuError):
    """Another process holds this store warm already."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"A daemon runs for {root} already. See it with: memu-fs daemon status")


class SocketError(MemuError):
    """Nothing can listen where the thin client looks."""

    def __init__(self, place: Path, reason: str) -> None:
        super().__init__(f"{place} cannot be listened on: {reason}. Set MEMU_FS_RUNTIME to another private folder.")


def run(store: Store, config: Config, *, idle_minutes: float | None) -> None:
    """Serve a store until stopped, or until nobody asked for ``idle_minutes``.

    Raises:
        DaemonRunsError: when the store has a daemon already.
        RuntimeFolderError, SocketError: when there is no private place to listen.
    """
    from filelock import Timeout

    lock = lock_of(store.root)
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

    listener, token = _listen(store)
    watcher = Watcher(store.root, notify=log.warning)
    memory = WarmMemory(store, config, watcher)
    watcher.start()
    stopping = threading.Event()
    serving = Serving(memory, token, stopping.set)
    settings = uvicorn.Config(
        application(serving), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(settings)
    passes = threading.Thread(target=_keep_level, args=(memory, watcher, stopping), name="passes")
    ending = threading.Thread(target=_end_when_due, args=(server, serving, stopping, idle_minutes), daemon=True)
    capture.install()
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises what it caught once more when it is done
        signal.signal(number, lambda _number, _frame: stopping.set())
    log.warning("serving %s, process %s", store.root, os.getpid())
    passes.start()
    ending.start()
    try:
        server.run(sockets=[listener])
    finally:
        stopping.set()
        with suppress(OSError):
            Path(socket_path(str(store.root))).unlink()
        watcher.stop()
        passes.join()
        memory.close()
        log.warning("ended, process %s", os.getpid())


def _listen(store: Store) -> tuple[socket.socket, str | None]:
    """Listen where the thin client looks. What a dead daemon left there is removed: we hold the lock."""
    place = Path(socket_path(str(store.root)))
    try:
        place.unlink(missing_ok=True)
        return _bind(place)
    except OSError as error:
        raise SocketError(place, error.strerror or str(error)) from None


def _bind(place: Path) -> tuple[socket.socket, str | None]:
    if has_unix_sockets():
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(place))
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(before)
        return listener, None
    listener, token = socket.socket(socket.AF_INET, socket.SOCK_STREAM), secrets.token_urlsafe(32)
    listener.bind(("127.0.0.1", 0))
    replace_file(place, f"{listener.getsockname()[1]} {token}".encode(), mode=0o600)
    return listener, token


def _keep_level(memory: WarmMemory, watcher: Watcher, stopping: threading.Event) -> None:
    """Bring the index level whenever the watcher wakes up; finish the pass in hand before ending.

    A daemon whose passes cannot go on is of no use: it ends, and the next call starts another.
    """
    try:
        memory.load_model()
        _run_pass(memory)
        memory.warm_up()
        while not stopping.is_set():
            if watcher.wait(_TICK_SECONDS) and not stopping.is_set() and _is_store(memory.stores[0].root):
                _run_pass(memory)
    finally:
        stopping.set()


def _run_pass(memory: WarmMemory) -> None:
    before = memory.sidecar.last_error
    memory.sidecar.run_pass()
    if memory.sidecar.last_error not in (None, before):
        log.warning("pass failed: %s", memory.sidecar.last_error)


def _end_when_due(
    server: uvicorn.Server, serving: Serving, stopping: threading.Event, idle_minutes: float | None
) -> None:
    root = serving.memory.sidecar.store.root
    place = _file_at(root)
    while not stopping.wait(_TICK_SECONDS):
        if why := _why_end(root, place, serving, idle_minutes):
            log.warning("ending: %s", why)
            break
    stopping.set()
    server.should_exit = True


def _why_end(root: Path, place: int | None, serving: Serving, idle_minutes: float | None) -> str | None:
    if idle_minutes is not None and time.monotonic() - serving.last_request > idle_minutes * 60:
        return f"nobody asked for {idle_minutes:g} minutes"
    if not _is_store(root):
        return "the store is gone"
    return "nobody can find its socket any more" if _file_at(root) != place else None


def _is_store(root: Path) -> bool:
    """Say whether the store is there still; a pass that ran while it was deleted may have left a folder behind."""
    try:
        Store(root)
    except MemuError:
        return False
    return True


def _file_at(root: Path) -> int | None:
    """Give the inode of what lies where clients look for a store's daemon."""
    try:
        return Path(socket_path(str(root))).stat().st_ino
    except OSError:
        return None
