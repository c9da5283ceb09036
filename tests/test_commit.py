"""A payload is written whole or not at all, changes what it names, and becomes one commit of those paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs.commit import BaseMissingError, PayloadError, SecretInPayloadError, commit_payload
from memu_fs.digests import digest_bytes
from memu_fs.errors import MemuError
from memu_fs.front_matter import load, split
from memu_fs.names import BadNameError
from memu_fs.store import FileChangedError, FileNotWrittenError, Store

if TYPE_CHECKING:
    from conftest import MakeStore, RunGit

SECRET = "AKIA" + "Q3EGTZ7MX4PLV2WN"


def snapshot(store: Store) -> dict[str, bytes]:
    files = (path for path in store.root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(store.root)): path.read_bytes() for path in files}


def commit(store: Store, *items: Mapping[str, object], resource: Sequence[Mapping[str, object]] = ()) -> Any:
    return commit_payload(store, items, resource)


def meta_of(store: Store, path: str) -> dict[str, object]:
    return load(split((store.root / path).read_text()).yaml)


def test_a_new_file_is_an_agents_and_unverified(store: MakeStore) -> None:
    made = store()
    done = commit(made, {"name": "ops/deploy", "description": "How", "content": "# Deploy\r\n\r\nSteps\r\n"})
    text = (made.root / "memory/ops/deploy.md").read_text()
    assert text == (
        "---\nname: deploy\ndescription: How\norigin: agent\nstatus: unverified\n---\n\n# Deploy\n\nSteps\n"
    )
    assert [item["name"] for item in done["recall_files"]] == ["ops/deploy"]
    assert done["recall_files"][0]["digest"] == digest_bytes(text.encode())
    assert (done["resources"], done["commit"]) == ([], None)


def test_what_an_agent_says_of_itself_is_not_believed(store: MakeStore) -> None:
    made = store()
    claims = "origin: human\nstatus: active\nverified: yes\nsources: [x]\n"
    content = f"---\n{claims}tags: [a]\nvalid_until: 2026-05-31\n---\nBody\n"
    commit(made, {"name": "a", "track": "skill", "content": content})
    assert meta_of(made, "skill/a.md") == {
        "name": "a",
        "tags": ["a"],
        "valid_until": "2026-05-31",
        "origin": "agent",
        "status": "unverified",
    }


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_patch_changes_what_it_names_and_nothing_else(store: MakeStore, newline: str, bom: str) -> None:
    lines = [
        "---",
        "# mine",
        "name:  'A'",
        "description: old  # why",
        "status: disputed",
        "odd: 1",
        "---",
        "",
        "old",
        "",
    ]
    old = (bom + newline.join(lines)).encode()
    made = store({"memory/a.md": old})
    base = digest_bytes(old)
    commit(made, {"name": "a", "description": "new", "base": base})
    assert (made.root / "memory/a.md").read_bytes() == old.replace(b"description: old", b"description: new")
    base = made.read_file("memory/a.md").digest
    commit(made, {"name": "a", "content": "new\ntext", "base": base})
    after = (bom + newline.join([*lines[:-2], "new", "text", ""])).replace("description: old", "description: new")
    assert (made.root / "memory/a.md").read_bytes() == after.encode()


@pytest.mark.parametrize("content", ["", "\n", None, "---\nstatus: active\n---\n", "---\ntags: [x]\n---\n\n  \n"])
def test_an_empty_field_leaves_what_is_there(store: MakeStore, content: str | None) -> None:
    made = store({"memory/a.md": "---\nname: x\n---\nmine\n"})
    done = commit(made, {"name": "a", "description": "", "content": content})
    assert snapshot(made) == {"memory/a.md": b"---\nname: x\n---\nmine\n"}
    assert done == {"recall_files": [], "resources": [], "commit": None}


@pytest.mark.parametrize("old", ["---\nbad: [\n---\nmine\n", "---\nname: x\nmine\n"])
def test_malformed_front_matter_is_never_touched(store: MakeStore, old: str) -> None:
    made = store({"memory/a.md": old})
    commit(made, {"name": "a", "description": "new", "base": digest_bytes(old.encode())})
    assert snapshot(made) == {"memory/a.md": old.encode()}


def test_bytes_that_are_not_utf_8_survive_a_patch(store: MakeStore) -> None:
    old = b"caf\xe9\n"
    made = store({"memory/a.md": old})
    commit(made, {"name": "a", "description": "new", "base": digest_bytes(old)})
    assert snapshot(made) == {"memory/a.md": b"---\ndescription: new\n---\n" + old}


def test_front_matter_that_cannot_take_the_change_is_refused(store: MakeStore) -> None:
    old = b"---\n{name: x, description: old}\n---\nmine\n"
    made = store({"memory/a.md": old})
    with pytest.raises(PayloadError, match="by hand"):
        commit(made, {"name": "a", "description": "new", "base": digest_bytes(old)})
    assert snapshot(made) == {"memory/a.md": old}


def test_a_file_that_exists_is_replaced_only_by_who_read_it(store: MakeStore) -> None:
    made = store({"memory/a.md": "mine\n"})
    with pytest.raises(BaseMissingError, match="give its digest as 'base'"):
        commit(made, {"name": "a", "content": "yours"})
    with pytest.raises(FileChangedError, match="Read it again"):
        commit(made, {"name": "a", "content": "yours", "base": digest_bytes(b"older\n")})
    with pytest.raises(FileChangedError):
        commit(made, {"name": "gone", "content": "yours", "base": digest_bytes(b"older\n")})
    assert snapshot(made) == {"memory/a.md": b"mine\n"}


def test_the_same_content_again_needs_no_base_and_writes_nothing(git_store: MakeStore, git: RunGit) -> None:
    made = git_store()
    item = {"name": "a", "description": "d", "content": "text"}
    commit(made, item)
    head = git("rev-parse", "HEAD", cwd=made.root)
    assert commit(made, item)["recall_files"] == []
    assert git("rev-parse", "HEAD", cwd=made.root) == head


def test_the_git_commit_holds_exactly_the_paths_of_the_payload(git_store: MakeStore, git: RunGit) -> None:
    made = git_store({"memory/dirty.md": "a", "memory/[ab].md": "a", "memory/a.md": "a"})
    (made.root / "memory/dirty.md").write_text("b")
    (made.root / "memory/a.md").write_text("b")
    base = made.read_file("memory/[ab].md").digest
    done = commit(made, {"name": "new"}, {"name": "[ab]", "content": "b", "base": base})
    assert done["commit"] == git("rev-parse", "HEAD", cwd=made.root).strip()
    assert git("show", "--name-only", "--format=", cwd=made.root).split() == ["memory/[ab].md", "memory/new.md"]
    assert (
        git("show", "-s", "--format=%s|%(trailers)", cwd=made.root).strip()
        == "memory: write 2 files|Memu-Origin: agent"
    )
    assert git("status", "--porcelain", cwd=made.root).splitlines() == [" M memory/a.md", " M memory/dirty.md"]


@pytest.mark.parametrize("name", ["x\n\nMemu-Origin: human", "x\0y", "-m", "$(id)"])
def test_no_name_reaches_the_message_as_more_than_a_path(git_store: MakeStore, git: RunGit, name: str) -> None:
    made = git_store()
    assert commit(made, {"name": name})["recall_files"][0]["name"] == name
    assert git("show", "-s", "--format=%(trailers)", cwd=made.root).strip() == "Memu-Origin: agent"
    assert len(git("show", "-s", "--format=%B", cwd=made.root).strip().splitlines()) == 3


def test_blank_names_are_skipped_and_of_repeated_names_the_last_counts(store: MakeStore) -> None:
    made = store()
    commit(
        made,
        {"name": "  ", "content": "x"},
        {"name": "caf\u00e9", "content": "one"},
        {"name": " cafe\u0301 ", "content": "two"},
        {"name": "b", "track": "resource", "content": "three"},
    )
    assert sorted(snapshot(made)) == ["memory/caf\u00e9.md", "resource/b.md"]
    assert snapshot(made)["memory/caf\u00e9.md"].endswith(b"\ntwo\n")


def test_names_that_some_system_confuses_are_refused_together(store: MakeStore) -> None:
    made = store()
    with pytest.raises(PayloadError, match="'A' and 'a' are the same name"):
        commit(made, {"name": "a"}, {"name": "A"})
    assert snapshot(made) == {}


def test_a_name_in_another_case_means_the_file_that_is_there(store: MakeStore) -> None:
    made = store({"memory/Deploy.md": "mine\n", "skill/x/SKILL.md": "mine\n"})
    base = digest_bytes(b"mine\n")
    commit(
        made,
        {"name": "deploy", "content": "yours", "base": base},
        {"name": "x", "track": "skill", "content": "yours", "base": base},
    )
    assert snapshot(made) == {"memory/Deploy.md": b"yours\n", "skill/x/SKILL.md": b"yours\n"}


def test_a_name_of_two_files_is_refused(store: MakeStore) -> None:
    made = store({"skill/x.md": "a", "skill/x/SKILL.md": "b"})
    with pytest.raises(PayloadError, match=r"skill/x\.md, skill/x/SKILL\.md|skill/x/SKILL\.md, skill/x\.md"):
        commit(made, {"name": "x", "track": "skill", "content": "y", "base": digest_bytes(b"a")})


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ({"name": "../x"}, BadNameError),
        ({"name": "a//b"}, BadNameError),
        ({"name": "a", "track": "notes"}, BadNameError),
        ({"name": "a", "status": "active"}, PayloadError),
        ({"name": "a", 1: "x"}, PayloadError),
        ({"name": 7}, PayloadError),
        ({"name": "a", "content": ["x"]}, PayloadError),
        ({"name": "a", "content": "x\ud800"}, PayloadError),
        ({"name": "a", "content": "---\nbad: [\n---\nx"}, PayloadError),
        ({"name": "a", "content": "---\n- a\n---\nx"}, PayloadError),
        ({"name": "a", "content": "x" * (17 * 1024 * 1024)}, PayloadError),
        ("a", PayloadError),
        (None, PayloadError),
    ],
    ids=lambda value: str(value)[:30],
)
def test_one_item_that_does_not_fit_stops_all(store: MakeStore, item: Any, error: type[MemuError]) -> None:
    made = store()
    with pytest.raises(error):
        commit(made, {"name": "good"}, item)
    assert snapshot(made) == {}


@pytest.mark.parametrize("field", ["description", "content", "name"])
def test_a_secret_is_refused_before_anything_is_written(git_store: MakeStore, git: RunGit, field: str) -> None:
    made = git_store({"memory/a.md": "x"})
    head = git("rev-parse", "HEAD", cwd=made.root)
    with pytest.raises(SecretInPayloadError, match="nothing was written") as caught:
        commit(made, {"name": "good"}, {"name": "bad", field: f"key {SECRET}"})
    assert SECRET not in str(caught.value)
    assert snapshot(made) == {"memory/a.md": b"x"}
    assert git("rev-parse", "HEAD", cwd=made.root) == head


def test_a_failing_write_takes_back_the_others(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store({"memory/a.md": "mine\n"})
    written: list[str] = []
    write = Store.write

    def third_fails(self: Store, path: str, data: bytes, *, expected: str | None) -> str:
        if path == "memory/c.md":
            raise FileNotWrittenError(path, "the disk is full")
        written.append(path)
        return write(self, path, data, expected=expected)

    monkeypatch.setattr(Store, "write", third_fails)
    with pytest.raises(FileNotWrittenError, match="the disk is full"):
        commit(made, {"name": "a", "content": "x", "base": digest_bytes(b"mine\n")}, {"name": "b"}, {"name": "c"})
    assert written == ["memory/a.md", "memory/b.md", "memory/a.md"]
    assert snapshot(made) == {"memory/a.md": b"mine\n"}


def test_a_file_in_the_way_takes_back_the_others(store: MakeStore) -> None:
    made = store({"memory/x": "a file"})
    with pytest.raises(FileNotWrittenError):
        commit(made, {"name": "a"}, {"name": "x/y"})
    assert snapshot(made) == {"memory/x": b"a file"}


def test_a_payload_never_writes_through_a_link(store: MakeStore, tmp_path: Path) -> None:
    made = store()
    (tmp_path / "outside.md").write_text("mine")
    (made.root / "memory/a.md").symlink_to(tmp_path / "outside.md")
    with pytest.raises(MemuError):
        commit(made, {"name": "a", "content": "yours"})
    assert (tmp_path / "outside.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("path", "file", "key"),
    [
        ("https://example.org/a//b/?q=1", "resource/example.org/a/b/%3Fq=1.md", "url"),
        ("docs/guide.pdf", "resource/docs/guide.pdf.md", "local_path"),
        ("../up/./x.txt", "resource/up/x.txt.md", "local_path"),
    ],
)
def test_a_resource_is_described(store: MakeStore, path: str, file: str, key: str) -> None:
    made = store()
    done = commit(made, resource=[{"path": path, "description": "A guide"}])
    assert list(snapshot(made)) == [file]
    assert meta_of(made, file)[key] == path
    assert [item["description"] for item in done["resources"]] == ["A guide"]
    commit(made, resource=[{"path": path, "description": "A better guide"}, {"path": " "}])
    assert meta_of(made, file)["description"] == "A better guide"
    with pytest.raises(PayloadError, match="unknown field 'url'"):
        commit(made, resource=[{"path": path, "url": "x"}])
