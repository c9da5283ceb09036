"""Stores made of a few files, real git, and nothing of the person who runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from memu_fs import launch
from memu_fs.store import Store

Files = Mapping[str, str | bytes]
MakeStore = Callable[..., Store]
RunGit = Callable[..., str]

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("dev", deadline=None, max_examples=60, suppress_health_check=_SLOW)
settings.register_profile("ci", deadline=None, max_examples=100, suppress_health_check=_SLOW)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


@pytest.fixture(autouse=True)
def isolation(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test an empty home: no settings, no git identity, no repository around the temporary folders."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("MEMU_FS_", "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    for name, folder in {"CONFIG": ".config", "CACHE": ".cache", "DATA": ".local/share", "STATE": ".state"}.items():
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    monkeypatch.setenv("MEMU_FS_DAEMON", "off")
    monkeypatch.setenv("MEMU_FS_RUNTIME", str(home / "run"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
    return home


@pytest.fixture
def store(tmp_path: Path) -> MakeStore:
    """Make a store of files: ``store({"memory/a.md": "text"})``; a second one with ``folder="other"``."""

    def make(files: Files | None = None, *, folder: str = "store") -> Store:
        root = tmp_path / folder
        for name in ("memory", "skill", "resource"):
            (root / name).mkdir(parents=True, exist_ok=True)
        write_files(root, files or {})
        return Store(root)

    return make


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunGit:
    """Run real git with a fixed identity: ``git("log", cwd=folder, at="2026-01-01T00:00:00Z")``."""
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Ada")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "ada@example.org")

    def run(*arguments: str, cwd: Path = tmp_path, at: str = "2026-01-01T00:00:00Z") -> str:
        dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        command = ["git", "-c", "init.defaultBranch=main", *arguments]
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **dates}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def git_store(store: MakeStore, git: RunGit) -> MakeStore:
    """Make a store that is a repository with everything committed."""

    def make(files: Files | None = None, *, folder: str = "store") -> Store:
        made = store(files, folder=folder)
        git("init", "--quiet", cwd=made.root)
        git("add", ".", cwd=made.root)
        git("commit", "--quiet", "--allow-empty", "-m", "Start", cwd=made.root)
        return made

    return make


class Device:
    """Real commands of a user with a private runtime folder, and the daemons that they start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "memu_fs", *words]

    def run(
        self, *words: str, cwd: Path | None = None, given: str = "", under: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=cwd or self.folder,
            env={**os.environ, **(under or {})},
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, store: Store) -> dict[str, Any]:
        """Start a store's daemon and wait until its first pass is done."""
        done = self.run("daemon", "start", "--store", str(store.root))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = self.wait(lambda: self.status(store, lambda now: now["last_pass"] is not None))
        return found

    def status(self, store: Store, fits: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any] | None:
        found = launch.status(store.root)
        return found if found and fits(found) else None

    def wait(self, find: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until something is found; a machine may be slow, so the bound is generous."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := find():
                return found
            time.sleep(0.02)
        raise AssertionError("what was waited for did not come")


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """Give a user whose commands may start daemons; what still runs at the end is stopped."""
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    monkeypatch.setenv("MEMU_FS_DAEMON", "auto")
    monkeypatch.setenv("MEMU_FS_DAEMON_IDLE_MINUTES", "2")
    monkeypatch.setenv("MEMU_FS_HOOK_SECONDS", "20")
    yield Device(tmp_path)
    runtime = Path(os.environ["MEMU_FS_RUNTIME"])
    if runtime.is_dir():
        runtime.chmod(0o700)
    for folder in tmp_path.rglob("memory"):
        launch.stop(folder.parent.resolve())


def write_files(root: Path, files: Files) -> None:
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write down what the transcripts of tests/cli print now")
