"""The walk finds exactly the recall files, whatever else lies in the folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs.walk import is_in_track, walk

if TYPE_CHECKING:
    from conftest import MakeStore


def names(root: Path) -> list[str]:
    return [f"{entry.track}/{entry.name}" for entry in walk(root).entries]


def problems(root: Path) -> list[tuple[str, str]]:
    return [(problem.path, problem.rule) for problem in walk(root).problems]


def test_entries_come_in_order_of_track_and_name(store: MakeStore) -> None:
    root = store({f"{path}.md": "x" for path in ("skill/b", "memory/z", "memory/a/c", "resource/r", "memory/a")}).root
    assert names(root) == ["memory/a", "memory/a/c", "memory/z", "skill/b", "workspace/r"]
    assert problems(root) == []


def test_hidden_names_and_other_kinds_of_file_are_left_out(store: MakeStore) -> None:
    files = ["memory/.hidden.md", "memory/.obsidian/x.md", "memory/a.txt", "other/x.md", "README.md", "memory/a.md~"]
    assert names(store(dict.fromkeys(files, "x")).root) == []


def test_markdown_under_another_ending_gets_a_notice(store: MakeStore) -> None:
    found = walk(store({"memory/a.markdown": "x", "memory/B.MD": "x", "memory/c.mkd": "x"}).root)
    assert found.entries == ()
    assert {(problem.rule, problem.level) for problem in found.problems} == {("extension", "notice")}
    assert len(found.problems) == 3


def test_a_folder_may_be_named_like_a_file(store: MakeStore) -> None:
    assert names(store({"memory/a.md/b.md": "x"}).root) == ["memory/a.md/b"]


def test_a_skill_takes_the_markdown_of_its_folder_with_it(store: MakeStore) -> None:
    root = store(
        {
            "skill/deploy/SKILL.md": "x",
            "skill/deploy/notes.md": "x",
            "skill/deploy/ref/deep/more.md": "x",
            "skill/deploy/inner/SKILL.md": "x",
            "skill/deploy/inner/own.md": "x",
            "skill/plain.md": "x",
        }
    ).root
    found = {entry.name: [file.path for file in entry.others] for entry in walk(root).entries}
    assert found == {
        "deploy": ["skill/deploy/notes.md", "skill/deploy/ref/deep/more.md"],
        "deploy/inner": ["skill/deploy/inner/own.md"],
        "plain": [],
    }


@pytest.mark.parametrize(
    "place", ["skill/SKILL.md", "skill/projects/SKILL.md", "skill/agents/SKILL.md", "skill/agents/codex/SKILL.md"]
)
def test_no_skill_swallows_a_track_or_a_scope(store: MakeStore, place: str) -> None:
    root = store({place: "x", "skill/projects/acme/deploy.md": "x", "skill/agents/codex/lint.md": "x"}).root
    assert all(entry.others == () for entry in walk(root).entries)
    assert {"skill/projects/acme/deploy", "skill/agents/codex/lint"} <= set(names(root))


def test_a_link_out_of_the_store_is_not_followed(store: MakeStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "private.md").write_text("x")
    root = store().root
    (root / "memory/file.md").symlink_to(outside / "deep/private.md")
    (root / "memory/folder").symlink_to(outside)
    (root / "memory/relative.md").symlink_to("../../outside/deep/private.md")
    assert names(root) == []
    assert problems(root) == [(f"memory/{name}", "symlink") for name in ("file.md", "folder", "relative.md")]


def test_a_whole_track_that_links_out_of_the_store_is_not_followed(store: MakeStore, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("x")
    root = store().root
    (root / "memory").rmdir()
    (root / "memory").symlink_to(tmp_path / "outside")
    assert names(root) == []
    assert problems(root) == [("memory", "symlink")]


def test_links_to_nothing_and_in_circles_end(store: MakeStore) -> None:
    root = store({"memory/a/x.md": "x"}).root
    (root / "memory/gone.md").symlink_to("nowhere.md")
    (root / "memory/self.md").symlink_to("self.md")
    (root / "memory/loop").symlink_to(".")
    (root / "memory/a/up").symlink_to("..")
    assert names(root) == ["memory/a/x"]
    assert problems(root) == [("memory/gone.md", "symlink"), ("memory/self.md", "symlink")]


def test_links_within_a_track_are_followed(store: MakeStore) -> None:
    root = store({"memory/a/x.md": "x"}).root
    (root / "memory/b").symlink_to("a")
    (root / "memory/y.md").symlink_to("a/x.md")
    assert names(root) == ["memory/a/x", "memory/b/x", "memory/y"]
    assert problems(root) == []


@pytest.mark.parametrize("target", [".memu/x.md", ".git/x.md", "x.md", ".tombstones/memory/x.md"])
def test_a_link_out_of_the_tracks_is_not_followed(store: MakeStore, target: str) -> None:
    root = store({target: "x"}).root
    (root / "memory/x.md").symlink_to(root / target)
    assert names(root) == []
    assert problems(root) == [("memory/x.md", "symlink")]


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("memory/x.md", "memory/projects/acme/x.md"),
        ("memory/x", "memory/projects/acme"),
        ("memory/x", "memory/projects"),
        ("memory/x", "memory/agents"),
        ("memory/projects/other/x.md", "memory/projects/acme/x.md"),
        ("memory/projects/acme-v2", "memory/projects/acme"),
        ("memory/agents/codex/x.md", "memory/projects/acme/x.md"),
        ("skill/x", "memory/projects"),
    ],
)
def test_a_link_never_widens_a_scope(store: MakeStore, link: str, target: str) -> None:
    root = store({"memory/projects/acme/x.md": "x", "memory/agents/claude/x.md": "x"}).root
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(root / target)
    assert names(root) == ["memory/agents/claude/x", "memory/projects/acme/x"]
    assert {rule for _, rule in problems(root)} == {"symlink"}


def test_a_project_may_link_to_shared_files_and_its_own(store: MakeStore) -> None:
    root = store({"memory/shared.md": "x", "memory/projects/acme/deep/x.md": "x"}).root
    (root / "memory/projects/acme/shared.md").symlink_to(root / "memory/shared.md")
    (root / "memory/projects/acme/y.md").symlink_to("deep/x.md")
    assert len(names(root)) == 4
    assert problems(root) == []


def test_a_pipe_is_left_out(store: MakeStore) -> None:
    root = store({"memory/a.md": "x"}).root
    os.mkfifo(root / "memory/pipe.md")
    assert names(root) == ["memory/a"]
    assert problems(root) == [("memory/pipe.md", "special-file")]


def test_a_folder_that_cannot_be_read_does_not_stop_the_walk(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    root = store({"memory/a/x.md": "x", "memory/b/y.md": "x"}).root
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(root) == ["memory/b/y"]
    assert [str(problem) for problem in walk(root).problems] == [
        "memory/a: error: the folder cannot be read: Permission denied [unreadable]"
    ]


def test_a_name_that_is_not_utf_8_is_reported_legibly(store: MakeStore) -> None:
    root = store({"memory/a.md": "x"}).root
    for name in (b"bad\xff.md", b"bad\xff.markdown"):
        Path(os.fsdecode(os.fsencode(root / "memory") + b"/" + name)).write_text("x")
    assert names(root) == ["memory/a"]
    assert problems(root) == [("memory/bad\ufffd.markdown", "extension"), ("memory/bad\ufffd.md", "name")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("memory/caf\u00e9.md", "memory/cafe\u0301.md"),
        ("memory/Deploy.md", "memory/deploy.md"),
        ("memory/Ops/x.md", "memory/ops/x.md"),
        ("skill/x.md", "skill/x/SKILL.md"),
        ("memory/a:b.md", "memory/a%3Ab.md"),
        ("memory/stra\u00dfe.md", "memory/strasse.md"),
    ],
)
def test_files_of_one_identity_are_an_error_that_names_both(store: MakeStore, one: str, other: str) -> None:
    made = store({one: "one", other: "other"})
    found = made.walk()
    assert len({entry.name for entry in found.entries}) == 2
    assert [(problem.path, problem.level, problem.rule) for problem in found.problems] == [
        (path, "error", "collision") for path in sorted([one, other])
    ]
    assert other in next(problem.message for problem in found.problems if problem.path == one)
    for entry in found.entries:
        assert made.find(f"{entry.track}/{entry.name}") == entry
        assert made.find(entry.path) == entry


def test_what_lies_in_a_track() -> None:
    assert is_in_track("memory/a/b.md")
    assert is_in_track("skill")
    for path in (".git/x", "memory/.git/x.md", "other/x.md", ".", "", "memory/../x.md"):
        assert not is_in_track(path)
