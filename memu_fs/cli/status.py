"""``memu-fs status``."""

from __future__ import annotations

from typing import Any

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import plural, print_json, say
from memu_fs.overview import GitOverview, IndexOverview


def status(store: StoreOption = None, json: JsonOption = False) -> None:
    """Say what the store holds and whether the index is level with it. Changes nothing.

    Example: memu-fs status --json
    """
    from memu_fs.local import sidecar_for
    from memu_fs.overview import look

    opened, config = open_store(store)
    found = look(opened, sidecar_for(opened, config))
    if json:
        print_json(found.as_json())
        return
    say(f"Store  {found.store}")
    counts = [plural(found.files["memory"], "memory", "memories"), plural(found.files["skill"], "skill")]
    say(f"Files  {', '.join([*counts, plural(found.files['workspace'], 'resource')])}")
    say(f"Git    {_about_git(found.git)}")
    say(f"Index  {_about_index(found.index)}")
    say(f"Daemon {_about_daemon(found.daemon)}")
    for problem in found.index.problems:
        say(f"       {problem}")


def _about_daemon(daemon: dict[str, Any] | None) -> str:
    if daemon is None:
        return "none runs"
    parts = [f"process {daemon['pid']}", f"{daemon['memory_mb']:.0f} MB", f"up {daemon['uptime'] / 60:.0f} min"]
    parts += [f"watches by {daemon['watcher']}"]
    if daemon["last_pass"]:
        parts += [f"last pass {daemon['last_pass']['files']} files in {daemon['last_pass_ms']:.0f} ms"]
    parts += [daemon["watcher_reason"]] if daemon["watcher_reason"] else []
    parts += [f"last pass failed: {daemon['last_error']}"] if daemon["last_error"] else []
    return ", ".join(parts)


def _about_git(git: GitOverview | None) -> str:
    if git is None:
        return "no repository"
    where = "own repository" if git.is_own else f"inside {git.top}"
    parts = [where, git.branch or "detached HEAD"]
    parts += [f"{git.state} in progress"] if git.state else []
    if git.uncommitted is None:
        return ", ".join([*parts, f"git cannot say what is committed: run git -C {git.top} status"])
    parts += [f"{git.uncommitted} not committed"] if git.uncommitted else ["all committed"]
    return ", ".join(parts)


def _about_index(index: IndexOverview) -> str:
    if index.reason:
        return index.reason
    if not index.exists:
        return "none yet: run memu-fs index"
    level = "level" if not index.stale else f"{index.stale} stale"
    size = f"{index.bytes / 1_000_000:.1f} MB"
    return f"{level}, {plural(index.files, 'file')}, {plural(index.segments, 'segment')}, {size}, {index.space}"
