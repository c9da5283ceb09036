"""Find the recall files of a store: names, sizes and times, without reading a byte of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from memu_fs.names import SKILL_FILE, TRACKS, collision_key, identity_of
from memu_fs.problems import Problem


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One Markdown file as the folder shows it."""

    path: str  #: from the store's root, forward slashes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def hint(self) -> str:
        """Size, times and inode: equal hints let a scan skip reading."""
        return f"{self.size}:{self.mtime_ns}:{self.ctime_ns}:{self.inode}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One recall file: its main file and, for a skill's folder, the other Markdown files in it."""

    track: str
    name: str
    main: FoundFile
    others: tuple[FoundFile, ...] = ()

    @property
    def path(self) -> str:
        """The path of the main file."""
        return self.main.path

    @property
    def files(self) -> tuple[FoundFile, ...]:
        """The main file, then the others in order of path."""
        return (self.main, *self.others)

    @property
    def hints(self) -> str:
        """The hints of all its files."""
        return "|".join(f"{file.path}:{file.hint}" for file in self.files)


@dataclass(frozen=True, slots=True)
class Walk:
    """All recall files in order of (track, name), and what was found on the way."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]


def walk(root: Path) -> Walk:
    """Look through the track folders. Hidden names are left out; links that leave the store are not followed."""
    problems: list[Problem] = []
    entries: list[Entry] = []
    inside = root.resolve()
    for track, folder in TRACKS.items():
        found = list(_files(inside, folder, problems))
        entries += _skills(found) if track == "skill" else [_entry(file) for file in found]
    entries, collisions = _tell_apart(entries)
    entries.sort(key=lambda entry: (entry.track, entry.name))
    return Walk(tuple(entries), tuple(sorted([*problems, *collisions])))


def _files(root: Path, folder: str, problems: list[Problem]) -> Iterator[FoundFile]:
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = [(folder, ())]
    while pending:
        here, ancestors = pending.pop()
        try:
            with os.scandir(root / here) as listing:
                items = sorted(listing, key=lambda item: item.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(Problem(here, 0, "unreadable", f"the folder cannot be read: {error.strerror}", "error"))
            continue
        if not here.count("/") and (root / here).is_symlink() and not _is_inside(root, root / here):
            problems.append(_outside(here))
            continue
        for item in items:
            path = f"{here}/{item.name}"
            if item.name.startswith("."):
                continue
            try:
                kind = _kind(root, item, path, problems)
                if kind == "folder":
                    real = (item.stat().st_dev, item.stat().st_ino)
                    if real not in ancestors:
                        pending.append((path, (*ancestors, real)))
                elif kind == "file":
                    yield _found(path, item.stat())
            except OSError as error:
                problems.append(Problem(path, 0, "unreadable", f"cannot be looked at: {error.strerror}", "error"))


def _kind(root: Path, item: os.DirEntry[str], path: str, problems: list[Problem]) -> str | None:
    """Say whether a name is a folder to look into, a Markdown file to read, or neither."""
    is_markdown = item.name.endswith(".md")
    if item.is_symlink():
        target = Path(item.path)
        if not target.exists():
            if is_markdown:
                problems.append(Problem(path, 0, "symlink", "symbolic link to nothing, left out"))
            return None
        if not _is_inside(root, target):
            problems.append(_outside(path))
            return None
    if item.is_dir():
        return "folder"
    if not is_markdown:
        if item.name.lower().endswith((".markdown", ".md", ".mdown", ".mkd")):
            problems.append(Problem(path, 0, "extension", "left out: only *.md belongs to a store", "notice"))
        return None
    if not stat.S_ISREG(item.stat().st_mode):
        problems.append(Problem(path, 0, "special-file", "not a regular file, left out"))
        return None
    if any("\ud800" <= char <= "\udfff" for char in path):
        shown = os.fsencode(path).decode("utf-8", "replace")
        problems.append(Problem(shown, 0, "name", "the file name is not valid UTF-8, left out; rename it", "error"))
        return None
    return "file"


def _is_inside(root: Path, target: Path) -> bool:
    try:
        return target.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _outside(path: str) -> Problem:
    return Problem(path, 0, "symlink", "symbolic link leaves the store, left out")


def _found(path: str, status: os.stat_result) -> FoundFile:
    return FoundFile(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _entry(main: FoundFile, others: tuple[FoundFile, ...] = ()) -> Entry:
    return Entry(*identity_of(main.path), main, others)


def _skills(found: list[FoundFile]) -> list[Entry]:
    """Give a skill's folder one entry: Markdown files beside or below its SKILL.md are part of it."""
    owners = {file.path.removesuffix("/" + SKILL_FILE): file for file in found if _is_skill_file(file.path)}
    others: dict[str, list[FoundFile]] = {folder: [] for folder in owners}
    entries = []
    for file in found:
        if _is_skill_file(file.path):
            continue
        folder = next((above for above in _folders_above(file.path) if above in owners), None)
        if folder is None:
            entries.append(_entry(file))
        else:
            others[folder].append(file)
    for folder, main in owners.items():
        entries.append(_entry(main, tuple(sorted(others[folder], key=lambda file: file.path))))
    return entries


def _is_skill_file(path: str) -> bool:
    return path.endswith("/" + SKILL_FILE) and path.count("/") >= 2


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _tell_apart(entries: list[Entry]) -> tuple[list[Entry], list[Problem]]:
    """Report files that share an identity. Each is then named by its own path, so that neither hides the other."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(collision_key(entry.track, entry.name), []).append(entry)
    kept: list[Entry] = []
    problems = []
    for group in groups.values():
        if len(group) == 1:
            kept += group
            continue
        paths = sorted(entry.path for entry in group)
        for entry in group:
            rest = ", ".join(path for path in paths if path != entry.path)
            message = f"its name is the same as that of {rest} on some systems; rename one of them"
            problems.append(Problem(entry.path, 0, "collision", message, "error"))
            kept.append(replace(entry, name=_literal_name(entry, group)))
    return kept, problems


def _literal_name(entry: Entry, group: list[Entry]) -> str:
    """Give a name that only this file has: its identity where that is unique, else its path as it stands."""
    if sum(other.name == entry.name for other in group) == 1:
        return entry.name
    return entry.path.partition("/")[2].removesuffix(".md")
