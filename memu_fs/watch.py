"""Say *that* something changed under a store, soon after it did. What to do about it is the caller's business."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Literal, Protocol

from memu_fs.mounts import remote_kind

#: A wake waits for events to be quiet this long, so that a checkout is one wake, but never longer than the second.
QUIET_SECONDS = 0.05
LONGEST_SECONDS = 0.5
#: How often a caller is woken where there are no events.
SCAN_SECONDS = 1.5

_log = logging.getLogger(__name__)


class Events(Protocol):
    """A source of folder events: calls ``changed`` for each, and ``lost`` once when it cannot go on."""

    def start(self) -> None:
        """Begin; returns when every folder is watched."""

    def stop(self) -> None:
        """End, and give back threads and descriptors."""

    def settle(self, timeout: float) -> bool:
        """Make sure that every change made before this call was counted; ``False`` when that cannot be shown."""

    def check(self) -> None:
        """Make sure that events still arrive."""


class Watcher:
    """Watches the folders of a store that hold recall files, by events or, where there are none, by the clock.

    Nothing is known of what happened before :meth:`start`, so the first :meth:`wait` returns at once and
    :meth:`is_quiet` is ``False`` until the first :meth:`take`.
    """

    def __init__(self, root: Path, *, interval: float = 30.0, notify: Callable[[str], None] = _log.warning) -> None:
        self._root = root.resolve()
        self._interval = interval
        self._notify = notify
        self._events: Events | None = None
        self._state = threading.Condition()
        self._count, self._taken = 1, 0
        self._first = self._last = self._looked = monotonic()
        self._stopped = False
        self.mode: Literal["events", "scanning"] = "events"
        self.reason: str | None = None  #: why it scans, in one sentence

    def start(self) -> None:
        """Watch from now on. A watcher is started once and stopped once."""
        kind = remote_kind(self._root)
        if kind is not None:
            self._fall_back(f"files on a remote file system ({kind}) can change without an event")
            return
        self._events = _events_for(self._root, self._count_change, self._fall_back)
        if self._events is None:
            self._fall_back("this system has no events for folders")
        else:
            self._events.start()

    def stop(self) -> None:
        """Stop watching; whoever waits is let go with ``False``."""
        with self._state:
            self._stopped = True
            self._state.notify_all()
        if self._events is not None:
            self._events.stop()

    def wait(self, timeout: float) -> bool:
        """Block until something may have changed or the interval is over; ``False`` when neither came in time.

        Changes are reported until they are taken.
        """
        deadline = monotonic() + timeout
        with self._state:
            while not self._stopped:
                now = monotonic()
                if self._is_pending() and now >= self._ready():
                    return True
                if now >= self._looked + self._pause():
                    self._looked = now
                    break
                if now >= deadline:
                    return False
                due = self._ready() if self._is_pending() else self._looked + self._pause()
                self._state.wait(min(due, deadline) - now)
            else:
                return False
        if self._events is not None and self.mode == "events":
            self._events.check()
        return True

    def settle(self, timeout: float) -> bool:
        """Make sure that every change made before this call has been counted; ``False``: the caller must scan."""
        if self._events is None or self.mode == "scanning":
            return False
        return self._events.settle(timeout) and self.mode == "events"

    def is_quiet(self) -> bool:
        """Say whether nothing happened since the last :meth:`take`; where there are no events nobody can say so."""
        with self._state:
            return self.mode == "events" and not self._is_pending()

    def take(self) -> None:
        """Begin to look at the files: what happens from now on is a new change."""
        with self._state:
            self._taken = self._count
            self._looked = monotonic()

    def _is_pending(self) -> bool:
        return self._count != self._taken

    def _ready(self) -> float:
        return min(self._last + QUIET_SECONDS, self._first + LONGEST_SECONDS)

    def _pause(self) -> float:
        return self._interval if self.mode == "events" else min(self._interval, SCAN_SECONDS)

    def _count_change(self) -> None:
        with self._state:
            self._last = monotonic()
            if not self._is_pending():
                self._first = self._last
                self._state.notify_all()
            self._count += 1

    def _fall_back(self, why: str) -> None:
        with self._state:
            if self.mode == "scanning":
                return
            self.mode = "scanning"
            self.reason = f"Changes in {self._root} are looked for every {self._pause():g} seconds: {why}."
        self._count_change()
        self._notify(self.reason)


def _events_for(root: Path, changed: Callable[[], None], lost: Callable[[str], None]) -> Events | None:
    """Choose the source of events of this system. kqueue is none: it holds a descriptor open for every file."""
    if sys.platform == "linux":
        from memu_fs.watch_inotify import FolderEvents

        return FolderEvents(root, changed, lost)
    if sys.platform in {"darwin", "win32"}:
        from memu_fs.watch_observer import ObserverEvents

        return ObserverEvents(root, changed, lost)
    return None
