"""Replay of tests/cli/*.txt: commands as a person types them, and what they print.

A line that starts with ``$`` is typed into a shell in an empty folder; what follows is what it prints, standard
error after standard output, and ``[exit N]`` if it fails. Paths, ids, digests and sizes are replaced by words.
``pytest --rewrite`` writes down what is printed now.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRANSCRIPTS = sorted((Path(__file__).parent / "cli").glob("*.txt"))
#: Whatever this git calls a first branch.
MAIN = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main"}

_WORDS = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b\d+(\.\d+)? (ms|MB)\b", r"N \2"),
)


def replay(transcript: str, folder: Path) -> str:
    """Run the commands of a transcript and give it with what they print now."""
    comments = [line for line in transcript.splitlines(keepends=True) if line.startswith("#")]
    commands = [line[2:] for line in transcript.splitlines() if line.startswith("$ ")]
    return "".join([*comments, *(f"$ {command}\n{run(command, folder)}" for command in commands)])


def run(command: str, folder: Path) -> str:
    """Run one line in a shell; give what it prints, made the same on every machine."""
    home = folder.parent
    place = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    place |= {"HOME": str(home), "MEMU_FS_CONFIG": str(home / "config.toml")}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, **place, **MAIN},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    said = (done.stdout + done.stderr).replace(str(folder), "HERE").replace(str(home), "HOME")
    for pattern, word in _WORDS:
        said = re.sub(pattern, word, said)
    if said and not said.endswith("\n"):
        said += "\n"
    return said + (f"[exit {done.returncode}]\n" if done.returncode else "")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_commands_print_what_the_transcript_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    folder, programs = tmp_path / "here", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (programs / "memu-fs").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m memu_fs "$@"\n')
    (programs / "memu-fs").chmod(0o755)
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    expected = path.read_text("utf-8")
    found = replay(expected, folder)
    if request.config.getoption("rewrite"):
        path.write_text(found, "utf-8")
    else:
        assert found == expected


def test_every_command_has_a_transcript() -> None:
    typed = "".join(path.read_text("utf-8") for path in TRANSCRIPTS)
    names = (
        "init",
        "index",
        "retrieve",
        "list",
        "show",
        "check",
        "status",
        "stats",
        "doctor",
        "config",
        "eval",
        "daemon",
    )
    assert [name for name in names if f"memu-fs {name}" not in typed] == []
