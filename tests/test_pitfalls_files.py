"""What broke for users of similar tools, held against this one: files, names, line ends, pipes, git and secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs.checkup import check_store
from memu_fs.commit import SecretInPayloadError, commit_payload
from memu_fs.names import BadNameError, path_for
from memu_fs.recall_file import parse
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import MakeStore, RunGit


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def memu_fs(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "memu_fs", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("text", ["---\nname: [x\n---\nBody\n", "---\n\tname: x\n---\nBody\n", "---\nname: x\nBody\n"])
def test_malformed_front_matter_is_left_byte_for_byte_and_reported(store: MakeStore, text: str) -> None:
    made = store({"memory/a.md": text})
    page = made.read(made.find("a"))
    assert "Body" in page.file.body
    assert [problem.rule for problem in page.problems] == ["front-matter"]
    assert "front-matter" in {problem.rule for problem in check_store(made).problems}
    commit_payload(made, [{"name": "a", "description": "new", "base": page.digest}])
    assert snapshot(made.root) == {"memory/a.md": text.encode()}


def test_one_file_has_one_identity_in_every_normal_form(store: MakeStore) -> None:
    decomposed = unicodedata.normalize("NFD", "Caf\u00e9")
    made = store({f"memory/{decomposed}.md": "x"})
    (entry,) = made.walk().entries
    assert entry.name == "Caf\u00e9"
    assert made.find(decomposed) == made.find("Caf\u00e9") == entry
    (made.root / "memory/Caf\u00e9.md").write_text("y")
    found = made.walk()
    assert len(found.entries) == 2
    assert {problem.rule for problem in found.problems} == {"collision"}


@pytest.mark.parametrize(
    "name", ["🦉", "🦉🦉", "{", "[", "#", "%", "a b", "a-b", "a_b", "CON", "x.md", "...", "-rf", "'", '"']
)
def test_any_name_is_a_file_and_none_evicts_another(store: MakeStore, name: str) -> None:
    made = store({"memory/a b c.md": "x", "memory/a-b-c.md": "y"})
    done = commit_payload(made, [{"name": name, "content": "text"}])
    assert done["recall_files"][0]["name"] == name
    assert made.read(made.find(f"memory/{name}")).file.body == "\ntext\n"
    assert len(made.walk().entries) == 3
    assert made.walk().problems == ()


@pytest.mark.parametrize("name", ["../../escape", "..", "/etc/x", "a/../../x", "./x"])
def test_no_name_leaves_the_store(store: MakeStore, tmp_path: Path, name: str) -> None:
    made = store()
    with pytest.raises(BadNameError):
        commit_payload(made, [{"name": name, "content": "x"}])
    assert snapshot(tmp_path) == {}


def test_a_name_with_a_slash_is_a_folder(store: MakeStore) -> None:
    made = store()
    commit_payload(made, [{"name": "x/y", "content": "text"}])
    assert made.find("x/y").path == "memory/x/y.md"
    assert path_for("memory", "a b") != path_for("memory", "a-b")


def test_one_bad_file_never_stops_the_run(store: MakeStore) -> None:
    made = store({"memory/a.md": b"\xff\0", "memory/b.md": "---\nx: [\n---\n", "memory/good.md": "fine"})
    (made.root / "memory/pipe.md").symlink_to("/dev/zero")
    done = memu_fs("list", "--store", str(made.root), "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [file["name"] for file in json.loads(done.stdout)["recall_files"]] == ["a", "b", "good"]


@pytest.mark.parametrize("text", ["---\nname: X\n---\nBody", "\ufeff---\nname: X\n---\nBody\n", "---\nname: X\n---"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_marks_and_a_missing_last_one_are_understood_and_kept(
    store: MakeStore, text: str, newline: str
) -> None:
    data = text.replace("\n", newline).encode()
    assert (parse("memory/a.md", data).title, parse("memory/a.md", data).problems) == ("X", ())
    made = store({"memory/a.md": data})
    commit_payload(made, [{"name": "a", "description": "new", "base": made.read_file("memory/a.md").digest}])
    after = (made.root / "memory/a.md").read_bytes()
    assert after == data.replace(b"name: X", b"name: X" + newline.encode() + b"description: new")


@pytest.mark.parametrize("encoding", ["gbk", "ascii", "cp1252", "utf-16"])
def test_output_is_utf_8_whatever_the_terminal_says(store: MakeStore, encoding: str) -> None:
    made = store({"memory/caf\u00e9 🦉.md": "---\ndescription: 大阪 – ☕\n---\nx"})
    done = memu_fs("list", "--store", str(made.root), PYTHONIOENCODING=encoding, LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "memory/caf\u00e9 🦉" in done.stdout.decode("utf-8")
    assert "大阪 – ☕" in done.stdout.decode("utf-8")


def test_a_reader_that_leaves_early_causes_no_complaint(store: MakeStore) -> None:
    made = store({f"memory/{number:05}.md": "x" for number in range(5_000)})
    command = [sys.executable, "-m", "memu_fs", "list", "--store", str(made.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip() == b"memory/00000"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) in {0, 141}


def test_stray_files_and_converted_line_ends_do_not_stop_a_commit(git_store: MakeStore, git: RunGit) -> None:
    made = git_store({"memory/a.md": "one\r\n"})
    git("config", "core.autocrlf", "true", cwd=made.root)
    for stray in ("helper.py", "memory/notes.tmp", "skill/x.sh"):
        (made.root / stray).write_text("stray")
    base = made.read_file("memory/a.md").digest
    done = commit_payload(made, [{"name": "a", "content": "two", "base": base}])
    assert done["commit"]
    assert git("show", "--name-only", "--format=", cwd=made.root).split() == ["memory/a.md"]
    assert (made.root / "memory/a.md").read_bytes() == b"two\r\n"
    assert (made.root / "helper.py").read_text() == "stray"


def test_a_commit_that_cannot_be_made_loses_no_text(git_store: MakeStore) -> None:
    made = git_store()
    (made.root / ".git/index.lock").touch()
    done = commit_payload(made, [{"name": "a", "content": "text"}])
    assert done["commit"] is None
    assert made.read(made.find("a")).file.body == "\ntext\n"
    (made.root / ".git/index.lock").unlink()
    assert commit_payload(made, [{"name": "b", "content": "text"}])["commit"]


def test_a_pasted_key_is_found_and_never_repeated(store: MakeStore) -> None:
    secret = "ghp_" + "x7Kq2Lm9Pz4Rt8Vw1Yb6Nc3Df5Gh0Js2Ka4E"
    made = store({"memory/a.md": f"the token is {secret}\n"})
    problems = check_store(made).problems
    assert [(problem.line, problem.rule) for problem in problems if problem.rule == "secret"] == [(1, "secret")]
    assert secret not in str(problems)
    with pytest.raises(SecretInPayloadError) as caught:
        commit_payload(made, [{"name": "b", "content": f"the token is {secret}"}])
    assert secret not in str(caught.value)
    assert len(Store(made.root).walk().entries) == 1
    listed = memu_fs("list", "--store", str(made.root), "--json", "--content")
    assert secret.encode() not in listed.stdout
