"""The kernel's queue of folder events on Linux, with errors that say which limit was reached.

watchdog's own observer waits half a second for the other end of a move, gives each watched tree its own thread, and
says nothing when the kernel refuses to watch a sub-folder. So only its bindings are used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from watchdog.observers.inotify_c import InotifyConstants as In
from watchdog.observers.inotify_c import inotify_add_watch, inotify_init, inotify_rm_watch

from memu_fs.errors import MemuError

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import WatchDescriptor

#: A name was added, or may now be read.
ARRIVES = In.IN_CREATE | In.IN_MOVED_TO
#: Something about a name in a folder changed.
CHANGES = ARRIVES | In.IN_MOVED_FROM | In.IN_DELETE | In.IN_MODIFY | In.IN_CLOSE_WRITE | In.IN_ATTRIB
#: The watched folder itself is gone from its place.
ENDS = In.IN_DELETE_SELF | In.IN_MOVE_SELF

_HEAD = struct.Struct("iIII")
_BUFFER = 64 * 1024
_LIMITS = {
    errno.ENOSPC: "no more folders can be watched here; raise fs.inotify.max_user_watches",
    errno.EMFILE: "no more watchers can be started here; raise fs.inotify.max_user_instances",
    errno.ENFILE: "the system has too many files open",
    errno.ENOMEM: "the kernel has no memory left for watching folders",
}


class NoEventsError(MemuError):
    """The kernel has no room for more, or the queue is broken; the message says what a person can do."""

    def __init__(self, code: int | None) -> None:
        super().__init__(_LIMITS.get(code or 0) or os.strerror(code or 0))


class Event(NamedTuple):
    """One event as the kernel tells it: which watch, what, and the name in that folder if it is about one."""

    wd: int
    mask: int
    name: str

    @property
    def is_folder(self) -> bool:
        """The name is a folder's."""
        return bool(self.mask & In.IN_ISDIR)

    @property
    def is_departure(self) -> bool:
        """A folder was moved away from here."""
        return self.is_folder and bool(self.mask & In.IN_MOVED_FROM)

    @property
    def is_arrival(self) -> bool:
        """A name may now lead to something that it did not lead to before."""
        return bool(self.mask & (ARRIVES | In.IN_ATTRIB))

    @property
    def is_end(self) -> bool:
        """The watched folder was deleted, moved or unmounted."""
        return bool(self.mask & (ENDS | In.IN_UNMOUNT))

    @property
    def is_last(self) -> bool:
        """The kernel forgot the watch."""
        return bool(self.mask & In.IN_IGNORED)

    @property
    def is_overflow(self) -> bool:
        """The queue was full and events were dropped."""
        return bool(self.mask & In.IN_Q_OVERFLOW)


class Queue:
    """One inotify instance.

    Raises:
        NoEventsError: when the kernel gives no instance.
    """

    def __init__(self) -> None:
        self._handle = inotify_init()
        if self._handle == -1:
            raise NoEventsError(ctypes.get_errno())
        os.set_inheritable(self._handle, False)
        os.set_blocking(self._handle, False)
        self._bell = os.eventfd(0)

    def add(self, folder: Path, mask: int) -> int | None:
        """Watch a folder; ``None`` when it is no folder or may not be read.

        Raises:
            NoEventsError: when there is no room for more.
        """
        wd: int = inotify_add_watch(self._handle, os.fsencode(folder), mask | In.IN_ONLYDIR | In.IN_EXCL_UNLINK)
        if wd != -1:
            return wd
        code = ctypes.get_errno()
        if code in _LIMITS:
            raise NoEventsError(code)
        return None

    def remove(self, wd: int) -> None:
        """Watch a folder no more."""
        inotify_rm_watch(self._handle, cast("WatchDescriptor", wd))

    def read(self) -> list[Event]:
        """Take what is in the queue, some of it where it is long; nothing means that it is empty."""
        try:
            return list(_parse(os.read(self._handle, _BUFFER)))
        except BlockingIOError:
            return []
        except OSError as error:
            raise NoEventsError(error.errno) from None

    def wait(self) -> bool:
        """Block until there are events; ``False`` when the bell was rung."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        return self._bell not in {ready for ready, _ in poll.poll()}

    def ring(self) -> None:
        """Let whoever waits go, for good."""
        os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._handle)
        os.close(self._bell)


def _parse(data: bytes) -> Iterator[Event]:
    start = 0
    while start < len(data):
        wd, mask, _, length = _HEAD.unpack_from(data, start)
        start += _HEAD.size + length
        yield Event(wd, mask, os.fsdecode(data[start - length : start].rstrip(b"\0")))
