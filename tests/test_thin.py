"""The thin client: what it imports, which store it finds, and what it does when the daemon is not what it should be."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs import launch, thin
from memu_fs.config import load_config
from memu_fs.errors import MemuError
from memu_fs.locate import find_stores
from memu_fs.runtime import name_of, runtime_folder, socket_path

if TYPE_CHECKING:
    from conftest import Device, MakeStore

OWL = {"memory/owl.md": "Owls hunt at night.\n"}
#: Runs the real entry point and says at the very end which modules were loaded.
SAY_MODULES = """
import os, sys
leave = os._exit
def say(code):
    sys.stderr.write(" ".join(sys.modules))
    sys.stderr.flush()
    leave(code)
os._exit = say
from memu_fs.cli import main
main()
"""


def configure(text: str) -> None:
    path = load_config().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_warm_retrieve_imports_four_standard_modules(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    device.start(made)
    bare = [sys.executable, "-I", "-c", "import json, os, socket, sys; print(json.dumps(list(sys.modules)))"]
    known = set(json.loads(subprocess.run(bare, capture_output=True, text=True, check=True).stdout))
    command = [sys.executable, "-P", "-c", SAY_MODULES, "retrieve", "--store", str(made.root), "owls"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Owls hunt at night." in done.stdout
    assert set(done.stderr.split()) - known == {"memu_fs", "memu_fs.cli", "memu_fs.runtime", "memu_fs.thin"}


@pytest.mark.parametrize(
    "argv",
    [
        ["retrieve", "owls"],
        ["retrieve", "owls", "--store", "two"],
        ["retrieve", "--store=two", "owls"],
        ["retrieve", "--store", "link", "owls"],
        ["retrieve", "--store", "~/three", "owls"],
        ["retrieve", "--store", "", "owls"],
        ["retrieve", "--", "owls", "--store", "two"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("chosen", ["", "two", f"two{os.pathsep}"])
@pytest.mark.parametrize("cwd", ["one/memory", "."])
def test_the_store_is_the_one_that_the_command_itself_finds(
    argv: list[str],
    chosen: str,
    cwd: str,
    store: MakeStore,
    tmp_path: Path,
    isolation: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("one", "two", "four"):
        (store(OWL, folder=name).root / ".memu-fs.toml").write_text("format = 1\n")
    (tmp_path / "link").symlink_to("two")
    (isolation / "three" / "memory").mkdir(parents=True)
    (tmp_path / "one" / "memory" / "two" / "memory").mkdir(parents=True)
    (tmp_path / "one" / "memory" / "link").symlink_to("two")
    (tmp_path / "memory").mkdir()
    (tmp_path / "one" / "memory" / "memory").mkdir()
    configure(f"store = {json.dumps(str(tmp_path / 'four'))}\n")
    if chosen:
        monkeypatch.setenv("MEMU_FS_STORE", chosen)
    monkeypatch.chdir(tmp_path / cwd)
    launch.note_configured(load_config())
    words = thin.options(argv)
    named = [Path(word) for before, word in itertools.pairwise(words) if before == "--store"]
    named += [Path(word[8:]) for word in words if word.startswith("--store=")]
    found = find_stores(load_config(), named, Path.cwd())
    assert thin.find_store(argv) == str(found[0].root)


def test_several_stores_are_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thin.find_store(["retrieve", "--store", "a", "--store", "b", "owls"]) is None
    monkeypatch.setenv("MEMU_FS_STORE", f"a{os.pathsep}b")
    assert thin.find_store(["retrieve", "owls"]) is None


def test_the_note_holds_until_the_configuration_changes(
    store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, argv = store(OWL), ["retrieve", "owls"]
    monkeypatch.chdir(tmp_path)
    configure(f"store = {json.dumps(str(made.root))}\n")
    assert thin.find_store(argv) is None
    launch.note_configured(load_config())
    assert thin.find_store(argv) == str(made.root)
    before = load_config().path.stat()
    configure(f"store = {json.dumps(str(made.root.with_name('stork')))}\n")
    os.utime(load_config().path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert thin.find_store(argv) is None
    launch.note_configured(load_config())
    assert thin.find_store(argv) == str(made.root.with_name("stork"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    assert thin.find_store(argv) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"config": 1}', '{"config": "/"}'])
def test_a_note_that_is_damaged_counts_as_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (launch.make_runtime_folder() / "configured.json").write_text(text)
    assert thin.find_store(["retrieve", "owls"]) is None


def test_a_socket_in_a_folder_that_others_can_write_to_is_not_asked(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    device.start(made)
    Path(runtime_folder()).chmod(0o777)
    assert launch.status(made.root) is None
    done = device.run("retrieve", "--store", str(made.root), "owls")
    assert "Owls hunt at night." in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(MemuError, match="is not yours alone; remove it, or set MEMU_FS_RUNTIME"):
        launch.start(made.root)


def test_a_note_in_a_folder_that_others_can_write_to_is_not_believed(store: MakeStore, tmp_path: Path) -> None:
    configure(f"store = {json.dumps(str(store(OWL).root))}\n")
    launch.note_configured(load_config())
    Path(runtime_folder()).chmod(0o750)
    assert thin.find_store(["retrieve", "owls"]) is None


def test_the_socket_that_a_dead_daemon_left_behind_is_no_obstacle(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    launch.make_runtime_folder()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_path(str(made.root)))
    done = device.run("retrieve", "--store", str(made.root), "owls")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Owls hunt at night." in done.stdout
    device.wait(lambda: device.status(made))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"code": 0, "stdout": "ow',
        b'HTTP/1.1 500 Oh\r\n\r\n{"code": 0, "stdout": "", "stderr": ""}',
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"\xff\x00nonsense",
    ],
)
def test_an_answer_that_is_none_leaves_the_command_to_its_own_process(
    answer: bytes, device: Device, store: MakeStore
) -> None:
    made = store(OWL)
    launch.make_runtime_folder()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_path(str(made.root)))
        listener.listen()
        command = device.command("retrieve", "--store", str(made.root), "owls")
        environment = {**os.environ, "MEMU_FS_DAEMON": "off"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as asking:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
            listener.close()
            assert "Owls hunt at night." in asking.communicate(timeout=60)[0]
    assert asking.returncode == 0


def test_a_daemon_that_is_killed_while_it_is_asked_does_not_take_the_answer_with_it(
    device: Device, store: MakeStore
) -> None:
    made = store(OWL)
    daemon = device.start(made)["pid"]
    os.kill(daemon, signal.SIGSTOP)
    command = device.command("retrieve", "--store", str(made.root), "owls")
    environment = {**os.environ, "MEMU_FS_DAEMON": "off"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as asking:
        time.sleep(1)
        assert asking.poll() is None
        os.kill(daemon, signal.SIGKILL)
        said, errors = asking.communicate(timeout=60)
    assert (asking.returncode, errors) == (0, "")
    assert "Owls hunt at night." in said


@pytest.mark.parametrize("options", ["", "--no-daemon"])
def test_an_output_that_cannot_be_written_ends_the_same_way_with_and_without_a_daemon(
    options: str, device: Device, store: MakeStore
) -> None:
    made = store({f"memory/owl{number}.md": "Owls hunt at night.\n" * 200 for number in range(9)})
    device.start(made)
    words = shlex.join(device.command("retrieve", "--json", "--content", "--store", str(made.root), "owls"))
    for ending, code, said in (
        ("> /dev/full", 1, "memu-fs: the output could not be written: No space left on device.\n"),
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("<&-", 0, ""),
    ):
        done = subprocess.run(["sh", "-c", f"{words} {options} {ending}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, said), ending
    command = [*shlex.split(words), *options.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stderr is not None
        asking.stdout.close()
        assert asking.stderr.read() == b""
    assert asking.returncode == 141


def test_a_working_directory_that_is_gone_is_said_in_a_sentence(device: Device, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    words = shlex.join(device.command("retrieve", "owls"))
    done = subprocess.run(
        ["sh", "-c", f"rmdir {folder} && {words}"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "memu-fs: The current folder is gone; go to another one first.\n"


def test_stores_have_sockets_of_their_own() -> None:
    assert name_of("/a/store") != name_of("/a/stork")
    assert len(socket_path("/" + "long" * 200)) < 108
