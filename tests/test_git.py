"""Git is asked with care: real repositories, in every state they get into."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs.git import (
    Times,
    commit_paths,
    file_times,
    init,
    is_installed,
    normalise_remote,
    project_of,
    repository,
    uncommitted,
)

if TYPE_CHECKING:
    from conftest import MakeStore, RunGit


@pytest.fixture
def repo(git_store: MakeStore) -> Path:
    return git_store({"memory/a.md": "a\n", "memory/b.md": "b\n"}).root


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_a_repository_is_described(repo: Path, git: RunGit) -> None:
    found = repository(repo / "memory")
    assert found is not None
    assert (found.top, found.common_dir, found.main_top) == (repo, repo / ".git", repo)
    assert (found.head, found.branch, found.state, found.is_locked) == (
        git("rev-parse", "HEAD", cwd=repo).strip(),
        "main",
        None,
        False,
    )


def test_outside_a_repository_there_is_nothing(tmp_path: Path) -> None:
    assert repository(tmp_path) is None
    assert repository(tmp_path / "missing") is None
    assert file_times(tmp_path) == {}
    assert uncommitted(tmp_path) is None
    assert commit_paths(tmp_path, ["x"], "m") is None
    assert project_of(tmp_path) == (None, tmp_path)


def test_without_git_every_answer_is_empty(repo: Path, no_git: None) -> None:
    assert not is_installed()
    assert repository(repo) is None
    assert file_times(repo) == {}
    assert uncommitted(repo) is None
    assert commit_paths(repo, ["memory/a.md"], "m") is None
    assert not init(repo)


def test_with_git_it_says_so() -> None:
    assert is_installed()


def test_a_repository_that_git_distrusts_is_none(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert repository(repo) is None
    assert commit_paths(repo, ["memory/a.md"], "m") is None


def test_a_repository_without_commits_has_no_head(tmp_path: Path, git: RunGit) -> None:
    assert init(tmp_path)
    found = repository(tmp_path)
    assert found is not None
    assert (found.head, found.branch is None) == ("", False)
    assert file_times(tmp_path) == {}
    (tmp_path / "a.md").write_text("x")
    assert uncommitted(tmp_path) == ["a.md"]
    assert commit_paths(tmp_path, ["a.md"], "First") == git("rev-parse", "HEAD", cwd=tmp_path).strip()


def test_a_detached_head_has_no_branch(repo: Path, git: RunGit) -> None:
    git("checkout", "--quiet", "--detach", cwd=repo)
    found = repository(repo)
    assert found is not None
    assert found.branch is None
    (repo / "memory/a.md").write_text("new")
    assert commit_paths(repo, ["memory/a.md"], "m") == git("rev-parse", "HEAD", cwd=repo).strip()


def conflicting_merge(repo: Path, git: RunGit) -> None:
    git("checkout", "--quiet", "-b", "side", cwd=repo)
    (repo / "memory/a.md").write_text("side\n")
    git("commit", "--quiet", "-am", "side", cwd=repo)
    git("checkout", "--quiet", "main", cwd=repo)
    (repo / "memory/a.md").write_text("main\n")
    git("commit", "--quiet", "-am", "main", cwd=repo)
    merge = subprocess.run(["git", "merge", "side"], cwd=repo, capture_output=True, check=False)
    assert merge.returncode == 1


def test_nothing_is_committed_while_a_merge_is_in_progress(repo: Path, git: RunGit) -> None:
    conflicting_merge(repo, git)
    found = repository(repo)
    assert found is not None
    assert found.state == "merge"
    (repo / "memory/b.md").write_text("new")
    assert commit_paths(repo, ["memory/b.md"], "m") is None
    assert (repo / ".git/MERGE_HEAD").exists()


def test_a_lock_is_seen(repo: Path) -> None:
    (repo / ".git/index.lock").touch()
    found = repository(repo)
    assert found is not None
    assert found.is_locked


def test_a_foreign_git_environment_changes_nothing(
    git_store: MakeStore, git: RunGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = git_store({"memory/a.md": "a"}), git_store(folder="other")
    before = git("rev-parse", "HEAD", cwd=other.root)
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    (mine.root / "memory/a.md").write_text("new")
    assert commit_paths(mine.root, ["memory/a.md"], "m")
    found = repository(mine.root)
    assert found is not None
    assert found.top == mine.root
    assert git("rev-parse", "HEAD", cwd=other.root) == before


# Commits


def test_exactly_the_named_paths_are_committed(repo: Path, git: RunGit) -> None:
    (repo / "memory/a.md").write_text("named")
    (repo / "memory/new.md").write_text("named")
    (repo / "memory/b.md").write_text("dirty")
    (repo / "memory/staged.md").write_text("staged")
    git("add", "memory/staged.md", cwd=repo)
    (repo / "memory/staged.md").write_text("staged, then dirty")
    commit = commit_paths(repo, ["memory/a.md", "memory/new.md"], "Write two\n\nMemu-Origin: agent\n")
    assert commit == git("rev-parse", "HEAD", cwd=repo).strip()
    assert git("show", "--name-only", "--format=", cwd=repo).split() == ["memory/a.md", "memory/new.md"]
    assert git("show", "-s", "--format=%(trailers)", cwd=repo).strip() == "Memu-Origin: agent"
    assert git("status", "--porcelain", cwd=repo).splitlines() == [" M memory/b.md", "AM memory/staged.md"]
    assert git("show", ":memory/staged.md", cwd=repo) == "staged"


def test_a_path_is_never_a_pattern(repo: Path, git: RunGit) -> None:
    for name in ("[ab].md", "a.md", "b.md", ":x.md", "-x.md", "#x.md", "e\u0301.md", "two words.md"):
        (repo / "memory" / name).write_text("new")
    for path in ("memory/[ab].md", "memory/e\u0301.md", "memory/two words.md"):
        assert commit_paths(repo, [path], "m")
        assert git("show", "--name-only", "--format=", "-z", cwd=repo).strip("\0\n") == path
    assert len(uncommitted(repo) or []) == 5
    assert commit_paths(repo / "memory", [":x.md", "-x.md"], "m")
    assert len(uncommitted(repo) or []) == 3


def test_a_removed_file_can_be_committed(repo: Path, git: RunGit) -> None:
    (repo / "memory/a.md").unlink()
    assert commit_paths(repo, ["memory/a.md"], "Remove")
    assert git("ls-files", cwd=repo).split() == ["memory/b.md"]


@pytest.mark.parametrize("hook", ["pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-index-change"])
def test_no_hook_runs_and_none_blocks(repo: Path, hook: str, tmp_path: Path) -> None:
    script = repo / ".git/hooks" / hook
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nexit 1\n")
    script.chmod(0o755)
    (repo / "memory/a.md").write_text("new")
    assert commit_paths(repo, ["memory/a.md"], "m")
    assert not (tmp_path / "ran").exists()


def test_a_device_without_an_identity_commits_as_memu_fs(
    repo: Path, git: RunGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    git("config", "user.useConfigOnly", "true", cwd=repo)
    (repo / "memory/a.md").write_text("new")
    assert commit_paths(repo, ["memory/a.md"], "m")
    assert git("show", "-s", "--format=%an <%ae> %cn", cwd=repo).strip() == "memu-fs <memu-fs@localhost> memu-fs"


def test_half_an_identity_is_enough_to_commit(repo: Path, git: RunGit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_AUTHOR_NAME")
    monkeypatch.delenv("GIT_AUTHOR_EMAIL")
    git("config", "user.useConfigOnly", "true", cwd=repo)
    (repo / "memory/a.md").write_text("new")
    assert commit_paths(repo, ["memory/a.md"], "m")


def test_nothing_to_commit_gives_none(repo: Path, git: RunGit) -> None:
    before = git("rev-parse", "HEAD", cwd=repo)
    assert commit_paths(repo, ["memory/a.md"], "m") is None
    assert commit_paths(repo, [], "m") is None
    assert commit_paths(repo, ["memory/missing.md"], "m") is None
    assert git("rev-parse", "HEAD", cwd=repo) == before


def test_line_ends_survive_a_device_that_converts_them(repo: Path, git: RunGit) -> None:
    git("config", "core.autocrlf", "true", cwd=repo)
    git("config", "core.safecrlf", "true", cwd=repo)
    (repo / "memory/a.md").write_bytes(b"one\r\ntwo\n")
    assert commit_paths(repo, ["memory/a.md"], "m")
    assert (repo / "memory/a.md").read_bytes() == b"one\r\ntwo\n"


def test_a_commit_waits_for_another_git_to_finish(repo: Path) -> None:
    lock = repo / ".git/index.lock"
    lock.touch()
    release = threading.Timer(0.3, lock.unlink)
    release.start()
    (repo / "memory/a.md").write_text("new")
    assert commit_paths(repo, ["memory/a.md"], "m")
    release.join()


def test_a_lock_that_was_left_behind_is_not_waited_for_long(repo: Path) -> None:
    (repo / ".git/index.lock").touch()
    (repo / "memory/a.md").write_text("new")
    started = time.perf_counter()
    assert commit_paths(repo, ["memory/a.md"], "m") is None
    assert time.perf_counter() - started < 10
    assert (repo / ".git/index.lock").exists()


def test_uncommitted_paths_are_those_of_the_folder(git_store: MakeStore, git: RunGit) -> None:
    root = git_store({"nested/memory/a.md": "a", "memory/b.md": "b"}).root
    for path in ("nested/memory/a.md", "nested/memory/new [1].md", "memory/b.md"):
        (root / path).write_text("changed")
    assert sorted(uncommitted(root / "nested") or []) == ["memory/a.md", "memory/new [1].md"]
    assert len(uncommitted(root) or []) == 3


# Times


def test_times_follow_renames_and_stay_in_the_folder(repo: Path, git: RunGit) -> None:
    git("mv", "memory/a.md", "memory/c d.md", cwd=repo)
    git("commit", "--quiet", "-m", "m", cwd=repo, at="2026-02-01T01:00:00+01:00")
    assert file_times(repo)["memory/c d.md"] == Times("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")  # type: ignore[index]
    assert file_times(repo / "memory") == {
        "a.md": Times("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        "b.md": Times("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        "c d.md": Times("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.showRoot", "false"),
        ("log.showSignature", "true"),
        ("log.date", "relative"),
        ("diff.renames", "copies"),
        ("diff.noprefix", "true"),
        ("core.quotePath", "true"),
        ("color.ui", "always"),
        ("log.follow", "true"),
        ("format.pretty", "oneline"),
    ],
)
def test_the_taste_of_a_user_changes_no_time(repo: Path, git: RunGit, key: str, value: str) -> None:
    expected = file_times(repo)
    git("config", key, value, cwd=repo)
    assert file_times(repo) == expected
    assert expected


@pytest.mark.parametrize("at", ["@0 +0000", "@999999999999999 +0000"])
def test_a_time_that_cannot_be_is_cut_to_one_that_can(repo: Path, git: RunGit, at: str) -> None:
    (repo / "memory/a.md").write_text("new")
    git("commit", "--quiet", "-am", "m", cwd=repo, at=at)
    times = file_times(repo)
    assert times is not None
    assert times["memory/a.md"].created_at <= times["memory/a.md"].updated_at <= "9999-12-31T23:59:59Z"


def test_a_rewritten_history_is_read_anew(repo: Path, git: RunGit) -> None:
    since = git("rev-parse", "HEAD", cwd=repo).strip()
    known = file_times(repo)
    git("commit", "--quiet", "--amend", "-m", "Other", cwd=repo)
    assert file_times(repo, since=since, known=known) is None
    assert file_times(repo, since="0" * 40, known=known) is None


class History:
    """A random history of a handful of files on a few branches; dates only mostly go forward."""

    def __init__(self, root: Path, git: RunGit, seed: int) -> None:
        self.root, self.git, self.random = root, git, random.Random(seed)
        self.seconds = 1_700_000_000
        self.branches = ["main"]

    def step(self) -> None:
        files = sorted(path.name for path in self.root.glob("*.md"))
        step = self.random.choice(["add", "add", "edit", "edit", "move", "move", "delete", "branch", "merge", "switch"])
        if step in {"edit", "move", "delete"} and not files:
            step = "add"
        name = self.random.choice("abcdefgh") + ".md"
        if step in {"add", "edit"}:
            target = self.root / (self.random.choice(files) if step == "edit" else name)
            target.write_text(f"{target.read_text() if target.exists() else ''}{self.random.random()}\n" * 3)
        elif step == "move":
            self.git("mv", "-f", self.random.choice(files), name, cwd=self.root) if name not in files else None
        elif step == "delete":
            (self.root / self.random.choice(files)).unlink()
        elif step == "branch":
            self.branches.append(f"side{len(self.branches)}")
            self.git("checkout", "--quiet", "-b", self.branches[-1], cwd=self.root)
        elif step == "switch":
            self.git("checkout", "--quiet", self.random.choice(self.branches), cwd=self.root)
        else:
            self.merge(self.random.choice(self.branches))
        self.commit()

    def merge(self, branch: str) -> None:
        command = ["git", "merge", "--quiet", "--no-edit", "-X", "ours", branch]
        if subprocess.run(command, cwd=self.root, capture_output=True, env=self.dates(), check=False).returncode:
            self.git("add", "-A", cwd=self.root)

    def commit(self) -> None:
        self.git("add", "-A", cwd=self.root)
        self.seconds += self.random.choice([-500, 60, 600, 6000])
        self.git("commit", "--quiet", "--allow-empty", "-m", "m", cwd=self.root, at=f"@{self.seconds} +0000")

    def dates(self) -> dict[str, str]:
        at = f"@{self.seconds} +0000"
        return {**os.environ, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


@pytest.mark.parametrize("seed", range(8))
def test_reading_times_as_you_go_equals_reading_them_all(tmp_path: Path, git: RunGit, seed: int) -> None:
    git("init", "--quiet", cwd=tmp_path)
    history = History(tmp_path, git, seed)
    history.commit()
    since, known, resumed = "", dict[str, Times](), 0
    for _ in range(12):
        for _ in range(history.random.randint(1, 3)):
            history.step()
        full = file_times(tmp_path)
        assert full is not None
        if since:
            again = file_times(tmp_path, since=since, known=known)
            assert again in (None, full)
            resumed += again is not None
        since, known = git("rev-parse", "HEAD", cwd=tmp_path).strip(), full
    assert resumed > 0
    assert {path.name for path in tmp_path.glob("*.md")} <= known.keys()


# Projects


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:acme/api.git", "github.com/acme/api"),
        ("github.com:acme/api", "github.com/acme/api"),
        ("https://github.com/acme/api.git", "github.com/acme/api"),
        ("https://GitHub.com/acme/api/", "github.com/acme/api"),
        ("https://user:pass@github.com/acme/api.git", "github.com/acme/api"),
        ("ssh://git@github.com:22/acme/api.git", "github.com/acme/api"),
        ("git://github.com/acme/api.git/", "github.com/acme/api"),
        ("https://gitlab.com/acme/group/api.git", "gitlab.com/acme/group/api"),
        ("git@host:/srv/api.git", "host/srv/api"),
        ("  https://github.com/acme/api.git\n", "github.com/acme/api"),
        ("file:///srv/api.git", None),
        ("/srv/api.git", None),
        ("../api.git", None),
        ("C:/work/api.git", None),
        ("C:\\work\\api.git", None),
        ("https://[::1/acme/api", None),
        ("https://github.com/../../etc", None),
        ("https://github.com/", None),
        ("", None),
    ],
)
def test_every_form_of_a_remote_gives_one_name(url: str, name: str | None) -> None:
    assert normalise_remote(url) == name


def test_worktrees_and_sub_folders_are_one_project(repo: Path, git: RunGit, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "side", cwd=repo)
    for folder in (repo, repo / "memory", tmp_path / "tree", tmp_path / "tree/memory"):
        assert project_of(folder) == (None, repo)
    git("remote", "add", "upstream", "git@github.com:acme/upstream.git", cwd=repo)
    assert {project_of(folder)[0] for folder in (repo, tmp_path / "tree")} == {"github.com/acme/upstream"}
    git("remote", "add", "origin", "git@github.com:acme/api.git", cwd=repo)
    assert {project_of(folder)[0] for folder in (repo, tmp_path / "tree/memory")} == {"github.com/acme/api"}


def test_a_shortened_remote_is_spelt_out(repo: Path, git: RunGit) -> None:
    git("config", "url.https://github.com/.insteadOf", "gh:", cwd=repo)
    git("remote", "add", "origin", "gh:acme/api", cwd=repo)
    assert project_of(repo) == ("github.com/acme/api", repo)
