"""Find the recall files of a store: names, sizes and times, without reading a byte of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from memu_fs.names import FOLDERS, SKILL_FILE, TRACKS, collision_key, identity_of
from memu_fs.problems import Problem
from memu_fs.scope import SHARED, scope_of


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
    """Look through the track folders; hidden names are left out, and so are links out of the store or a scope."""
    problems: list[Problem] = []
    entries: list[Entry] = []
    inside = root.resolve()
    for track, folder in TRACKS.items():
        found = list(_files(inside, folder, problems))
        entries += _skills(found) if track == "skill" else [_entry(file) for file in found]
    entries, collisions = _tell_apart(entries)
    entries.sort(key=lambda entry: (entry.track, entry.name))
    return Walk(tuple(entries), tuple(sorted([*problems, *collisions])))


def is_in_track(path: str) -> bool:
    """Say whether a path from the store's root lies in a track folder and nothing of it is hidden."""
    folder, _, rest = path.partition("/")
    return folder in FOLDERS and not any(part.startswith(".") for part in rest.split("/"))


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str  #: as it is named, through links
    real: str  #: where it lies, both from the store's root
    ancestors: frozenset[str] = frozenset()


def _files(root: Path, folder: str, problems: list[Problem]) -> Iterator[FoundFile]:
    real = _real(root, root / folder)
    if real is None or not is_in_track(real):
        problems.append(_outside(folder))
        return
    pending = [_Folder(folder, real)]
    while pending:
        here = pending.pop()
        try:
            with os.scandir(root / here.path) as listing:
                items = sorted(listing, key=lambda item: item.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = f"the folder cannot be read: {error.strerror}"
            problems.append(_problem(here.path, "unreadable", reason, "error"))
            continue
        for item in items:
            if not item.name.startswith("."):
                yield from _look(root, here, item, pending, problems)


def _look(
    root: Path, here: _Folder, item: os.DirEntry[str], pending: list[_Folder], problems: list[Problem]
) -> Iterator[FoundFile]:
    """Take one name: a folder to look into later, a Markdown file, or a problem."""
    path = f"{here.path}/{item.name}"
    try:
        real = f"{here.real}/{item.name}" if not item.is_symlink() else _target(root, item, path, problems)
        if real is None:
            return
        if item.is_dir():
            within = here.ancestors | {here.real}
            if real not in within:
                pending.append(_Folder(path, real, within))
        elif _is_recall_file(item, path, problems):
            if real != path and not _keeps_scope(path, real):
                problems.append(_problem(path, "symlink", "symbolic link into another scope, left out"))
            else:
                yield _found(path, item.stat())
    except OSError as error:
        problems.append(_problem(path, "unreadable", f"cannot be looked at: {error.strerror}", "error"))


def _target(root: Path, item: os.DirEntry[str], path: str, problems: list[Problem]) -> str | None:
    """Give the place that a symbolic link leads to, from the store's root; ``None`` when it must not be followed."""
    target = Path(item.path)
    if not target.exists():
        if item.name.endswith(".md"):
            problems.append(_problem(path, "symlink", "symbolic link to nothing, left out"))
        return None
    real = _real(root, target)
    if real is None or not is_in_track(real):
        problems.append(_outside(path))
        return None
    return real


def _is_recall_file(item: os.DirEntry[str], path: str, problems: list[Problem]) -> bool:
    if not item.name.endswith(".md"):
        if item.name.lower().endswith((".markdown", ".md", ".mdown", ".mkd")):
            problems.append(_problem(path, "extension", "left out: only *.md belongs to a store", "notice"))
        return False
    if not stat.S_ISREG(item.stat().st_mode):
        problems.append(_problem(path, "special-file", "not a regular file, left out"))
        return False
    if not path.isascii() and any("\ud800" <= char <= "\udfff" for char in path):
        problems.append(_problem(path, "name", "the file name is not valid UTF-8, left out; rename it", "error"))
        return False
    return True


def _keeps_scope(path: str, real: str) -> bool:
    """Say whether everyone who sees the link may see what it leads to."""
    link, target = scope_of(path), scope_of(real)
    return target in {SHARED, link} or (link != SHARED and target.startswith(link + "/"))


def _real(root: Path, target: Path) -> str | None:
    try:
        return target.resolve().relative_to(root).as_posix()
    except (OSError, RuntimeError, ValueError):
        return None


def _outside(path: str) -> Problem:
    return _problem(path, "symlink", "symbolic link leaves the store, left out")


def _problem(path: str, rule: str, message: str, level: str = "warning") -> Problem:
    return Problem(os.fsencode(path).decode("utf-8", "replace"), 0, rule, message, level)


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
    """Say whether the folder of this file is a skill; the folders of scopes and their owners never are."""
    is_scoped = path.startswith(("skill/projects/", "skill/agents/"))
    return path.endswith("/" + SKILL_FILE) and path.count("/") >= (4 if is_scoped else 2)


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
