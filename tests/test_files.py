"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from memu_fs.files import replace_file


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 100 + ".md")
    for data in (b"one", b"two", b""):
        replace_file(target, data)
        assert target.read_bytes() == data
    assert list(tmp_path.iterdir()) == [target]


def test_a_mode_can_be_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"")
    replace_file(target, b"key", mode=0o600)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_stop_in_the_middle_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        replace_file(target, b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_system_that_cannot_flush_folders_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if Path(path) == tmp_path:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    replace_file(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
