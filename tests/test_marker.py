"""The committed marker says what a store is, and can say nothing else."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from memu_fs.digests import UNMARKED_STORE
from memu_fs.marker import FORMAT, Marker, MarkerError, NewerFormatError, read_marker


def written(folder: Path, text: str | bytes) -> Marker:
    (folder / ".memu-fs.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_marker(folder)


def test_a_new_marker_is_read_back(tmp_path: Path) -> None:
    marker = Marker(uuid4())
    assert written(tmp_path, marker.as_toml()) == marker


def test_without_a_marker_the_id_is_the_unmarked_one(tmp_path: Path) -> None:
    assert read_marker(tmp_path) == Marker(UNMARKED_STORE, FORMAT, ())


def test_allowed_secrets_are_read(tmp_path: Path) -> None:
    marker = written(tmp_path, 'id = "6f1c1d1e-0000-4000-8000-000000000001"\n[secrets]\nallow = ["a.*", "sha256:00"]\n')
    assert marker == Marker(UUID("6f1c1d1e-0000-4000-8000-000000000001"), FORMAT, ("a.*", "sha256:00"))


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(NewerFormatError, match=r"format 99.*pip install"):
        written(tmp_path, "format = 99\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("format = ", "cannot be read"),
        (b"\xff", "cannot be read"),
        ("a = " + "[" * 10_000, "cannot be read"),
        ("format = 'one'", "whole number"),
        ("format = true", "whole number"),
        ("format = 0", "whole number"),
        ("id = 'x'", "not a UUID"),
        ("id = 7", "not a UUID"),
        ("secrets = 1", "list of texts"),
        ("[secrets]\nallow = 'x'", "list of texts"),
        ("[secrets]\nallow = [1]", "list of texts"),
    ],
)
def test_a_marker_that_cannot_be_understood_is_a_sentence(tmp_path: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(MarkerError, match=reason):
        written(tmp_path, text)


def test_a_folder_in_its_place_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".memu-fs.toml").mkdir()
    with pytest.raises(MarkerError):
        read_marker(tmp_path)
