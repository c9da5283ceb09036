from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memu_fs.index.base import IndexBusyError, IndexWriteError
from memu_fs.index.folders import (
    current_folder,
    new_folder,
    publish,
    remove_old,
    remove_unfinished,
    unfinished_folder,
    writer_lock,
)

HOLD = """
import sys, pathlib
from memu_fs.index.folders import writer_lock
with writer_lock(pathlib.Path(sys.argv[1]), 0):
    print("held", flush=True)
    sys.stdin.read()
"""


def published(location: Path) -> Path:
    folder = new_folder(location)
    publish(location, folder)
    return folder


def names(folders: list[Path]) -> list[str]:
    return [folder.name for folder in folders]


def test_there_is_no_current_folder_before_one_is_published(tmp_path: Path) -> None:
    location = tmp_path / "index"
    assert current_folder(location) is None
    folder = new_folder(location)
    assert folder.is_dir()
    assert current_folder(location) is None
    assert unfinished_folder(location) == folder
    publish(location, folder)
    assert current_folder(location) == folder
    assert unfinished_folder(location) is None


def test_a_new_folder_has_a_number_above_all_others(tmp_path: Path) -> None:
    published(tmp_path)
    (tmp_path / "9").mkdir()
    (tmp_path / "notes").mkdir()
    assert new_folder(tmp_path).name == "10"
    assert unfinished_folder(tmp_path) == tmp_path / "10"


def test_a_number_is_not_used_again_when_its_folder_is_gone(tmp_path: Path) -> None:
    published(tmp_path).rmdir()
    assert current_folder(tmp_path) is None
    assert new_folder(tmp_path).name == "2"


@pytest.mark.parametrize("text", ["", "none", "-1", "../1", "\u0661", "7"])
def test_a_current_that_names_no_folder_counts_as_none(tmp_path: Path, text: str) -> None:
    published(tmp_path)
    (tmp_path / "current").write_text(text, "utf-8")
    assert current_folder(tmp_path) is None


def test_publishing_leaves_nothing_beside(tmp_path: Path) -> None:
    published(tmp_path)
    published(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "current"]
    assert (tmp_path / "current").read_text() == "2\n"


def test_readers_see_the_old_or_the_new_folder_and_nothing_else(tmp_path: Path) -> None:
    first, second = published(tmp_path), new_folder(tmp_path)
    seen: set[Path | None] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(current_folder(tmp_path))

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(200):
        publish(tmp_path, first)
        publish(tmp_path, second)
    done.set()
    reader.join()
    assert seen <= {first, second}


def test_old_folders_go_but_readers_may_still_be_in_the_last(tmp_path: Path) -> None:
    for _ in range(4):
        (published(tmp_path) / "file").write_text("rows")
    unfinished = new_folder(tmp_path)
    assert names(remove_old(tmp_path)) == ["1", "2"]
    assert remove_old(tmp_path) == []
    old = time.time() - 61
    os.utime(tmp_path / "current", (old, old))
    assert names(remove_old(tmp_path)) == ["3"]
    assert current_folder(tmp_path) == tmp_path / "4"
    assert unfinished.is_dir()
    assert names(remove_unfinished(tmp_path)) == ["5"]
    assert not unfinished.exists()


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    location = tmp_path / "not there yet"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(location)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(IndexBusyError, match="Another process is writing"), writer_lock(location, 0.1):
        pass
    process.communicate("")
    with writer_lock(location, 0.1):
        pass


def test_a_dead_writer_holds_no_lock(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.communicate()
    assert (tmp_path / "lock").exists()
    with writer_lock(tmp_path, 1):
        pass


def test_the_lock_is_given_back_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writer_lock(tmp_path, 0):
        raise ZeroDivisionError
    with writer_lock(tmp_path, 0):
        pass


def test_a_location_that_cannot_be_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(IndexWriteError, match="could not be written"):
        new_folder(tmp_path / "file" / "index")
    with pytest.raises(IndexWriteError, match="could not be written"), writer_lock(tmp_path / "file", 0):
        pass
    with pytest.raises(IndexWriteError, match="could not be written"):
        publish(tmp_path / "file", Path("1"))
