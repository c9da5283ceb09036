"""Folder events on macOS and Windows: one watchdog observer over the whole store, so that events keep their order."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePath

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from memu_fs.store import make_private
from memu_fs.watch_names import COOKIES, matters

#: Reading a file is no change, and neither is the news that a folder holds other names than before.
_NO_CHANGES = frozenset({"opened", "closed_no_write"})
_CHECK_SECONDS = 2.0


class ObserverEvents(FileSystemEventHandler):
    """Watches a store as one tree and calls ``changed`` for everything that may matter.

    ``lost`` is called with a reason when events can no longer be relied on.
    """

    def __init__(self, root: Path, changed: Callable[[], None], lost: Callable[[str], None]) -> None:
        self._root = root
        self._changed, self._lost = changed, lost
        self._observer: BaseObserver | None = None
        self._numbers = itertools.count()
        self._awaited: dict[str, threading.Event] = {}

    def start(self) -> None:
        """Watch the tree until stopped."""
        observer = Observer()
        try:
            observer.schedule(self, str(self._root), recursive=True)
            observer.start()
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        self._observer = observer
        self.check()

    def stop(self) -> None:
        """Stop watching and give everything back."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None

    def settle(self, timeout: float) -> bool:
        """Write a file and wait for its event: by then every earlier change has been counted."""
        return self._observer is not None and self._is_cookie_seen(timeout) is True

    def check(self) -> None:
        """Show with a file of our own that events still arrive."""
        if self._observer is not None and self._is_cookie_seen(_CHECK_SECONDS) is False:
            self._lost("the system no longer reports changes here")

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Take one event in; each end of a move counts by itself."""
        if event.event_type in _NO_CHANGES or (event.is_directory and event.event_type == "modified"):
            return
        parts = [self._parts(os.fsdecode(path)) for path in (event.src_path, event.dest_path) if path]
        for path in parts:
            if path[:-1] == COOKIES and path[-1] in self._awaited:
                self._awaited[path[-1]].set()
        if any(matters(path, is_folder=event.is_directory) for path in parts):
            self._changed()

    def _parts(self, path: str) -> tuple[str, ...]:
        place = PurePath(path)
        return place.relative_to(self._root).parts if place.is_relative_to(self._root) else ()

    def _is_cookie_seen(self, timeout: float) -> bool | None:
        """Say whether a new file's event came in time; ``None`` when no file can be written."""
        name = f"{os.getpid()}-{next(self._numbers)}"
        cookie = self._root.joinpath(*COOKIES, name)
        seen = self._awaited[name] = threading.Event()
        try:
            make_private(self._root)
            cookie.parent.mkdir(exist_ok=True)
            cookie.touch()
            return seen.wait(timeout)
        except OSError:
            return None
        finally:
            del self._awaited[name]
            _remove(cookie)


def _remove(cookie: Path) -> None:
    try:
        cookie.unlink()
    except OSError:  # the store went away, or never let us write
        return
