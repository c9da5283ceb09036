"""Conflict markers are found where git writes them, and only there."""

from __future__ import annotations

import time

import pytest

from memu_fs.conflict_markers import blank_markers, find_markers

CONFLICT = "one\n<<<<<<< HEAD\nmine\n||||||| base\nold\n=======\nyours\n>>>>>>> branch\nend\n"


def test_every_marker_line_is_found() -> None:
    assert find_markers(CONFLICT) == [1, 3, 5, 7]
    assert find_markers(CONFLICT.replace("\n", "\r\n")) == [1, 3, 5, 7]


@pytest.mark.parametrize(
    "body", ["Title\n=======\n", "<<<<<<< HEAD\n", ">>>>>>> x\n<<<<<<< y\n", "a <<<<<<< b\n=======\n>>>>>>> c\n", ""]
)
def test_a_heading_or_half_a_conflict_is_none(body: str) -> None:
    assert find_markers(body) == []
    assert blank_markers(body) == body


def test_blanking_moves_no_character() -> None:
    blank = blank_markers(CONFLICT)
    assert len(blank) == len(CONFLICT)
    assert blank.split() == ["one", "mine", "old", "yours", "end"]


def test_many_markers_take_no_time() -> None:
    started = time.perf_counter()
    assert len(find_markers("<<<<<<< a\n" + "=======\n" * 300_000 + ">>>>>>> b\n")) == 300_002
    assert time.perf_counter() - started < 5
