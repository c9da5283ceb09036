"""Killed at any moment, starved of disk, or two at once: the next pass gives what a rebuild gives."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memu_fs.index import folders
from memu_fs.index.embedder import EmbedderSettings
from memu_fs.index.sidecar import Sidecar
from memu_fs.store import Store

SCRIPT = Path(__file__).with_name("soak") / "kill_index.py"
spec = importlib.util.spec_from_file_location("kill_index", SCRIPT)
assert spec is not None
assert spec.loader is not None
kill_index = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kill_index)

HASHING = EmbedderSettings(embedder="hashing")
INDEX = [sys.executable, "-m", "memu_fs", "index", "--store"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")
    return kill_index.make_store(tmp_path / "store", random.Random(1))  # type: ignore[no-any-return]


def index(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INDEX, str(root), *options], capture_output=True, text=True, check=False)


def check_is_level(root: Path) -> None:
    kill_index.check_equals_rebuild(root, HASHING)


def test_an_index_killed_at_any_moment_is_made_good_by_the_next_pass(root: Path) -> None:
    assert kill_index.kill_often(root, HASHING, kills=10, seed=7) >= 3
    check_is_level(root)


def test_an_interrupted_rebuild_goes_on_without_embedding_again(root: Path) -> None:
    sidecar = Sidecar(Store(root), HASHING)

    class StoppedError(Exception):
        """Somebody pulled the plug."""

    def stop(_done: int, _total: int) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        sidecar.rebuild(progress=stop)
    assert folders.current_folder(sidecar.location) is None
    report = json.loads(index(root, "--json").stdout)
    assert (report["added"], report["segments"] >= 60, report["embedded"]) == (60, True, 0)
    assert folders.unfinished_folder(sidecar.location) is None
    check_is_level(root)


def test_two_writers_at_once_wait_for_each_other(root: Path) -> None:
    both = [subprocess.Popen([*INDEX, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted(b"0 changed" in out for out, _ in said) == [False, True]
    check_is_level(root)


def test_readers_never_fail_or_miss_a_file_during_rebuilds(root: Path) -> None:
    assert index(root).returncode == 0
    reader = Sidecar(Store(root), HASHING)
    asked = reader.embedder.embed_query("the lantern keeper")
    before = reader.index()
    assert before is not None
    paths = before.files().keys()
    rebuilds = [subprocess.Popen([*INDEX, str(root), "--rebuild"], stdout=subprocess.DEVNULL) for _ in range(2)]
    rounds = 0
    while any(one.poll() is None for one in rebuilds) or rounds == 0:
        now = reader.index()
        assert now is not None
        assert now.files().keys() == paths
        assert {hit.segment.path for hit in now.nearest(asked, kill_index.EVERYTHING, 1000)} == paths
        assert {hit.segment.path for hit in now.matching(["lantern"], kill_index.EVERYTHING, 1000)} == paths
        rounds += 1
    assert [one.returncode for one in rebuilds] == [0, 0]
    assert rounds > 3
    reader.close()


def test_a_question_during_a_long_index_is_answered(root: Path) -> None:
    assert index(root).returncode == 0
    location = root / ".memu" / "index"
    with folders.writer_lock(location, timeout=0):
        ask = ["retrieve", "--store", str(root), "--scope", "all", "--json", "lantern"]
        (root / "memory/page-0.md").write_text("Nothing is left of it.\n")
        done = subprocess.run([*INDEX[:3], *ask], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert len(answer["files"]) == 5
    assert (answer["stale"], answer["reason"]) == (1, "another process is writing the index")


def on_small_disk(root: Path, place: Path, size: int) -> subprocess.CompletedProcess[str]:
    """Index on a disk of so many kilobytes, or where that cannot be had, with files that may not grow beyond it."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
    environment = {**os.environ, "MEMU_FS_INDEX_LOCATION": str(place)}
    if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            return subprocess.run([*INDEX, str(root)], env=environment, capture_output=True, text=True, check=False)
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
    limited = ["sh", "-c", f'trap "" XFSZ; ulimit -f {max(size // 16, 1)}; exec "$@"', "sh", *INDEX, str(root)]
    return subprocess.run(limited, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("size", [32, 256])
def test_a_full_disk_is_said_and_harms_nothing(root: Path, tmp_path: Path, size: int) -> None:
    before = {path: path.read_bytes() for path in sorted(root.rglob("*.md"))}
    done = on_small_disk(root, tmp_path / "disk", size)
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("memu-fs: The index")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in sorted(root.rglob("*.md"))} == before
    shutil.rmtree(tmp_path / "disk", ignore_errors=True)
    assert index(root).returncode == 0
    check_is_level(root)


def test_an_interrupt_from_the_keyboard_shows_no_traceback(root: Path) -> None:
    child = subprocess.Popen([*INDEX, str(root)], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    timer = threading.Timer(1.0, lambda: child.send_signal(signal.SIGINT))
    timer.start()
    _, said = child.communicate()
    timer.cancel()
    assert (child.returncode, said) in [(130, b""), (130, b"memu-fs: stopped.\n"), (0, b"")]
    assert index(root).returncode == 0
    check_is_level(root)
