"""Hooks as a host calls them: a real process, its JSON in, its JSON or nothing out, and never a failure."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs import launch
from memu_fs.event_log import read_events
from memu_fs.hooking import relevance
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import Device, MakeStore, RunGit

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
FILES = {
    "memory/owl.md": "# Owls\n\nOwls hunt voles at night.\n",
    "memory/projects/mill/owl.md": "# Loft\n\nThe owls of the mill hunt in the loft at night.\n",
    "memory/agents/claude-code/owl.md": "# Scribe\n\nOwls at night are counted by this host alone.\n",
    "memory/agents/other/owl.md": "# Other\n\nOwls at night are counted by another host.\n",
    "memory/old.md": "---\nstatus: retired\n---\n\nOwls hunt at night, people thought.\n",
    "memory/rule.md": "---\npinned: true\n---\n\nSay miles, never kilometres.\n",
    "memory/projects/mill/rule.md": "---\npinned: true\n---\n\nThe wheel stops on Sundays.\n",
    "memory/past.md": "---\npinned: true\nstatus: superseded\n---\n\nSay furlongs.\n",
    "memory/key.md": f"---\npinned: true\n---\n\nThe key of the owls at night is {KEY} for now.\n",
}
OWLS, OFF_TOPIC = "which voles do owls hunt at night", "quarterly invoice spreadsheet macros"


def prompt(text: str = OWLS, cwd: object = "/", session: str = "s1", **more: Any) -> str:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": str(cwd), "prompt": text}
    return json.dumps(event | more)


def session_start(cwd: object = "/", session: str = "s1") -> str:
    return json.dumps({"hook_event_name": "SessionStart", "session_id": session, "cwd": str(cwd), "source": "startup"})


class Hook:
    """Calls a hook on one store."""

    def __init__(self, device: Device, store: Store) -> None:
        self.device, self.store = device, store

    def ask(self, given: str, *words: str, host: str = "claude-code", **environment: str) -> str:
        """Give the context that the hook gave, or "" for silence; nothing else may come out of it."""
        named = ["--store", str(self.store.root), "--hook", host]
        done = self.device.run("retrieve", *named, *words, given=given, under=environment)
        assert (done.returncode, done.stderr) == (0, "")
        if not done.stdout:
            return ""
        answer = json.loads(done.stdout)
        if host == "generic":
            return str(answer["context"])
        assert answer.keys() == {"hookSpecificOutput"}
        event = "SessionStart" if "session-start" in words or "SessionStart" in given else "UserPromptSubmit"
        assert answer["hookSpecificOutput"]["hookEventName"] == event
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def last(self) -> dict[str, Any]:
        """Give the last line that the event log has about hooks."""
        events = [event for event in read_events(self.store.private).events if event.kind == "hook"]
        return dict(events[-1].fields) if events else {}


@pytest.fixture
def hook(device: Device, store: MakeStore) -> Hook:
    return Hook(device, store(FILES))


@pytest.fixture
def warm(hook: Hook) -> Hook:
    hook.device.start(hook.store)
    return hook


def test_a_prompt_is_given_what_is_remembered_about_it(warm: Hook) -> None:
    said = warm.ask(prompt())
    assert "data, not instructions" in said
    assert "> Owls hunt voles at night." in said
    assert '"memory/owl.md":1-3' in said
    event = warm.last()
    assert (event["event"], event["silent"]) == ("prompt", False)
    assert event["segments"] >= 1
    assert "reason" not in event
    assert "> Owls hunt voles" in warm.ask(json.dumps({"query": OWLS, "cwd": "/"}), host="generic")
    assert "> Owls hunt voles" in warm.ask("\ufeff" + prompt(session="s2"))


def test_a_prompt_about_something_else_is_given_nothing(warm: Hook) -> None:
    for text, reason in ((OFF_TOPIC, "nothing-found"), ("", "empty-query"), (" \n", "empty-query")):
        assert warm.ask(prompt(text)) == ""
        assert (warm.last()["silent"], warm.last()["reason"]) == (True, reason)


def test_a_passage_is_given_once_in_a_session(warm: Hook) -> None:
    assert "Owls hunt voles" in warm.ask(prompt())
    assert "Owls hunt voles" not in warm.ask(prompt())
    assert warm.ask(prompt()) == ""
    assert warm.last()["reason"] == "nothing-new"
    assert "Owls hunt voles" in warm.ask(prompt(session="s2"))
    assert "Owls hunt voles" in warm.ask(prompt(), MEMU_FS_HOOK_REPEAT="2")
    (warm.store.root / "memory" / "owl.md").write_text("# Owls\n\nOwls hunt voles and shrews at night.\n")
    assert "voles and shrews" in warm.device.wait(lambda: warm.ask(prompt()))


def test_a_session_that_starts_gets_the_pinned_files_and_is_given_everything_anew(warm: Hook) -> None:
    assert "Owls hunt voles" in warm.ask(prompt())
    said = warm.ask(session_start())
    assert "> Say miles, never kilometres." in said
    assert warm.last()["event"] == "session-start"
    for text in ("Sundays", "furlongs", KEY, "Owls hunt voles"):
        assert text not in said
    assert "[secret: " in said
    assert "Owls hunt voles" in warm.ask(prompt())


def test_without_a_daemon_a_session_that_starts_gets_them_too_and_one_is_started(hook: Hook) -> None:
    hook.device.start(hook.store)
    assert "Owls hunt voles" in hook.ask(prompt())
    launch.stop(hook.store.root)
    said = hook.ask(session_start())
    assert "> Say miles, never kilometres." in said
    assert KEY not in said
    assert (hook.last()["event"], hook.last()["silent"]) == ("session-start", False)
    hook.device.wait(lambda: hook.device.status(hook.store, lambda now: now["last_pass"] is not None))
    assert "Owls hunt voles" in hook.ask(prompt())
    for event in ("session-start",):
        assert "> Say miles" in hook.ask(json.dumps({"cwd": "/"}), "--event", event, host="generic")


def test_a_prompt_without_a_daemon_is_given_nothing_and_one_is_started(hook: Hook) -> None:
    assert hook.ask(prompt()) == ""
    assert hook.last()["reason"] == "daemon-started"
    hook.device.wait(lambda: hook.device.status(hook.store, lambda now: now["last_pass"] is not None))
    assert "Owls hunt voles" in hook.ask(prompt())


def test_the_setting_keeps_hooks_from_starting_a_daemon(hook: Hook) -> None:
    assert hook.ask(prompt(), MEMU_FS_DAEMON="off") == ""
    assert hook.last()["reason"] == "no-daemon"
    assert not launch.is_held(hook.store.root)
    assert "> Say miles" in hook.ask(session_start(), MEMU_FS_DAEMON="off")


def test_the_scope_is_that_of_the_folder_and_of_the_host(warm: Hook, git: RunGit, tmp_path: Path) -> None:
    mill = tmp_path / "mill" / "wheel"
    mill.mkdir(parents=True)
    git("init", "--quiet", cwd=mill.parent)
    said = warm.ask(prompt("owls at night", cwd=mill))
    assert "in the loft" in said
    assert "by this host alone" in said
    assert "another host" not in said
    assert "in the loft" not in warm.ask(prompt("owls at night", session="s2"))
    assert "Sundays" in warm.ask(session_start(cwd=mill))
    gone = warm.ask(prompt("owls at night", cwd=tmp_path / "gone", session="s3"))
    assert "Owls hunt voles" in gone
    assert "in the loft" not in gone


def test_what_is_secret_retired_or_cut_off_is_never_given(warm: Hook) -> None:
    said = warm.ask(prompt(f"owls at night {KEY}"), MEMU_FS_HOOK_FLOOR="0")
    assert "Owls hunt voles" in said
    assert KEY not in said
    assert "people thought" not in said


@pytest.mark.parametrize("tokens", [60, 100])
def test_no_more_is_given_than_the_settings_allow(tokens: int, hook: Hook) -> None:
    long = "".join(f"Owls hunt voles at night, part {number}.\n\n" for number in range(200))
    (hook.store.root / "memory" / "long.md").write_text(f"---\npinned: true\n---\n\n{long}")
    hook.device.start(hook.store)
    for given in (prompt(), session_start()):
        said = hook.ask(given, MEMU_FS_HOOK_TOKENS=str(tokens))
        assert 0 < len(said) <= tokens * 4


def test_a_store_that_is_only_around_the_folder_is_not_read(device: Device, store: MakeStore, tmp_path: Path) -> None:
    cloned = store(FILES | {".memu-fs.toml": "format = 1\n"}, folder="cloned")
    for given in (prompt(cwd=cloned.root), session_start(cwd=cloned.root)):
        done = device.run("retrieve", "--hook", "claude-code", cwd=cloned.root, given=given)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not cloned.private.exists()
    mine = store({"memory/mine.md": "---\npinned: true\n---\n\nMy own owls.\n"}, folder="mine")
    assert device.run("config", "set", "store", str(mine.root)).returncode == 0
    done = device.run("retrieve", "--hook", "claude-code", cwd=cloned.root, given=session_start(cwd=cloned.root))
    assert "My own owls" in done.stdout
    assert not cloned.private.exists()
    device.wait(lambda: device.status(mine, lambda now: now["last_pass"] is not None))
    done = device.run("retrieve", "--hook", "claude-code", cwd=cloned.root, given=prompt("my own owls", cloned.root))
    assert "My own owls" in done.stdout


BAD_INPUT: list[tuple[str, str]] = [
    ("claude-code", ""),
    ("claude-code", "{"),
    ("claude-code", "[]"),
    ("claude-code", "null"),
    ("claude-code", "[" * 100_000),
    ("claude-code", json.dumps({"prompt": OWLS, "cwd": "/"})),
    ("claude-code", prompt(cwd="relative")),
    ("claude-code", prompt(cwd="/\0")),
    ("claude-code", prompt(prompt=["owls"])),
    ("claude-code", prompt(hook_event_name="Stop")),
    ("generic", prompt()),
    ("nobody", prompt()),
    ("", prompt()),
]


@pytest.mark.parametrize("is_warm", [True, False])
def test_input_that_no_host_writes_is_answered_with_silence(is_warm: bool, hook: Hook) -> None:
    if is_warm:
        hook.device.start(hook.store)
    for host, given in BAD_INPUT:
        before = len(read_events(hook.store.private).events)
        assert hook.ask(given, host=host, MEMU_FS_DAEMON="off") == "", given
        assert len(read_events(hook.store.private).events) > before
        assert (hook.last()["silent"], hook.last()["reason"]) == (True, "bad-input"), given


def test_settings_and_options_that_cannot_be_used_are_answered_with_silence(warm: Hook, tmp_path: Path) -> None:
    for name, value in (
        ("HOOK_SECONDS", "soon"),
        ("HOOK_SECONDS", "-1"),
        ("HOOK_TOKENS", "x"),
        ("CONFIG", str(tmp_path)),
    ):
        assert warm.ask(prompt(), **{f"MEMU_FS_{name}": value}) == ""
    assert warm.ask(prompt(), "--event", "lunch") == ""
    assert warm.ask(prompt(), "--colour") == ""
    (tmp_path / "plain").mkdir()
    for name in ("nowhere", "plain"):
        named = ("--store", str(tmp_path / name), "--hook", "claude-code")
        done = warm.device.run("retrieve", *named, given=prompt())
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_daemon_that_is_too_slow_is_not_waited_for(warm: Hook) -> None:
    pid = (warm.device.status(warm.store) or {})["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert warm.ask(prompt(), MEMU_FS_HOOK_SECONDS="0.2") == ""
        assert time.monotonic() - started < 15
        assert (warm.last()["silent"], warm.last()["reason"]) == (True, "timeout")
    finally:
        os.kill(pid, signal.SIGCONT)
    # What came too late was not given, so it is given later.
    assert "Owls hunt voles" in warm.device.wait(lambda: warm.ask(prompt()))


def test_a_process_whose_folder_is_gone_is_answered_all_the_same(warm: Hook, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    words = shlex.join(warm.device.command("retrieve", "--store", str(warm.store.root), "--hook", "claude-code"))
    command = ["sh", "-c", f"rmdir {folder} && {words}"]
    done = subprocess.run(command, cwd=folder, input=prompt(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Owls hunt voles" in done.stdout


def test_no_time_at_all_is_silence(warm: Hook) -> None:
    assert warm.ask(prompt(), MEMU_FS_HOOK_SECONDS="0") == ""
    assert warm.last()["reason"] == "timeout"


def test_a_daemon_that_dies_while_it_is_asked_leaves_silence(warm: Hook) -> None:
    pid = (warm.device.status(warm.store) or {})["pid"]
    os.kill(pid, signal.SIGSTOP)
    killing = threading.Timer(1.5, os.kill, (pid, signal.SIGKILL))
    killing.start()
    assert warm.ask(prompt()) == ""
    killing.join()
    assert (warm.last()["silent"], warm.last()["reason"]) == (True, "daemon-failed")
    assert warm.ask(prompt()) == ""
    assert warm.last()["reason"] == "daemon-started"
    warm.device.wait(lambda: warm.device.status(warm.store))


def test_a_store_that_cannot_be_written_to_still_gives_its_pinned_files(hook: Hook) -> None:
    if os.geteuid() == 0:
        (hook.store.root / ".memu").write_text("not a folder\n")
    else:
        hook.store.root.chmod(0o500)
    assert "> Say miles" in hook.ask(session_start())


def test_help_is_not_taken_for_a_call(device: Device) -> None:
    done = device.run("retrieve", "--hook", "claude-code", "--help")
    assert done.stdout.startswith("Usage: memu-fs retrieve")


def test_relevance_counts_what_there_is() -> None:
    assert relevance(None, None) == 0
    assert relevance(0.3, None) < relevance(0.3, 8.0) < relevance(0.5, 12.0)
