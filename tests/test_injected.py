from __future__ import annotations

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memu_fs import injected
from memu_fs.injected import forget, fresh, remember


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / ".memu"
    folder.mkdir()
    return folder


def session_files(private: Path) -> list[Path]:
    return sorted((private / "sessions").iterdir())


def test_a_segment_is_given_to_a_session_once(private: Path) -> None:
    assert fresh(private, "s", ["a", "b"]) == {"a", "b"}
    remember(private, "s", ["a"])
    assert fresh(private, "s", ["a", "b"]) == {"b"}
    assert fresh(private, "other", ["a", "b"]) == {"a", "b"}


def test_a_segment_may_be_given_more_often(private: Path) -> None:
    remember(private, "s", ["a", "a"])
    assert fresh(private, "s", ["a"], limit=2) == {"a"}
    remember(private, "s", ["a"])
    assert fresh(private, "s", ["a"], limit=2) == set()


def test_a_forgotten_session_is_given_everything_again(private: Path) -> None:
    remember(private, "s", ["a"])
    forget(private, "s")
    forget(private, "never seen")
    assert fresh(private, "s", ["a"]) == {"a"}


@pytest.mark.parametrize("session", ["", "../../etc/passwd", "a/b\0c", "x" * 10_000, "\ud800", "漢字"])
def test_any_session_id_is_one_private_file_in_the_folder(private: Path, session: str) -> None:
    remember(private, session, ["a"])
    (file,) = session_files(private)
    assert len(file.name) == 37
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert fresh(private, session, ["a"]) == set()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"a": "1"}', b'{"a": true}', b"\xff", b"[" * 100_000])
def test_a_damaged_file_counts_as_empty_and_is_replaced(private: Path, data: bytes) -> None:
    remember(private, "s", ["a"])
    session_files(private)[0].write_bytes(data)
    assert fresh(private, "s", ["a"]) == {"a"}
    remember(private, "s", ["b"])
    assert fresh(private, "s", ["a", "b"]) == {"a"}


def test_nothing_given_leaves_no_file(private: Path) -> None:
    remember(private, "s", [])
    assert not (private / "sessions").exists()


def test_a_place_that_cannot_be_written_is_nobodys_problem(private: Path, tmp_path: Path) -> None:
    remember(tmp_path / "gone", "s", ["a"])
    assert not (tmp_path / "gone").exists()
    (private / "sessions").write_text("a file where a folder should be")
    remember(private, "s", ["a"])
    forget(private, "s")
    assert fresh(private, "s", ["a"]) == {"a"}


def test_old_sessions_are_dropped_when_a_new_one_comes(private: Path) -> None:
    remember(private, "old", ["a"])
    long_ago = time.time() - injected.MAX_AGE - 60
    os.utime(session_files(private)[0], (long_ago, long_ago))
    remember(private, "new", ["a"])
    assert len(session_files(private)) == 1
    assert fresh(private, "new", ["a"]) == set()


def test_the_number_of_sessions_and_of_their_segments_is_bounded(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injected, "MAX_SESSIONS", 3)
    monkeypatch.setattr(injected, "MAX_SEGMENTS", 5)
    for number in range(10):
        remember(private, f"s{number}", [f"segment-{count}" for count in range(number)])
        remember(private, "busy", [f"segment-{number}"])
    assert len(session_files(private)) == 3
    given = [f"segment-{number}" for number in range(10)]
    assert fresh(private, "busy", given) == set(given[:5])


def test_several_turns_at_once_leave_a_file_that_can_be_read(private: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: remember(private, "s", [f"a{number}"]), range(100)))
    given = {f"a{number}" for number in range(100)}
    assert fresh(private, "s", given) < given
    assert len(session_files(private)) == 1
