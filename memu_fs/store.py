"""A store: a folder of recall files. The only code that reads and writes them."""

from __future__ import annotations

import dataclasses
import errno
import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memu_fs import recall_file
from memu_fs.digests import digest_bytes, digest_parts, file_id
from memu_fs.errors import MemuError, UsageError
from memu_fs.files import replace_file
from memu_fs.marker import MARKER, Marker, read_marker
from memu_fs.names import FOLDERS, TRACKS, identity_of, path_for, split_reference
from memu_fs.problems import Problem
from memu_fs.recall_file import RecallFile
from memu_fs.walk import Entry, Walk, is_in_track, walk

PRIVATE_FOLDER = ".memu"
_PRIVATE_PARTS = ("index", "cache", "log")
TOMBSTONES = ".tombstones"
#: A larger file is reported and left out; it is no memory, and reading it would stall everyone.
MAX_FILE_BYTES = 16 * 1024 * 1024


class NotAStoreError(MemuError):
    """The folder is no store."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"{root} is not a store: it has none of the folders memory, skill, resource. "
            f"Make one there with: memu-fs init {root}"
        )


class NoSuchFileError(MemuError):
    """Nothing in the store has that name."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"There is no {reference}. See what there is with: memu-fs list")


class AmbiguousNameError(UsageError):
    """Several files have that name."""

    def __init__(self, reference: str, matches: Sequence[Entry]) -> None:
        super().__init__(f"{reference} is the name of several files; say which: {', '.join(e.path for e in matches)}")


class PrivateFolderError(MemuError):
    """The private folder of a store is not a folder of its own."""

    def __init__(self, private: Path) -> None:
        super().__init__(
            f"{private} is a symbolic link or a file. Remove it; to keep the index elsewhere, set index_location."
        )


class UnreadableFileError(MemuError):
    """A file of the store cannot be read, or is too large to be a memory."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}.")
        self.path = path
        self.reason = reason


class FileChangedError(MemuError):
    """The file is no longer what the writer last read."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed on disk since it was read. Read it again, then retry.")
        self.path = path


class FileNotWrittenError(MemuError):
    """The system refused a write; what was there before is still there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} was not written: {reason}. Nothing was changed.")


@dataclass(frozen=True, slots=True)
class Page:
    """A recall file with the parts that belong to it, as read at one moment."""

    entry: Entry
    file: RecallFile
    others: tuple[RecallFile, ...] = ()
    problems: tuple[Problem, ...] = ()  #: of the main file, the others, and parts that could not be read

    @property
    def digest(self) -> str:
        """The file's digest; for a skill with other Markdown files, one over all of them."""
        if not self.others:
            return self.file.digest
        return digest_parts((part.path, part.digest) for part in (self.file, *self.others))


class Store:
    """A folder with ``memory/``, ``skill/`` and ``resource/``."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        is_marked = (self.root / MARKER).is_file()  # git keeps no empty folders: a new store's clone has only this
        if not is_marked and not any((self.root / folder).is_dir() for folder in TRACKS.values()):
            raise NotAStoreError(root)

    @cached_property
    def marker(self) -> Marker:
        """What the store's committed marker says."""
        return read_marker(self.root)

    @property
    def private(self) -> Path:
        """The folder that is never committed."""
        return self.root / PRIVATE_FOLDER

    def walk(self) -> Walk:
        """List the recall files as they are now, without reading them."""
        return walk(self.root)

    def id_of(self, track: str, name: str) -> str:
        """Give a recall file's id."""
        return file_id(self.marker.id, track, name)

    def read(self, entry: Entry) -> Page:
        """Read one recall file whole.

        Raises:
            UnreadableFileError: when its main file is gone, unreadable or over the size limit.
        """
        main = dataclasses.replace(self.read_file(entry.path), name=entry.name)
        others: list[RecallFile] = []
        problems = list(main.problems)
        for found in entry.others:
            try:
                others.append(self.read_file(found.path))
                problems += others[-1].problems
            except UnreadableFileError as error:
                problems.append(Problem(found.path, 0, "unreadable", error.reason, "error"))
        return Page(entry, main, tuple(others), tuple(problems))

    def read_file(self, path: str) -> RecallFile:
        """Read and parse one file of the store by its path.

        Raises:
            UnreadableFileError: when it is gone, unreadable or over the size limit.
        """
        return recall_file.parse(path, self.read_bytes(path))

    def read_bytes(self, path: str) -> bytes:
        """Read one file's bytes.

        Raises:
            UnreadableFileError: when it is gone, unreadable or over the size limit.
        """
        try:
            with (self.root / path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnreadableFileError(path, error.strerror or str(error)) from None
        if len(data) > MAX_FILE_BYTES:
            raise UnreadableFileError(path, f"it is larger than {MAX_FILE_BYTES // 1024 // 1024} MB")
        return data

    def find(self, reference: str, *, visible: Callable[[Entry], bool] | None = None) -> Entry:
        """Find a visible recall file by ``track/name``, by its path, or by a name that only one file has.

        Raises:
            NoSuchFileError: when nothing has that name.
            AmbiguousNameError: when several files have it.
        """
        entries = [entry for entry in self.walk().entries if visible is None or visible(entry)]
        wanted = unicodedata.normalize("NFC", self._inside(reference).strip("/"))
        tests: list[Callable[[Entry], bool]] = [
            lambda entry: reference in {entry.path, *_full_names(entry)},
            lambda entry: wanted in _full_names(entry),
            lambda entry: wanted in {unicodedata.normalize("NFC", file.path) for file in entry.files},
            lambda entry: wanted in {entry.name, entry.name + ".md"},
            lambda entry: wanted == entry.name.rsplit("/", 1)[-1],
        ]
        for test in tests:
            matches = [entry for entry in entries if test(entry)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise AmbiguousNameError(reference, matches)
        raise NoSuchFileError(reference)

    def _inside(self, reference: str) -> str:
        """Give a path as it counts from the root when it was typed from elsewhere: ``./x`` or an absolute one."""
        path = Path(reference)
        if path.is_absolute() and path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return reference.removeprefix("./")

    def write(self, path: str, data: bytes, *, expected: str | None) -> str:
        """Replace a file if it still holds what the caller last saw; give the new digest.

        ``expected`` is the digest from the read, or ``None`` for a new file.

        Raises:
            FileChangedError: when the file holds something else; nothing is written.
            FileNotWrittenError: when the system refuses; nothing is changed.
        """
        identity_of(path)
        target = (self.root / path).resolve()
        if not target.is_relative_to(self.root) or not is_in_track(target.relative_to(self.root).as_posix()):
            raise FileNotWrittenError(path, "it would lie outside the store's tracks")
        try:
            found = digest_bytes(target.read_bytes()) if target.exists() else None
            if found != expected:
                raise FileChangedError(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, data)
        except OSError as error:
            raise FileNotWrittenError(path, _reason(error)) from None
        return digest_bytes(data)

    def tombstones(self) -> frozenset[tuple[str, str]]:
        """Give the (track, name) of everything that was forgotten."""
        folder = self.root / TOMBSTONES
        found: set[tuple[str, str]] = set()
        for where, _, names in os.walk(folder) if not folder.is_symlink() else ():
            inside = Path(where).relative_to(folder)
            if inside.parts and inside.parts[0] in FOLDERS:
                found.update(identity_of((inside / name).as_posix()) for name in names if name.endswith(".md"))
        return frozenset(found)


def make_private(root: Path) -> Path:
    """Make the private folder of a store, which git never sees and other users cannot read."""
    private = root / PRIVATE_FOLDER
    if wrong := private if private.is_file() else _first_link(private):
        raise PrivateFolderError(wrong)
    private.mkdir(mode=0o700, exist_ok=True)
    if not (private / ".gitignore").exists():
        replace_file(private / ".gitignore", b"*\n")
    return private


def _first_link(private: Path) -> Path | None:
    """Give a symbolic link in the private folder. A clone may come with some: nothing is written through them."""
    parts = [private, *(private / name for name in _PRIVATE_PARTS)]
    if link := next((part for part in parts if part.is_symlink()), None):
        return link
    for part in parts[1:]:
        for where, folders, files in os.walk(part):
            if link := next((path for name in (*folders, *files) if (path := Path(where, name)).is_symlink()), None):
                return link
    return None


def _full_names(entry: Entry) -> tuple[str, str]:
    return f"{entry.track}/{entry.name}", f"{TRACKS[entry.track]}/{entry.name}"


def new_path(reference: str) -> tuple[str, str, str]:
    """Give track, name and path for a new recall file.

    Raises:
        BadNameError: when the name cannot become a path inside the store.
    """
    track, name = split_reference(reference)
    return track, name, path_for(track, name)


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full"
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return "the store cannot be written to"
    return error.strerror or str(error)
