"""The numbered folders of an index: which one is in use, which is being built, and who may write.

``<location>/current`` holds the number of the folder in use. A folder with a higher number is a rebuild that
is not finished; one with a lower number is left over.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from memu_fs.index.base import IndexBusyError, IndexWriteError

_NUMBER = re.compile("[0-9]{1,12}")
GRACE = 60.0  #: seconds that readers may need to notice a new folder


def current_folder(location: Path) -> Path | None:
    """Give the folder in use; ``None`` where there is none yet."""
    number = _current(location)
    folder = location / str(number)
    return folder if number and folder.is_dir() else None


def unfinished_folder(location: Path) -> Path | None:
    """Give the newest rebuild that was started and not published."""
    newest = max(_numbers(location), default=0)
    return location / str(newest) if newest > _current(location) else None


def new_folder(location: Path) -> Path:
    """Make an empty folder for a rebuild, with a number above all others."""
    try:
        location.mkdir(parents=True, exist_ok=True)
        folder = location / str(max(*_numbers(location), _current(location), 0) + 1)
        folder.mkdir()
    except OSError as error:
        raise IndexWriteError(location, error.strerror or str(error)) from error
    return folder


def publish(location: Path, folder: Path) -> None:
    """Make a folder the one in use, atomically."""
    target, beside = location / "current", location / f"current.{os.getpid()}"
    try:
        with beside.open("w", encoding="ascii") as file:
            file.write(f"{int(folder.name)}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise IndexWriteError(location, error.strerror or str(error)) from error


def remove_old(location: Path, grace: float = GRACE) -> list[Path]:
    """Remove folders that are no longer in use; say which.

    The one before the current stays for ``grace`` seconds after the current was published: readers may still
    be in it.
    """
    current = _current(location)
    old = sorted(number for number in _numbers(location) if number < current)
    if old and time.time() - (location / "current").stat().st_mtime < grace:
        old.pop()
    return [_removed(location / str(number)) for number in old]


def remove_unfinished(location: Path) -> list[Path]:
    """Remove every rebuild that was not published; say which. For the writer, under its lock."""
    current = _current(location)
    return [_removed(location / str(number)) for number in _numbers(location) if number > current]


@contextlib.contextmanager
def writer_lock(location: Path, timeout: float) -> Iterator[None]:
    """Be the one writer of an index; wait at most ``timeout`` seconds. A dead writer holds no lock."""
    from filelock import FileLock, Timeout

    lock = FileLock(location / "lock")
    try:
        location.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=timeout)
    except Timeout as error:
        raise IndexBusyError(location) from error
    except OSError as error:
        raise IndexWriteError(location, error.strerror or str(error)) from error
    try:
        yield
    finally:
        lock.release()


def _current(location: Path) -> int:
    try:
        text = (location / "current").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if _NUMBER.fullmatch(text) else 0


def _numbers(location: Path) -> list[int]:
    if not location.is_dir():
        return []
    return sorted(int(f.name) for f in location.iterdir() if _NUMBER.fullmatch(f.name) and f.is_dir())


def _removed(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder
