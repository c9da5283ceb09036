"""What people, clones and machines do wrong on purpose or by accident, and the one sentence that each gets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memu_fs.cli.app import run
from memu_fs.commit import PayloadError, commit_payload
from memu_fs.config import ConfigError, load_config
from memu_fs.event_log import record
from memu_fs.git import file_times
from memu_fs.index import folders
from memu_fs.index.lance_table import TableError, reported
from memu_fs.injected import forget, remember
from memu_fs.marker import MARKER, MAX_BYTES
from memu_fs.quoting import visible

if TYPE_CHECKING:
    from conftest import MakeStore

Command = Callable[..., tuple[int, str, str]]
OWL = {"memory/owl.md": "# Owls\n\nOwls hunt by night.\n"}


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command: ``command("list", "--store", folder)`` gives exit status, output and complaints."""
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "hashing")

    def ran(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([os.fsdecode(item) if isinstance(item, bytes) else str(item) for item in arguments])
        return (code, *capfd.readouterr())

    return ran


def is_sentence(text: str) -> bool:
    return text.startswith("memu-fs: ") and text.count("\n") == 1 and text.endswith(".\n")


# Places


@pytest.mark.parametrize("place", ["~nobody-of-that-name/x", "a" * 5_000, "x/" * 3_000])
def test_a_place_that_cannot_be_is_said_in_a_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for arguments in (("list", "--store", place), ("init", place)):
        code, _, said = command(*arguments)
        assert code in {1, 2}
        assert is_sentence(said)
    monkeypatch.setenv("MEMU_FS_STORE", place)
    code, _, said = command("list")
    assert code in {1, 2}
    assert is_sentence(said)


@pytest.mark.parametrize("name", ["embedder_path", "index_location"])
def test_a_setting_that_names_an_unknown_home_is_said_in_a_sentence(
    command: Command, store: MakeStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MEMU_FS_{name.upper()}", "~nobody-of-that-name/x")
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "minilm")
    code, _, said = command("index", "--store", store(OWL).root)
    assert code == 2
    assert "home folder" in said
    assert said.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="the system keeps the folder of a process")
def test_a_current_folder_that_is_gone_is_said(command: Command, tmp_path: Path) -> None:
    gone, before = tmp_path / "gone", Path.cwd()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        said = [command(*arguments) for arguments in (["status"], ["init", "x"], ["list", "--store", "x"])]
    finally:
        os.chdir(before)
    for code, _, sentence in said:
        assert code in {1, 2}
        assert sentence.lower() == "memu-fs: the current folder is gone; go to another one first.\n"


@pytest.mark.parametrize("name", ["store", "index_location", "embedder_path"])
def test_a_file_of_settings_names_whole_paths_alone(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'{name} = "notes"\n')
    with pytest.raises(ConfigError, match="whole path"):
        load_config({"MEMU_FS_CONFIG": str(file)}).get(name)


def test_no_setting_holds_a_nul(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('store = ["/a\\u0000b"]\nindex_location = "/a\\u0000b"\n')
    for name in ("store", "index_location"):
        with pytest.raises(ConfigError, match="must be a text"):
            load_config({"MEMU_FS_CONFIG": str(file)}).get(name)


# What a clone may bring


@pytest.mark.parametrize("place", ["index", "cache", "log", "index/1", "cache/vectors.sqlite", "index/current"])
def test_nothing_is_written_through_links_that_come_with_a_clone(
    command: Command, store: MakeStore, tmp_path: Path, place: str
) -> None:
    made, outside = store(OWL), tmp_path / "outside"
    (outside / "2024").mkdir(parents=True)
    (outside / "2024/photo").write_text("not ours\n")
    link = made.root / ".memu" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "new" if "." in place or place.endswith("current") else outside)
    for arguments in (["index"], ["index", "--rebuild"]):
        code, _, said = command(*arguments, "--store", made.root)
        assert code == 1
        assert str(link) in said
        assert is_sentence(said)
    code, _, said = command("retrieve", "--store", made.root, "owls")
    assert code == 0
    assert str(link) in said
    record(made.private, "commit")
    assert [path.name for path in sorted(outside.rglob("*"))] == ["2024", "photo"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge"])
def test_a_marker_that_is_no_plain_small_file_is_never_read(
    command: Command, store: MakeStore, tmp_path: Path, kind: str
) -> None:
    made = store(OWL)
    marker = made.root / MARKER
    if kind == "link":
        (tmp_path / "elsewhere").write_text("format = 1\n")
        marker.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(marker)
    elif kind == "folder":
        marker.mkdir()
    else:
        marker.write_bytes(b"#" * (MAX_BYTES + 1))
    for arguments in (["index"], ["check"], ["retrieve", "owls"]):
        code, _, said = command(*arguments, "--store", made.root)
        assert code == 1
        assert "is not a regular file" in said or "is larger than" in said
        assert is_sentence(said)


def test_tombstones_are_not_looked_for_outside_the_store(store: MakeStore, tmp_path: Path) -> None:
    made = store(OWL)
    (tmp_path / "outside/memory").mkdir(parents=True)
    (tmp_path / "outside/memory/owl.md").write_text("x")
    (made.root / ".tombstones").symlink_to(tmp_path / "outside")
    assert made.tombstones() == frozenset()
    (made.root / ".tombstones").unlink()
    (made.root / ".tombstones").mkdir()
    (made.root / ".tombstones/memory").symlink_to(tmp_path / "outside/memory")
    assert made.tombstones() == frozenset()


# What may lie in the private folder


@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 300, "99999999999999", "\u0663", "-1", "0", "", "1\n2"])
def test_a_current_that_holds_nonsense_is_no_index_and_is_replaced(
    command: Command, store: MakeStore, text: str
) -> None:
    made = store(OWL)
    command("index", "--store", made.root)
    (made.private / "index/current").write_text(text, "utf-8")
    assert folders.current_folder(made.private / "index") is None
    code, out, said = command("retrieve", "--store", made.root, "owls")
    assert (code, said) == (0, "")
    assert "hunt by night" in out


# Terminals


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(store: MakeStore, closed: str) -> None:
    made = store(OWL)
    line = f'"{sys.executable}" -m memu_fs list --json --store "{made.root}" {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_output_that_cannot_be_written_is_a_failure(store: MakeStore) -> None:
    made = store({f"memory/{number}.md": "x" * 9_000 for number in range(20)})
    for words in ("list", "list --json --content"):
        line = f'"{sys.executable}" -m memu_fs {words} --store "{made.root}" >/dev/full'
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=60)
        assert done.returncode == 1
        assert is_sentence(done.stderr.decode())


def test_what_a_file_holds_never_acts_on_a_terminal(command: Command, store: MakeStore) -> None:
    made = store(
        {"memory/a\n\x1b[31mb.md": "---\ndescription: \u202edesc\n---\n# \x1b]0;owned\x07Owls\n\nHunt \x9b2J\u202e.\n"}
    )
    for arguments in (
        ["retrieve", "hunt"],
        ["list"],
        ["list", "--tree"],
        ["check"],
        ["status"],
        ["retrieve", "hunt", "--content"],
    ):
        _, out, said = command(*arguments, "--store", made.root)
        assert not set(out + said) & set("\x1b\x07\x9b\u202e")
    assert visible("a\tb\u200d\u00e9\n\x00") == "a\tb\u200d\u00e9\\n\\x00"


# Git


def test_a_repository_that_git_refuses_is_not_called_clean_or_missing(command: Command, git_store: MakeStore) -> None:
    made = git_store(OWL)
    (made.root / ".git/HEAD").write_text("")
    _, out, _ = command("doctor", "--store", made.root)
    assert f"git does not use the repository around it\n      mend it with: git -C {made.root} status" in out
    (made.root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (made.root / ".git/index").write_bytes(b"damaged")
    code, out, _ = command("status", "--store", made.root)
    assert code == 0
    assert "all committed" not in out
    assert "git cannot say" in out


@pytest.mark.parametrize("name", ["GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_DIR"])
def test_variables_of_git_take_no_times_away(git_store: MakeStore, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made = git_store(OWL)
    monkeypatch.setenv(name, "1")
    assert set(file_times(made.root) or {}) == set(OWL)


# Settings and answers


def test_no_password_of_an_address_is_taken_or_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("MEMU_FS_CONFIG", str(file))
    code, _, said = command("config", "set", "embedder_url", "http://ada:hush@host/v1")
    assert code == 2
    assert "hush" not in said
    file.write_text('embedder_url = "http://ada:hush@host/v1?key=hush"\n')
    for arguments in (["config", "show"], ["config", "show", "--json"]):
        _, out, _ = command(*arguments)
        assert "http://host/v1" in out
        assert "hush" not in out


def test_a_path_that_is_set_means_the_same_from_every_folder(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMU_FS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.chdir(tmp_path)
    assert command("config", "set", "index_location", "near")[0] == 0
    assert load_config().get("index_location") == str(tmp_path / "near")
    assert command("config", "set", "store", f"one{os.pathsep}~/two")[0] == 0
    assert load_config().get("store") == [str(tmp_path / "one"), "~/two"]


def test_without_the_key_of_its_embedder_it_answers_by_keywords(
    command: Command, store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store(OWL)
    assert command("index", "--store", made.root)[0] == 0
    monkeypatch.setenv("MEMU_FS_EMBEDDER", "openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, out, said = command("retrieve", "--store", made.root, "owls")
    assert code == 0
    assert "hunt by night" in out
    assert "OPENAI_API_KEY" in said


def test_an_index_that_cannot_be_made_leaves_no_more_behind_each_time(
    command: Command, store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store(OWL)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memu_fs.index.lance_table.create", refuse)
    for _ in range(3):
        code, _, said = command("retrieve", "--store", made.root, "owls")
        assert code == 0
        assert "No space left" in said
    assert len([path for path in (made.private / "index").iterdir() if path.is_dir()]) <= 1


def test_a_panic_of_the_database_is_one_of_its_errors() -> None:
    panic = type("RustPanic", (BaseException,), {})
    with pytest.raises(TableError, match="panicked"), reported():
        raise panic


def test_a_damaged_cache_that_cannot_be_moved_costs_an_embedding_and_nothing_more(
    command: Command, store: MakeStore
) -> None:
    made = store(OWL)
    cache = made.private / "cache/vectors.sqlite"
    (cache.parent / "vectors.sqlite-wal").mkdir(parents=True)
    (cache.parent / "vectors.sqlite-shm/in the way").mkdir(parents=True)
    cache.write_bytes(b"damaged" * 1_000)
    code, out, said = command("index", "--store", made.root)
    assert (code, said) == (0, "")
    assert "1 embedded" in out


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"query": "x", "files": ["memory/a"], "lines": {"memory/a": [[1, 1e400]]}}']
)
def test_a_query_file_of_nonsense_is_said_in_a_sentence(command: Command, store: MakeStore, line: str) -> None:
    made = store(OWL)
    (made.root / "queries.jsonl").write_text(line)
    code, _, said = command("eval", made.root)
    assert code == 1
    assert "queries.jsonl:1 cannot be used" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("payload", [None, 5, "x", {"name": "a"}])
def test_a_payload_that_is_no_list_is_refused(store: MakeStore, payload: Any) -> None:
    made = store(OWL)
    with pytest.raises(PayloadError, match="recall_files must be a list"):
        commit_payload(made, payload)
    with pytest.raises(PayloadError, match="resource must be a list"):
        commit_payload(made, [], payload)


@pytest.mark.parametrize("place", ["", "log", "injected"])
def test_nothing_is_logged_remembered_or_dropped_through_a_link(
    command: Command, store: MakeStore, tmp_path: Path, place: str
) -> None:
    made, outside = store(OWL), tmp_path / "outside"
    outside.mkdir()
    (outside / "photo").write_text("not ours\n")
    os.utime(outside / "photo", (0, 0))
    link = made.private / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    assert command("retrieve", "--store", made.root, "owls")[0] == 0
    record(made.private, "commit")
    for session in ("one", "two"):
        remember(made.private, session, ["segment"])
        forget(made.private, session)
    assert [path.name for path in outside.rglob("*")] == ["photo"]
