"""One suite on a memory in this process and on the same memory behind a daemon's socket: the bytes are equal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memu_fs import launch, thin
from memu_fs.backend import MAX_PAGE
from memu_fs.cli.app import run
from memu_fs.config import load_config
from memu_fs.errors import MemuError
from memu_fs.local import LocalMemory
from memu_fs.runtime import socket_path
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import Device, MakeStore, RunGit

FILES = {
    "memory/owl.md": "---\ndescription: Night birds\n---\n\n# Owls\n\nOwls hunt at night.\n\n## Food\n\nVoles.\n",
    "memory/eel.md": "# Eels\n\nEels swim far. See [[owl]].\n",
    "memory/old.md": "---\nstatus: superseded\nsuperseded_by: owl\n---\n\nOwls hunt by day.\n",
    "memory/guess.md": "---\nstatus: disputed\norigin: agent\n---\n\nOwls can count, or so the owl says.\n",
    "memory/owl.conflict-0123abcd.md": "Owls hunt at dusk.\n",
    "memory/projects/mill/owl.md": "The owls of the mill live in the loft.\n",
    "memory/agents/scribe/owl.md": "The scribe keeps an owl.\n",
    "memory/日本.md": "フクロウは夜に狩りをする。 🦉\n",
    "skill/count-owls/SKILL.md": "---\nname: count-owls\ndescription: Count owls\nverify: test -f x\n---\n\nListen.\n",
    "resource/atlas.md": "---\ndescription: Atlas of owls\nurl: https://example.org/owls\n---\n",
}
ARGUMENTS = [
    ["owls"],
    ["owls", "hunt", "--json"],
    ["owls", "--json", "--limit", "1"],
    ["owls", "-n", "2", "--content"],
    ["owls", "--json", "--content", "--explain"],
    ["owls", "--explain", "--scope", "all"],
    ["owls", "--json", "--include-inactive", "--scope", "all"],
    ["owls", "--json", "--track", "skill", "--track", "resource"],
    ["owls", "--track", "memory", "--scope", "project:mill", "--scope", "agent:scribe"],
    ["owls", "--format", "context"],
    ["owls", "--format", "context", "--scope", "all", "--include-inactive", "--limit", "9"],
    ["フクロウ", "--json"],
    ["\udcff owls", "--json"],
    ["?!", "--json"],
    ["zyxw"],
    ["owls", "--", "--json"],
    [],
    ["  "],
    ["owls", "--track", "recipes"],
    ["owls", "--scope", "acme"],
    ["owls", "--limit", "0"],
    ["owls", "--limit", "many"],
    ["owls", "--colour"],
    ["owls", "--format", "xml"],
    ["x" * 100_001],
]


#: Path, body, status.
BAD_REQUESTS: list[tuple[str, dict[str, Any], int]] = [
    ("/search", {"query": "", "scope": "all"}, 400),
    ("/search", {"scope": "all"}, 400),
    ("/search", {"query": 3, "scope": "all"}, 400),
    ("/search", {"query": "owl", "scope": "acme"}, 400),
    ("/search", {"query": "owl", "scope": 3}, 400),
    ("/search", {"query": "owl", "scope": "all", "track": "recipes"}, 400),
    ("/search", {"query": "owl", "scope": "all", "limit": 0}, 400),
    ("/search", {"query": "owl", "scope": "all", "limit": "3"}, 400),
    ("/search", {"query": "owl", "scope": "all", "limit": True}, 400),
    ("/search", {"query": "owl", "scope": "all", "content": "yes"}, 400),
    ("/search", {"query": "owl", "scope": "all", "colour": "red"}, 400),
    ("/search", {"query": "o" * 100_001, "scope": "all"}, 400),
    ("", {"recall_files": 3}, 400),
    ("", {"recall_files": [3]}, 400),
    ("", {"recall_files": [{"name": "../x", "content": "x"}]}, 400),
    ("", {"recall_files": [{"name": "owl", "content": "x"}]}, 500),
    ("", {"recall_files": [{"name": "key", "content": "AKIA" + "IOSFODNN7EXAMPLQ"}]}, 500),
]


@pytest.fixture
def served(device: Device, git_store: MakeStore) -> Store:
    """Give a store behind a daemon that has finished its first pass."""
    made = git_store(FILES)
    device.start(made)
    return made


def both(argv: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[tuple[int | None, str, str], ...]:
    """Run a command through the socket and in this process; give exit code and output of each."""
    capfd.readouterr()
    warm = thin.ask(argv)
    through = (warm, *capfd.readouterr())
    cold = run(argv)
    return through, (cold, *capfd.readouterr())


def test_a_command_prints_the_same_bytes_through_the_socket(
    served: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMU_FS_DAEMON", "off")
    monkeypatch.chdir(served.root.parent)
    for name in ("retrieve", "search"):
        for words in ARGUMENTS:
            through, here = both([name, "--store", "store", *words], capfd)
            assert through == here, words
            assert here[1] or here[2], words


def test_errors_about_the_store_are_the_same(
    served: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMU_FS_DAEMON", "off")
    monkeypatch.chdir(served.root)
    assert thin.ask(["retrieve", "--store", "nowhere", "owls"]) is None
    for text in ("format = 9", "format = "):
        (served.root / ".memu-fs.toml").write_text(text)
        through, here = both(["retrieve", "owls"], capfd)
        assert through == here
        assert here[0] == 1


def test_the_scope_is_that_of_the_callers_folder(
    served: Store, capfd: pytest.CaptureFixture[str], git: RunGit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMU_FS_DAEMON", "off")
    (tmp_path / "mill" / "wheel").mkdir(parents=True)
    git("init", "--quiet", cwd=tmp_path / "mill")
    for folder, is_seen in ((tmp_path / "mill" / "wheel", True), (tmp_path, False), (served.root, False)):
        monkeypatch.chdir(folder)
        through, here = both(["retrieve", "--store", str(served.root), "--json", "owls loft"], capfd)
        assert through == here
        assert ("live in the loft" in here[1]) is is_seen


def test_after_edits_the_answers_are_level_and_the_same(
    served: Store, device: Device, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, git: RunGit
) -> None:
    monkeypatch.setenv("MEMU_FS_DAEMON", "off")
    argv = ["retrieve", "--store", str(served.root), "--json", "--include-inactive", "--scope", "all", "owls newts"]

    def same(text: str) -> None:
        def answer() -> str | None:
            through, here = both(argv, capfd)
            found = json.loads(here[1])
            is_level = found["stale"] == 0 and found["reason"] is None and json.loads(through[1])["stale"] == 0
            return here[1] if is_level and through == here else None

        assert text in device.wait(answer)

    memory = served.root / "memory"
    (memory / "newt.md").write_text("Newts sleep all winter.\n")
    same("Newts sleep")
    (memory / "owl.md").write_text("Owls hunt newts.\n")
    same("Owls hunt newts")
    (memory / "eel.md").rename(memory / "eels.md")
    (memory / "newt.md").unlink()
    same("Owls hunt newts")
    git("checkout", "--quiet", ".", cwd=served.root)
    same("Owls hunt at night.")


@pytest.fixture
def http(served: Store) -> Iterator[httpx.Client]:
    """Give a client of the daemon's HTTP application."""
    transport = httpx.HTTPTransport(uds=socket_path(str(served.root)))
    with httpx.Client(transport=transport, base_url="http://memu-fs/api/v4/memory", timeout=30) as client:
        yield client


def local(store: Store) -> LocalMemory:
    return LocalMemory([store], load_config(os.environ))


def outcome(call: Any) -> Any:
    """Give what a call gives, or the sentence with which it fails."""
    try:
        return call()
    except MemuError as error:
        return {"error": str(error)}


def test_the_pages_of_a_listing_are_the_same(served: Store, http: httpx.Client) -> None:
    memory = local(served)
    for scope in ("all", "shared", "project:mill", "agent:scribe"):
        for inactive in (False, True):
            for limit in (1, 3, MAX_PAGE):
                cursor, names = None, []
                for _ in range(20):
                    where = {"scope": [scope], "include_inactive": inactive}
                    here = memory.list_all_recall_files(where, cursor, limit, content=True)
                    asked: dict[str, Any] = {"scope": scope, "include_inactive": str(inactive).lower(), "limit": limit}
                    there = http.get("", params=asked | ({"cursor": cursor} if cursor else {}))
                    assert there.status_code == 200
                    assert there.json() == here
                    names += [file["name"] for file in here["recall_files"]]
                    cursor = here["next_cursor"]
                    if cursor is None:
                        break
                assert len(names) == len(set(names)) >= 5


def test_several_scopes_and_tracks_can_be_listed(served: Store, http: httpx.Client) -> None:
    scopes = ["project:mill", "agent:scribe"]
    where = {"scope": scopes, "track": ["memory", "resource"]}
    there = http.get("/", params={"scope": scopes, "track": ["memory", "resource"]}).json()
    assert there == local(served).list_all_recall_files(where, content=True)
    assert {file["scope"] for file in there["recall_files"]} == {"", "projects/mill", "agents/scribe"}


def test_searches_are_the_same(served: Store, http: httpx.Client) -> None:
    memory = local(served)
    for options in ({}, {"limit": 1}, {"limit": 9, "content": True, "explain": True}):
        for where in ({"scope": "all"}, {"scope": ["project:mill"], "track": "memory"}, {"scope": "shared"}):
            here = memory.progressive_retrieve("owls at night", where, **options)  # type: ignore[arg-type]
            there = http.post("/search", json={"query": "owls at night", **where, **options})
            assert there.json() == here
            assert here["segments"]


def test_what_memus_clients_send_is_understood(served: Store, http: httpx.Client) -> None:
    memory = local(served)
    for agent, scope in (("scribe", "agent:scribe"), ("default", "shared"), ("", "shared")):
        user = {"user_id": "default", "agent_id": agent}
        for end in ("", "/"):
            found = http.post(f"/search{end}", json={"query": "owl", **user}).json()
            assert found == memory.progressive_retrieve("owl", {"scope": scope})
            assert http.get(end, params=user).json() == memory.list_all_recall_files({"scope": scope}, content=True)


def test_errors_are_sentences(http: httpx.Client) -> None:
    for path, body, status in BAD_REQUESTS:
        answer = http.post(path, json=body)
        assert answer.status_code == status, body
        assert answer.json()["error"].endswith("."), answer.text


def test_errors_are_those_of_the_memory_itself(served: Store, http: httpx.Client) -> None:
    memory = local(served)
    for where in ({"scope": "acme"}, {"scope": "all", "track": "recipes"}, {"scope": "all", "colour": "red"}):
        here = outcome(lambda where=where: memory.progressive_retrieve("owl", where))
        assert http.post("/search", json={"query": "owl", **where}).json() == here
        assert http.get("", params=where).json() == here
    for limit in (0, MAX_PAGE + 1):
        here = outcome(lambda limit=limit: memory.list_all_recall_files({"scope": "all"}, None, limit))
        assert http.get("", params={"scope": "all", "limit": limit}).json() == here
    here = outcome(lambda: memory.list_all_recall_files({"scope": "all"}, "abc"))
    assert http.get("", params={"scope": "all", "cursor": "abc"}).json() == here
    assert http.get("", params={"scope": "all", "limit": "9" * 5000}).status_code == 400
    for files in ([{"name": "owl", "content": "x"}], [{"name": "a/../b", "content": "x"}], [{"title": "x"}]):
        here = outcome(lambda files=files: memory.commit_results(files))
        assert http.post("", json={"recall_files": files}).json() == here
        assert "error" in here


def test_a_body_that_is_no_object_or_too_large_is_refused(served: Store, http: httpx.Client) -> None:
    for data in (b"{", b"[]", b"3", b"[" * 100_000, b"\xff"):
        answer = http.post("/search", content=data)
        assert answer.status_code == 400
        assert answer.json()["error"] in ("The request is not JSON.", "The request must be a JSON object.")
    answer = http.post("/search", content=b'{"query": "' + b"o" * 17_000_000 + b'"}')
    assert (answer.status_code, answer.json()["error"]) == (413, "The request is larger than 16 MB.")
    assert launch.status(served.root) is not None


def test_a_commit_through_the_socket_is_a_commit(served: Store, http: httpx.Client, git: RunGit) -> None:
    payload = {
        "user": {"user_id": "default", "agent_id": "default"},
        "recall_files": [{"name": "newt", "track": "memory", "description": "Small", "content": "Newts sleep.\n"}],
        "resource": [{"path": "https://example.org/newts", "description": "Newts"}],
    }
    made = http.post("/", json=payload).json()
    assert [file["name"] for file in made["recall_files"]] == ["newt"]
    assert [file["name"] for file in made["resources"]] == ["example.org/newts"]
    assert git("rev-parse", "HEAD", cwd=served.root).strip() == made["commit"]
    found = http.post("/search", json={"query": "newts sleep", "scope": "shared"}).json()
    assert [file["name"] for file in found["files"]][:1] == ["newt"]
    assert found["stale"] == 0
