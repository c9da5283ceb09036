"""Folder events on Linux: every folder of a store in one queue, read in order, with nothing held back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from memu_fs.inotify import ARRIVES, CHANGES, ENDS, Event, NoEventsError, Queue
from memu_fs.store import make_private
from memu_fs.watch_names import COOKIES, TOP_FOLDERS, TOP_NAMES, is_noise


class FolderEvents:
    """Watches the folders of a store and calls ``changed`` for everything that may matter.

    ``lost`` is called with a reason when events can no longer be relied on.
    """

    def __init__(self, root: Path, changed: Callable[[], None], lost: Callable[[str], None]) -> None:
        self._root = root
        self._changed, self._lost = changed, lost
        self._lock = threading.RLock()  # held while the queue is read, so that what was read has also been counted
        self._folders: dict[int, Path] = {}  # by watch descriptor
        self._partial = {root}  # of these folders only the paths in _wanted matter
        self._wanted = {root / name for name in TOP_NAMES}
        self._cookie, self._is_cookie_seen = root.joinpath(*COOKIES, str(os.getpid())), False
        self._queue: Queue | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch every folder there is and read events until stopped."""
        try:
            self._queue = Queue()
        except NoEventsError as error:
            self._lost(str(error))
            return
        self._thread = threading.Thread(target=self._read, args=(self._queue,), name="memu-fs-watch", daemon=True)
        self._thread.start()
        self.check()

    def stop(self) -> None:
        """Stop reading and give everything back."""
        with self._lock:
            if self._queue is not None:
                self._queue.ring()
        if self._thread is not None:
            self._thread.join()

    def settle(self, timeout: float) -> bool:
        """Count every change made before this call: the kernel has queued them all by now, so reading is enough."""
        if not self._lock.acquire(timeout=max(timeout, 0)):
            return False
        try:
            return self._attempt(lambda _: None)
        finally:
            self._lock.release()

    def check(self) -> None:
        """Watch what escaped watching, and show with a file of our own that events still arrive."""
        with self._lock:
            done = self._attempt(self._cover_root) and self._attempt(self._leave_cookie)
            if done and not self._is_cookie_seen:
                self._fail("this file system reports no changes")

    def _read(self, queue: Queue) -> None:
        while queue.wait():
            with self._lock:
                self._attempt(lambda _: None)
        with self._lock:
            self._queue = None
            queue.close()

    def _attempt(self, action: Callable[[Queue], None]) -> bool:
        """Do something, then read the queue empty; ``False`` when the kernel refuses, which ends the reading."""
        if self._queue is None:
            return False
        try:
            action(self._queue)
            self._drain(self._queue)
        except NoEventsError as error:
            self._fail(str(error))
            return False
        return True

    def _fail(self, reason: str) -> None:
        self._lost(reason)
        if self._queue is not None:
            self._queue.ring()

    def _drain(self, queue: Queue) -> None:
        while events := queue.read():
            # Each is looked at, since it may be a new folder to watch. Only then is the change made known.
            if any([self._see(queue, event) for event in events]):
                self._changed()

    def _see(self, queue: Queue, event: Event) -> bool:
        """Take one event in and say whether it may matter."""
        if event.is_overflow:
            self._is_cookie_seen = True  # its event may be among those that were dropped
            self._cover_root(queue)
            return True
        folder = self._folders.get(event.wd)
        if folder is None or event.is_last:
            self._folders.pop(event.wd, None)
            return False
        if not event.name:
            return event.is_end and self._see_end(queue, folder)
        return self._see_name(queue, event, folder)

    def _see_name(self, queue: Queue, event: Event, folder: Path) -> bool:
        path = folder / event.name
        self._is_cookie_seen |= path == self._cookie
        if path not in self._wanted and (folder in self._partial or is_noise(event.name, is_folder=event.is_folder)):
            return False
        if event.is_departure:
            self._forget(queue, path)
        if path == self._root:
            self._cover_root(queue)
        elif event.is_arrival:
            self._cover(queue, path)
        return True

    def _see_end(self, queue: Queue, folder: Path) -> bool:
        if folder == self._root:
            self._forget(queue, folder)
            self._cover_root(queue)
        return True

    def _cover_root(self, queue: Queue) -> None:
        """Watch the store; while there is none, watch the folder it would appear in."""
        above = self._root.parent
        if self._add(queue, self._root) is None:
            self._partial.add(above)
            self._wanted.add(self._root)
            self._add(queue, above, ARRIVES)
            if self._add(queue, self._root) is None:  # it did not appear meanwhile either
                return
        if above in self._partial:
            self._partial.discard(above)
            self._drop(queue, [wd for wd, path in self._folders.items() if path == above])
        for name in TOP_FOLDERS:
            self._cover(queue, self._root / name)

    def _cover(self, queue: Queue, start: Path) -> None:
        """Watch a folder and all below it: first watch, then look, so that nothing appears unseen in between."""
        pending: list[Path] = [start]
        done: set[int] = set()
        while pending:
            path = pending.pop()
            folder = self._follow(queue, path) if _is_link(path) else path
            wd = self._add(queue, folder) if folder is not None else None
            if folder is None or wd is None or wd in done:
                continue
            done.add(wd)
            self._partial.discard(folder)
            pending += _folders_and_links(folder)

    def _follow(self, queue: Queue, link: Path) -> Path | None:
        """Give the folder in the store that a link leads to; of a linked file watch the folder it lies in."""
        try:
            target = link.resolve()
        except (OSError, RuntimeError):  # a circle
            return None
        if not target.is_relative_to(self._root):
            return None
        if _is_folder(target):
            return target
        self._wanted.add(target)
        if target.parent not in self._folders.values():
            self._partial.add(target.parent)
            self._add(queue, target.parent)
        return None

    def _add(self, queue: Queue, folder: Path, mask: int = CHANGES | ENDS) -> int | None:
        wd = queue.add(folder, mask)
        if wd is not None:
            self._folders[wd] = folder
        return wd

    def _forget(self, queue: Queue, folder: Path) -> None:
        self._drop(queue, [wd for wd, path in self._folders.items() if path.is_relative_to(folder)])

    def _drop(self, queue: Queue, wds: list[int]) -> None:
        for wd in wds:
            del self._folders[wd]
            queue.remove(wd)

    def _leave_cookie(self, queue: Queue) -> None:
        """Write a file that the queue must tell of. Where nothing can be written there is nothing to wait for."""
        self._partial.add(self._cookie.parent)
        self._is_cookie_seen = True
        try:
            make_private(self._root)
            self._cookie.parent.mkdir(exist_ok=True)
        except OSError:
            return
        if self._add(queue, self._cookie.parent) is not None:
            self._is_cookie_seen = not _can_touch(self._cookie)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # what may not be looked at cannot be watched
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _can_touch(path: Path) -> bool:
    try:
        path.touch()
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _folders_and_links(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as items:
            return [
                Path(item.path)
                for item in items
                if not is_noise(item.name, is_folder=True) and (item.is_symlink() or item.is_dir())
            ]
    except OSError:  # gone again, or not ours to read
        return []
