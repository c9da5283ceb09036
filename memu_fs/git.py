"""What memu-fs asks of git. Reading works without git; every answer is then empty."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from git import Git

#: Nothing that a store or a project configures may run, and no answer depends on the user's taste or language.
#: Paths are never patterns: ``[x].md`` is one file.
_QUIET = ("--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "log.showRoot=true")
#: Set inside a git hook, they would turn every command to the repository of that hook.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")
#: They do not go together with literal paths.
_PATHSPECS = ("GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS")
#: How long to wait for another git to let go of the index, in seconds.
_LOCK_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
_LAST_SECOND = 253_402_300_799  # of the year 9999
_LOG = (
    "log",
    "--reverse",
    "--topo-order",
    "--no-show-signature",
    "--format=%x01%at",
    "--name-status",
    "-M",
    "-z",
    "--relative",
)


@dataclass(frozen=True, slots=True)
class Times:
    """When git first and last saw a file, RFC 3339 in UTC."""

    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Repository:
    """The work tree around a folder."""

    top: Path
    common_dir: Path  #: shared by all worktrees of one repository
    head: str  #: commit id, or "" before the first commit
    branch: str | None  #: ``None`` when HEAD is detached
    state: str | None  #: ``merge``, ``rebase``, ``cherry-pick`` or ``revert`` in progress
    is_locked: bool  #: an ``index.lock`` is there

    @property
    def main_top(self) -> Path:
        """The folder of the main work tree."""
        return self.common_dir.parent if self.common_dir.name == ".git" else self.top


def is_installed() -> bool:
    """Say whether a git command can be run."""
    return _run(Path(os.sep), "version") is not None


def repository(folder: Path) -> Repository | None:
    """Describe the repository around ``folder``; ``None`` outside one, without git, or when git refuses."""
    answer = _run(folder, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    if answer is None or len(lines := answer.split("\n")) != 3:
        return None
    git_dir = Path(lines[1])
    common = (folder / lines[2]).resolve()
    head = _run(folder, "rev-parse", "--verify", "--quiet", "HEAD") or ""
    branch = _run(folder, "symbolic-ref", "--quiet", "--short", "HEAD")
    lock = (git_dir / "index.lock").exists()
    return Repository(Path(lines[0]), common, head, branch, _state(git_dir), lock)


def is_refused(folder: Path) -> bool:
    """Say whether there is a repository around ``folder`` that git will not use: damaged, or another user's."""
    found = any(os.path.lexists(above / ".git") for above in (folder, *folder.parents))
    return found and repository(folder) is None


def file_times(root: Path, *, since: str = "", known: Mapping[str, Times] | None = None) -> dict[str, Times] | None:
    """Read when each file below ``root`` was first and last changed, renames followed, in one pass.

    A file is as old as the oldest of the paths it was renamed from. Paths are relative to ``root``. With
    ``since``, a commit, only what came after it is read, on top of ``known``. ``None`` when that cannot give
    what a full pass would: history was rewritten, a path that is not known was renamed, or a merge brought
    something older than what is known.
    """
    if since and _run(root, "merge-base", "--is-ancestor", since, "HEAD") is None:
        return None
    before = dict(known or {})
    times = dict(before)
    renames: list[tuple[str, str]] = []
    log = _run(root, *_LOG, f"{since}..HEAD" if since else "HEAD", "--", ".") or ""
    for at, status, old, new in _log_entries(log):
        if status == "R":
            renames.append((old, new))
        if status != "D":
            seen = times.get(new, Times(at, at))
            times[new] = Times(min(at, seen.created_at), max(at, seen.updated_at))
    if since and any(old not in times for old, _ in renames):
        return None
    _inherit(times, renames)
    if any(times[path].created_at < time.created_at for path, time in before.items()):
        return None
    return times


def _inherit(times: dict[str, Times], renames: Sequence[tuple[str, str]]) -> None:
    """Make each file as old as what it was renamed from, whatever the order in which branches were merged."""
    changed = True
    while changed:
        changed = False
        for old, new in renames:
            if old in times and times[old].created_at < times[new].created_at:
                times[new] = Times(times[old].created_at, times[new].updated_at)
                changed = True


def has_seen(root: Path, commit: str, paths: Sequence[str]) -> bool:
    """Say whether one of these paths, from ``root``, was there in any commit up to ``commit``."""
    return bool(_run(root, "log", "-1", "--full-history", "--format=%H", commit, "--", *paths))


def project_of(folder: Path) -> tuple[str | None, Path]:
    """Give the normalised remote of the repository around ``folder`` and the folder that names the project.

    The remote is ``origin``, else the first; ``None`` when there is none.
    """
    found = repository(folder)
    if found is None:
        return None, folder.resolve()
    remotes = (_run(folder, "remote") or "").split()
    name = "origin" if "origin" in remotes else next(iter(remotes), None)
    url = _run(folder, "remote", "get-url", name) if name else None
    return (normalise_remote(url) if url else None), found.main_top


def normalise_remote(url: str) -> str | None:
    """Give ``host/owner/repository`` for any form of a remote's address; ``None`` for a local path."""
    text = url.strip()
    if "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return None
        if parts.scheme == "file" or not parts.hostname:
            return None
        host, path = parts.hostname, parts.path
    elif ":" in text and "/" not in text.partition(":")[0] and len(text.partition(":")[0]) > 1:
        host, _, path = text.rpartition("@")[2].partition(":")
    else:
        return None
    path = path.strip("/").removesuffix(".git").strip("/")
    return f"{host.lower()}/{path}" if path and ".." not in path.split("/") else None


def uncommitted(root: Path) -> list[str] | None:
    """Give the paths, from ``root``, that differ from the last commit, new files included; ``None`` if git fails."""
    prefix = _run(root, "rev-parse", "--show-prefix") or ""
    answer = _run(root, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--", ".")
    if answer is None:
        return None
    return [field[3:].removeprefix(prefix) for field in answer.split("\0") if len(field) > 3]


def init(folder: Path) -> bool:
    """Make ``folder`` a repository; say whether that worked."""
    return _run(folder, "init", "--quiet") is not None


def commit_paths(root: Path, paths: Sequence[str], message: str) -> str | None:
    """Commit exactly these paths; give the commit's id, or ``None`` where git cannot commit now.

    Other changes, staged or not, stay as they are. A project's hooks neither run nor block. While another git
    holds the index, it is tried again for a moment.
    """
    found = repository(root)
    if found is None or found.state is not None or not paths:
        return None
    for pause in (*_LOCK_PAUSES, None):
        if commit := _commit_now(root, paths, message):
            return commit
        again = repository(root)
        if pause is None or again is None or not (again.is_locked or found.is_locked):
            break
        found = again
        time.sleep(pause)
    return None


def _commit_now(root: Path, paths: Sequence[str], message: str) -> str | None:
    settings = ["-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgSign=false", "-c", "core.safecrlf=false"]
    if any(_run(root, "var", name) is None for name in ("GIT_COMMITTER_IDENT", "GIT_AUTHOR_IDENT")):
        settings += ["-c", "user.name=memu-fs", "-c", "user.email=memu-fs@localhost"]
    if _run(root, *settings, "add", "--intent-to-add", "--", *paths) is None:
        return None
    if _run(root, *settings, "commit", "--quiet", "--only", "--no-verify", "-m", message, "--", *paths) is None:
        return None
    return _run(root, "rev-parse", "HEAD")


def _log_entries(log: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (time, status letter, old path, new path) of ``git log --name-status -z``, oldest first."""
    at = ""
    fields = iter(log.split("\0"))
    for field in fields:
        status = field.lstrip("\n")
        if status.startswith("\x01"):
            second = min(max(int(status[1:].strip() or 0), 0), _LAST_SECOND)
            at = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        elif status[:1] in {"R", "C"}:
            old, new = next(fields, ""), next(fields, "")
            yield at, status[0], (old if status[0] == "R" else new), new
        elif status:
            path = next(fields, "")
            yield at, status[0], path, path


def _state(git_dir: Path) -> str | None:
    marks = {
        "MERGE_HEAD": "merge",
        "rebase-merge": "rebase",
        "rebase-apply": "rebase",
        "CHERRY_PICK_HEAD": "cherry-pick",
        "REVERT_HEAD": "revert",
    }
    return next((state for mark, state in marks.items() if (git_dir / mark).exists()), None)


def _run(folder: Path, *arguments: str) -> str | None:
    """Run git quietly; ``None`` when it fails or is not there."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    for name in (*_FOREIGN, *_PATHSPECS):
        os.environ.pop(name, None)
    import git

    command: Git = git.Git(folder)
    try:
        answer = command.execute(
            ["git", "-C", str(folder.absolute()), *_QUIET, *arguments],  # GitPython alone falls back to where we are
            env={"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            strip_newline_in_stdout=True,
            stdout_as_string=True,
        )
    except (git.GitCommandError, git.GitCommandNotFound, OSError):
        return None
    return str(answer)
