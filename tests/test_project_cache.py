"""Which project a folder belongs to is remembered, and a change is seen at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs import git as git_module
from memu_fs.git import project_of
from memu_fs.project_cache import remembered_project_of

if TYPE_CHECKING:
    from conftest import RunGit

ACME, OTHER = "https://github.com/acme/api.git", "git@github.com:acme/other.git"


@pytest.fixture
def project(git: RunGit, tmp_path: Path) -> Path:
    folder = tmp_path / "api"
    (folder / "src" / "deep").mkdir(parents=True)
    git("init", "--quiet", cwd=folder)
    git("commit", "--quiet", "--allow-empty", "-m", "Start", cwd=folder)
    git("remote", "add", "origin", ACME, cwd=folder)
    return folder


def remote_of(folder: Path) -> str | None:
    remembered = remembered_project_of(folder)
    assert remembered == project_of(folder)
    return remembered[0]


def test_git_is_asked_once_while_nothing_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert remote_of(project) == "github.com/acme/api"
    monkeypatch.setattr(git_module, "_run", pytest.fail)
    assert remembered_project_of(project)[0] == "github.com/acme/api"


@pytest.mark.parametrize("inside", [".", "src/deep"])
def test_a_changed_remote_is_seen_at_once(inside: str, project: Path, git: RunGit) -> None:
    folder = project / inside
    assert remote_of(folder) == "github.com/acme/api"
    git("remote", "set-url", "origin", OTHER, cwd=project)
    assert remote_of(folder) == "github.com/acme/other"
    git("remote", "rename", "origin", "upstream", cwd=project)
    assert remote_of(folder) == "github.com/acme/other"
    git("remote", "remove", "upstream", cwd=project)
    assert remote_of(folder) is None


def test_a_changed_remote_is_seen_in_a_worktree_and_through_a_link(project: Path, git: RunGit, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "side", cwd=project)
    (tmp_path / "link").symlink_to(project / "src")
    folders = (tmp_path / "tree", tmp_path / "link", tmp_path / "link" / "deep")
    assert {remote_of(folder) for folder in folders} == {"github.com/acme/api"}
    git("remote", "set-url", "origin", OTHER, cwd=project)
    assert {remote_of(folder) for folder in folders} == {"github.com/acme/other"}


def test_a_rewritten_address_in_the_users_own_configuration_is_seen(
    project: Path, git: RunGit, isolation: Path
) -> None:
    assert remote_of(project) == "github.com/acme/api"
    (isolation / ".gitconfig").write_text('[url "https://git.example.org/"]\n\tinsteadOf = https://github.com/\n')
    assert remote_of(project) == "git.example.org/acme/api"


def test_a_repository_that_is_made_or_removed_around_a_folder_is_seen(tmp_path: Path, git: RunGit) -> None:
    folder = tmp_path / "plain" / "src"
    folder.mkdir(parents=True)
    assert remembered_project_of(folder) == (None, folder)
    git("init", "--quiet", cwd=folder.parent)
    git("remote", "add", "origin", ACME, cwd=folder.parent)
    assert remote_of(folder) == "github.com/acme/api"
    (folder.parent / ".git").rename(tmp_path / "aside")
    assert remembered_project_of(folder) == (None, folder)


def test_a_folder_that_is_not_there_belongs_to_no_project(tmp_path: Path) -> None:
    assert remembered_project_of(tmp_path / "gone") == (None, tmp_path / "gone")
