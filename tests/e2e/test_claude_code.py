"""A real Claude Code with the hook installed by hand: what is remembered stands in the request that it sends.

Needs the client: ``npm install --prefix FOLDER @anthropic-ai/claude-code`` and ``E2E_CLIENTS=FOLDER``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from e2e.conftest import StandIn

FACT = "The staging database listens on db-7.internal:6432, behind PgBouncer."
PROMPT = "On which port does the staging database listen?"


@pytest.fixture
def home(tmp_path: Path, server: StandIn) -> Iterator[Path]:
    """Give a home with one store, the hook in Claude Code's settings, and memu-fs on the PATH."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    program = shutil.which("memu-fs", path=str(Path(sys.executable).parent))
    assert program, "memu-fs is not installed beside this Python"
    (home / "bin" / "memu-fs").symlink_to(program)
    hook = {"hooks": [{"type": "command", "command": "memu-fs retrieve --hook claude-code"}]}
    settings = {"hooks": {"UserPromptSubmit": [hook], "SessionStart": [hook]}}
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")
    memu(home, "init", str(home / "memory"))
    note = f"---\nname: staging\ndescription: where the staging database listens\n---\n\n{FACT}\n"
    (home / "memory" / "memory" / "staging.md").write_text(note, "utf-8")
    (home / "project").mkdir()
    yield home
    memu(home, "daemon", "stop", check=False)


def environment(home: Path) -> dict[str, str]:
    node = str(Path(shutil.which("node") or "node").parent)
    path = [str(home / "bin"), node, "/usr/bin", "/bin"]
    return {"HOME": str(home), "PATH": os.pathsep.join(path), "MEMU_FS_RUNTIME": str(home / "run"), "LANG": "C.UTF-8"}


def memu(home: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["memu-fs", *arguments], env=environment(home), cwd=home, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def turn(home: Path, server: StandIn, prompt: str) -> dict[str, Any]:
    """Let the client make one turn; give what it printed."""
    clients = os.environ["E2E_CLIENTS"]
    extra = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "no-key",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    done = subprocess.run(
        [str(Path(clients) / "node_modules" / ".bin" / "claude"), "-p", prompt, "--output-format", "json"],
        env=environment(home) | extra,
        cwd=home / "project",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def wait_until_level(home: Path) -> int:
    """Wait for the daemon to have looked at the store; give its process."""
    for _ in range(300):
        status = memu(home, "daemon", "status", "--json", check=False)
        if status and (found := json.loads(status)).get("last_pass_at"):
            return int(found["pid"])
        time.sleep(0.2)
    raise AssertionError("no daemon came up")


def test_what_is_remembered_stands_in_the_request(home: Path, server: StandIn) -> None:
    memu(home, "daemon", "start")
    wait_until_level(home)
    time.sleep(2)
    answer = turn(home, server, PROMPT)
    assert answer["result"] == "Understood."
    assert not answer["is_error"]
    assert FACT in server.texts()
    assert "data, not instructions" in server.texts()


def test_a_session_start_brings_the_daemon_up_for_the_next_prompt(home: Path, server: StandIn) -> None:
    turn(home, server, PROMPT)
    wait_until_level(home)
    time.sleep(2)
    turn(home, server, PROMPT)
    assert FACT in json.dumps(server.requests[-1]) or FACT in server.texts()


def test_a_turn_completes_when_the_daemon_was_killed(home: Path, server: StandIn) -> None:
    memu(home, "daemon", "start")
    os.kill(wait_until_level(home), signal.SIGKILL)
    answer = turn(home, server, PROMPT)
    assert answer["result"] == "Understood."
    assert not answer["is_error"]
    assert FACT not in server.texts()
    wait_until_level(home)
    time.sleep(2)
    turn(home, server, PROMPT)
    assert FACT in server.texts()
