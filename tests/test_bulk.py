"""Embedding many texts in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memu_fs.index import bulk
from memu_fs.index.base import Vector
from memu_fs.index.bulk import LostProcessError, embed_bulk
from memu_fs.index.embedder import EmbedderError, EmbedderSettings, make_embedder

LOCAL = EmbedderSettings()
PARAGRAPH = "The release is cut on Tuesday, checked in staging overnight, and rolled out region by region. "
TEXTS = [f"Note {i}. " + PARAGRAPH[: i * 7 % 90] for i in range(100)]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every child that was started."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(real())
        return started[-1]

    real = bulk._start
    monkeypatch.setattr(bulk, "_start", start)
    return started


def gather(pairs: Iterator[tuple[list[int], Vector]], count: int) -> Vector:
    rows = np.full((count, 384), np.nan, dtype=np.float32)
    for places, vectors in pairs:
        assert np.isnan(rows[places]).all()
        rows[places] = vectors
    return rows


def test_a_child_gives_the_same_vectors_as_this_process(children: list[subprocess.Popen[bytes]]) -> None:
    rows = gather(embed_bulk(LOCAL, TEXTS), len(TEXTS))
    assert (rows == make_embedder(LOCAL).embed_documents(TEXTS)).all()
    assert [child.poll() is not None for child in children] == [True]


def test_a_few_texts_are_embedded_here_by_what_is_already_loaded(
    children: list[subprocess.Popen[bytes]],
) -> None:
    loaded = make_embedder(LOCAL)
    rows = gather(embed_bulk(LOCAL, TEXTS[:40], loaded), 40)
    assert (rows == loaded.embed_documents(TEXTS[:40])).all()
    assert list(embed_bulk(LOCAL, [], loaded)) == []
    assert children == []


def test_what_runs_elsewhere_is_asked_from_here_in_its_own_batches(
    children: list[subprocess.Popen[bytes]],
) -> None:
    sizes = [len(places) for places, _ in embed_bulk(EmbedderSettings("hashing", batch=40), TEXTS)]
    assert sizes == [40, 40, 20]
    assert children == []


def test_texts_of_any_kind_reach_the_child(children: list[subprocess.Popen[bytes]]) -> None:
    odd = ["", "a\ud800", "a\0b", "漢字", "line\nline", "x" * 300_000] * 12
    rows = gather(embed_bulk(LOCAL, odd), len(odd))
    assert (rows[:6] == rows[6:12]).all()
    assert len(children) == 1


def test_a_caller_that_stops_leaves_no_child(children: list[subprocess.Popen[bytes]]) -> None:
    pairs = embed_bulk(LOCAL, TEXTS)
    next(pairs)
    assert children[0].poll() is None
    del pairs
    assert children[0].poll() is not None


def test_a_killed_child_is_a_clear_error(children: list[subprocess.Popen[bytes]]) -> None:
    pairs = embed_bulk(LOCAL, TEXTS)
    next(pairs)
    children[0].kill()
    with pytest.raises(LostProcessError, match="signal 9; the machine may be short of memory"):
        list(pairs)


def test_a_child_that_cannot_even_start_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(LostProcessError, match="exit code 1"):
        next(embed_bulk(LOCAL, TEXTS))


def test_what_went_wrong_in_the_child_is_told_here(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="pip install --force-reinstall"):
        next(embed_bulk(EmbedderSettings(path=str(tmp_path)), TEXTS))


def test_the_child_ends_with_its_parent() -> None:
    code = (
        "import time; from memu_fs.index import bulk\n"
        "child = bulk._start(); print(child.pid, flush=True)\n"
        "bulk._send(child, {}); bulk._send(child, ['long ' * 999] * 500); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(1)
        assert is_running(child)
        parent.kill()
    deadline = time.monotonic() + 20
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(") ")[2][0] != "Z"


def test_the_folder_it_is_run_in_supplies_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    assert len(list(embed_bulk(LOCAL, TEXTS))) == 4


def test_no_key_is_handed_to_the_child(children: list[subprocess.Popen[bytes]]) -> None:
    pairs = embed_bulk(EmbedderSettings(key="k-private"), TEXTS)
    next(pairs)
    assert "k-private" not in repr(children[0].args)
    del pairs


def test_the_child_needs_little_memory(children: list[subprocess.Popen[bytes]]) -> None:
    peak = 0
    for number, _ in enumerate(embed_bulk(LOCAL, [PARAGRAPH * 20] * 128)):
        if number == 3:
            break
        peak = max(peak, peak_memory(children[0].pid))
    assert 0 < peak < 500


def peak_memory(pid: int) -> int:
    """Read the peak of a process' resident memory, in megabytes."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 1
    return next(int(line.split()[1]) // 1024 for line in status.read_text().splitlines() if "VmHWM" in line)
