"""Making a store adds what is missing and never touches what is there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from memu_fs.config import load_config
from memu_fs.initialise import NoRoomError, initialise
from memu_fs.marker import MarkerError
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import RunGit

MADE = ("memory/", "skill/", "resource/", ".memu-fs.toml")


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_new_folder_becomes_a_store_and_the_configured_one(tmp_path: Path, git: RunGit) -> None:
    root = tmp_path / "deep" / "wiki"
    done = initialise(root, load_config())
    assert (done.root, done.made, done.repository) == (root, MADE, "new")
    assert (done.config, done.config_mode) == (load_config().path, "0600")
    assert load_config().stores == (root,)
    UUID(tomllib.loads((root / ".memu-fs.toml").read_text())["id"])
    assert git("ls-files", cwd=root).split() == [".memu-fs.toml"]
    assert git("status", "--porcelain", cwd=root) == ""
    assert done.as_json()["repository"] == "new"


def test_doing_it_twice_changes_nothing(tmp_path: Path, git: RunGit) -> None:
    first = initialise(tmp_path / "wiki", load_config())
    before, head = snapshot(tmp_path), git("rev-parse", "HEAD", cwd=tmp_path / "wiki")
    again = initialise(tmp_path / "wiki", load_config())
    assert (again.made, again.repository, again.config) == ((), "existing", None)
    assert first.root == again.root
    assert snapshot(tmp_path) == before
    assert git("rev-parse", "HEAD", cwd=tmp_path / "wiki") == head


def test_a_folder_with_files_is_adopted_as_it_is(tmp_path: Path, git: RunGit) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/a.md").write_bytes(b"\xef\xbb\xbfone\r\n")
    (tmp_path / "README.md").write_text("mine")
    before = snapshot(tmp_path)
    done = initialise(tmp_path, load_config())
    assert done.made == MADE[1:]
    assert {path: state for path, state in snapshot(tmp_path).items() if path in before} == before
    assert git("ls-files", cwd=tmp_path).split() == [".memu-fs.toml"]


def test_a_repository_is_adopted_with_its_staged_and_dirty_files(tmp_path: Path, git: RunGit) -> None:
    git("init", "--quiet", cwd=tmp_path)
    (tmp_path / "staged.md").write_text("x")
    git("add", "staged.md", cwd=tmp_path)
    before = snapshot(tmp_path)
    assert initialise(tmp_path, load_config()).repository == "existing"
    assert before.items() <= snapshot(tmp_path).items()
    assert git("status", "--porcelain", cwd=tmp_path).splitlines() == ["A  staged.md", "?? .memu-fs.toml"]


def test_inside_a_projects_repository_none_is_made(tmp_path: Path, git: RunGit) -> None:
    git("init", "--quiet", cwd=tmp_path)
    done = initialise(tmp_path / "notes", load_config())
    assert done.repository == f"inside {tmp_path}"
    assert not (tmp_path / "notes/.git").exists()
    assert ".memu/" not in git("status", "--porcelain", "-uall", cwd=tmp_path)


def test_a_second_store_leaves_the_configured_one(tmp_path: Path) -> None:
    initialise(tmp_path / "one", load_config())
    done = initialise(tmp_path / "two", load_config())
    assert done.config is None
    assert load_config().stores == (tmp_path / "one",)


def test_a_clone_of_a_new_store_is_a_store(tmp_path: Path, git: RunGit) -> None:
    initialise(tmp_path / "one", load_config())
    git("clone", "--quiet", str(tmp_path / "one"), str(tmp_path / "two"))
    assert Store(tmp_path / "two").marker == Store(tmp_path / "one").marker


def test_without_git_a_store_is_made_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert initialise(tmp_path / "wiki", load_config()).repository == "none"
    assert Store(tmp_path / "wiki").walk().entries == ()


@pytest.mark.parametrize("name", ["memory", "skill", ".memu"])
def test_a_file_in_the_way_is_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Exception, match=name) as caught:
        initialise(tmp_path, load_config())
    assert type(caught.value).__name__ in {"NoRoomError", "PrivateFolderError"}
    assert (tmp_path / name).read_text() == "mine"
    assert not load_config().path.exists()


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NoRoomError, match="cannot become a store"):
        initialise(tmp_path / "file" / "wiki", load_config())

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(NoRoomError, match="Permission denied"):
        initialise(tmp_path / "wiki", load_config())


def test_a_marker_that_cannot_be_read_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / ".memu-fs.toml").write_text("format = \n")
    with pytest.raises(MarkerError):
        initialise(tmp_path, load_config())
    assert (tmp_path / ".memu-fs.toml").read_text() == "format = \n"
    assert not (tmp_path / "memory").exists()


def test_markdown_outside_the_tracks_is_counted(tmp_path: Path) -> None:
    for path in ("notes/a.md", "b.md", "README.md", "memory/c.md", ".hidden/d.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text", "utf-8")
    assert initialise(tmp_path, load_config({"MEMU_FS_CONFIG": str(tmp_path / "config.toml")})).outside == 2


def test_a_second_store_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    variables = {"MEMU_FS_CONFIG": str(tmp_path / "config.toml")}
    first = initialise(tmp_path / "one", load_config(variables))
    second = initialise(tmp_path / "two", load_config(variables))
    assert (first.configured, second.configured) == (first.root, first.root)
    assert second.config is None
