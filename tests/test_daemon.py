"""The daemon as a real process: one for each store, private, hard to kill by mistake, gone when nobody needs it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memu_fs import __version__, launch, thin
from memu_fs.config import load_config
from memu_fs.launch import log_file
from memu_fs.runtime import PROTOCOL, runtime_folder, socket_path
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import Device, MakeStore

Done = subprocess.CompletedProcess[str]
OWL = {"memory/owl.md": "Owls hunt at night.\n"}
MANY = {f"memory/page-{number}.md": f"Page {number} is about owl number {number}.\n" for number in range(1500)}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(device: Device, pid: int) -> bool:
    return bool(device.wait(lambda: not is_alive(pid)))


def log_of(store: Store) -> str:
    return log_file(store.root).read_text()


def retrieve(device: Device, store: Store, *words: str, under: dict[str, str] | None = None) -> Done:
    return device.run("retrieve", "--store", str(store.root), *words, under=under)


def finds(device: Device, store: Store, word: str, text: str) -> bool:
    return text in retrieve(device, store, word).stdout


def ask(store: Store, **changes: Any) -> dict[str, Any] | None:
    """Send the request of a thin client, changed."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(("MEMU_FS_", "HOME", "XDG"))}
    request = {
        "protocol": PROTOCOL,
        "version": __version__,
        "argv": ["retrieve", "--store", str(store.root), "owls"],
        "cwd": str(store.root),
        "env": environment,
        "stdin": None,
        "deadline": None,
    }
    return thin.exchange(str(store.root), "/cli", request | changes, 20.0)


def test_a_daemon_is_started_seen_restarted_and_stopped(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    here = ("--store", str(made.root))
    none = device.run("daemon", "status", *here)
    assert (none.returncode, none.stdout) == (1, "no daemon runs\n")
    pid = device.start(made)["pid"]
    assert f"runs, process {pid}, version {__version__}" in device.run("daemon", "start", *here).stdout
    assert "watcher by events" in device.run("daemon", "status", *here).stdout
    assert f"Daemon process {pid}, " in device.run("status", *here).stdout
    assert device.run("daemon", "restart", *here).returncode == 0
    assert gone(device, pid)
    later = device.wait(lambda: device.status(made))["pid"]
    assert device.run("daemon", "stop", *here).stdout == "stopped\n"
    assert gone(device, later)
    assert device.run("daemon", "stop", *here).stdout == "no daemon runs\n"
    log = device.run("daemon", "logs", *here).stdout
    assert log.index(f"process {pid}") < log.index(f"serving {made.root}, process {later}")
    assert device.run("daemon", "logs", "-n", "1", *here).stdout.endswith(f"ended, process {later}\n")
    assert not Path(socket_path(str(made.root))).exists()


def test_of_several_daemons_that_start_at_once_one_stays(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    command = device.command("watch", "--background", "--store", str(made.root))
    starting = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    device.wait(lambda: sum(process.poll() is not None for process in starting) == 2)
    ended = [process for process in starting if process.poll() is not None]
    for process in ended:
        assert "A daemon runs for" in process.communicate()[1]
        assert process.returncode == 1
    pid = device.wait(lambda: device.status(made))["pid"]
    assert [process.pid for process in starting if process.poll() is None] == [pid]
    launch.stop(made.root)
    for process in starting:
        process.communicate(timeout=30)


def test_the_lock_and_the_socket_of_a_killed_daemon_are_taken_over(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    for _ in range(2):
        pid = device.start(made)["pid"]
        os.kill(pid, signal.SIGKILL)
        assert gone(device, pid)
        assert Path(socket_path(str(made.root))).exists()
    assert finds(device, made, "owls", "Owls hunt at night.")
    assert device.wait(lambda: device.status(made))["pid"] != pid


def test_a_retrieve_without_a_daemon_answers_and_starts_one_for_next_time(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    off = {"MEMU_FS_DAEMON": "off"}
    for words, environment in ((["--no-daemon"], {}), ([], off)):
        assert "Owls" in retrieve(device, made, "owls", *words, under=environment).stdout
        assert not launch.is_held(made.root)
    assert device.run("config", "set", "daemon", "off").returncode == 0
    quiet = {**os.environ}
    del quiet["MEMU_FS_DAEMON"]
    command = device.command("retrieve", "--store", str(made.root), "owls")
    assert subprocess.run(command, env=quiet, capture_output=True, check=False).returncode == 0
    assert not launch.is_held(made.root)
    assert "Owls" in retrieve(device, made, "owls").stdout
    device.wait(lambda: device.status(made))
    assert thin.ask(["retrieve", "--store", str(made.root), "owls"]) == 0


def test_a_newer_client_ends_an_older_daemon_and_the_next_call_starts_another(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    assert ask(made, version="0.0.9")["code"] == 0  # type: ignore[index]
    assert ask(made, version="99.0") == {}
    assert gone(device, pid)
    pid = device.start(made)["pid"]
    assert ask(made, protocol=PROTOCOL + 1) == {}
    assert gone(device, pid)
    assert finds(device, made, "owls", "Owls hunt at night.")
    device.wait(lambda: device.status(made))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_daemon_that_is_told_to_end_finishes_the_pass_in_hand(
    number: signal.Signals, device: Device, store: MakeStore
) -> None:
    made = store(MANY)
    process = launch.start(made.root)
    assert process is not None
    assert device.wait(lambda: device.status(made))["last_pass"] is None
    process.send_signal(number)
    assert process.wait(60) == 0
    assert "Index  level, 1500 files" in device.run("status", "--store", str(made.root)).stdout
    assert not Path(socket_path(str(made.root))).exists()


def test_a_request_that_crashes_ends_nothing_else(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    crashes: list[dict[str, Any]] = [{"env": 3}, {"argv": None}, {"cwd": None}, {"argv": [{}]}]
    for broken in crashes:
        assert ask(made, **broken) == {}
    assert finds(device, made, "owls", "Owls hunt at night.")
    assert device.status(made)["pid"] == pid  # type: ignore[index]
    assert "Traceback" in log_of(made)


def test_a_daemon_that_nobody_asks_ends(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    process = launch.start(made.root)
    assert process is not None
    assert launch.wait_for(made.root, process)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    short = {"MEMU_FS_DAEMON_IDLE_MINUTES": "0.05"}
    assert device.run("daemon", "start", "--store", str(made.root), under=short).returncode == 0
    device.wait(lambda: not launch.is_held(made.root))
    assert "ending: nobody asked for 0.05 minutes" in log_of(made)


def test_a_daemon_ends_with_its_store_and_does_not_make_it_again(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    # The daemon may be writing a pass while the folder is taken away below it.
    device.wait(lambda: subprocess.run(["rm", "-rf", made.root], capture_output=True, check=False).returncode == 0)
    assert gone(device, pid)
    assert not made.root.exists()
    assert not Path(socket_path(str(made.root))).exists()


def test_a_daemon_whose_socket_was_cleaned_away_ends(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    shutil.rmtree(runtime_folder())
    assert gone(device, pid)
    assert "nobody can find its socket any more" in log_of(made)


def test_what_is_saved_can_be_found(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    device.start(made)
    page = made.root / "memory" / "deep" / "er" / "eel.md"
    page.parent.mkdir(parents=True)
    page.write_text("Eels swim far.\n")
    device.wait(lambda: finds(device, made, "eels", "Eels swim far."))
    draft = page.with_name(".eel.md.tmp")
    draft.write_text("Lampreys hold on.\n")
    draft.replace(page)
    device.wait(lambda: finds(device, made, "lampreys", "Lampreys hold on."))
    page.rename(made.root / "memory" / "lamprey.md")
    device.wait(lambda: finds(device, made, "lampreys", "memory/lamprey.md"))
    (made.root / "memory" / "lamprey.md").unlink()
    device.wait(lambda: not finds(device, made, "lampreys", "Lampreys hold on."))
    assert finds(device, made, "owls", "Owls hunt at night.")


def test_nobody_else_can_reach_what_a_daemon_leaves_on_disk(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    device.start(made)
    retrieve(device, made, "owls")
    folder = Path(runtime_folder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert Path(socket_path(str(made.root))).is_socket()
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()} == {
        path.name: "0o600" for path in folder.iterdir()
    }
    assert stat.S_IMODE(made.private.stat().st_mode) == 0o700
    assert stat.S_IMODE(log_file(made.root).parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name", ["with space", "Ünï 文書 🦉", "a" * 120 + "/" + "é" * 110], ids=["space", "unicode", "long"]
)
def test_any_folder_can_be_held_warm(name: str, device: Device, store: MakeStore) -> None:
    made = store(OWL, folder=name)
    pid = device.start(made)["pid"]
    assert finds(device, made, "owls", "Owls hunt at night.")
    (made.root / "memory" / "Äl & so.md").write_text("Eels swim far.\n")
    device.wait(lambda: finds(device, made, "eels", "Äl & so"))
    assert device.status(made)["pid"] == pid  # type: ignore[index]


def test_without_unix_sockets_a_daemon_listens_on_loopback_behind_a_token(
    device: Device, store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMU_FS_SOCKET", "tcp")
    made = store(OWL)
    device.start(made)
    place = Path(socket_path(str(made.root)))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    port, token = place.read_text().split()
    url = f"http://127.0.0.1:{port}/health"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer " + token[:-1]}):
        answer = httpx.get(url, headers=headers, trust_env=False)
        assert answer.status_code == 401
        assert answer.json() == {"error": "This server needs its key: send Authorization: Bearer KEY."}
    found = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, trust_env=False).json()
    assert found["store"] == str(made.root)
    assert thin.ask(["retrieve", "--store", str(made.root), "owls"]) == 0
    place.write_text("nonsense")
    assert finds(device, made, "owls", "Owls hunt at night.")
    device.wait(lambda: not is_alive(found["pid"]) or place.read_text() == "nonsense")
    place.write_text(f"{port} {token}")


def test_index_asks_the_daemon_for_a_pass_and_waits(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    before = device.start(made)
    (made.root / "memory" / "eel.md").write_text("Eels swim far.\n")
    done = device.run("index", "--store", str(made.root))
    assert done.stdout.startswith("2 files: ")
    after = device.status(made)
    assert after is not None
    assert (after["pid"], after["last_pass"]["files"]) == (before["pid"], 2)
    assert after["last_pass_at"] > before["last_pass_at"]
    assert device.run("index", "--store", str(made.root)).stdout == "2 files: 0 changed; 2 segments, 0 embedded\n"


def test_a_rebuild_beside_a_running_daemon_is_seen_by_it(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    assert device.run("index", "--rebuild", "--store", str(made.root)).returncode == 0
    assert finds(device, made, "owls", "Owls hunt at night.")
    assert device.status(made)["pid"] == pid  # type: ignore[index]


def test_a_daemon_does_not_answer_for_settings_that_it_does_not_hold(
    device: Device, store: MakeStore, tmp_path: Path
) -> None:
    made = store(OWL)
    pid = device.start(made)["pid"]
    for environment in ({"MEMU_FS_EMBEDDER_TIMEOUT": "7"}, {"HOME": str(tmp_path)}):
        done = retrieve(device, made, "owls", under=environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Owls hunt at night." in done.stdout
    assert device.status(made)["pid"] == pid  # type: ignore[index]


@pytest.mark.parametrize("change", ["settings", "marker"])
def test_a_daemon_whose_settings_have_changed_gives_way_to_another(
    change: str, device: Device, store: MakeStore
) -> None:
    made = store(OWL | {".memu-fs.toml": "format = 1\n"})
    pid = device.start(made)["pid"]
    if change == "settings":
        assert device.run("config", "set", "embedder_timeout", "7").returncode == 0
    else:
        (made.root / ".memu-fs.toml").write_text('format = 1\nid = "5c6b5e3c-6d0f-4c2e-8f43-0f4c3a3f0a11"\n')
    done = retrieve(device, made, "owls")
    assert "Owls hunt at night." in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert gone(device, pid)
    assert finds(device, made, "owls", "Owls hunt at night.")
    device.wait(lambda: device.status(made))
    assert thin.ask(["retrieve", "--store", str(made.root), "owls"]) == 0


def test_nothing_in_a_store_is_run_by_its_daemon(device: Device, store: MakeStore) -> None:
    trap = "open(__file__ + '.ran', 'w').close()\n"
    made = store(
        OWL | {f"{name}.py": trap for name in ("json", "typer", "lancedb", "sitecustomize", "memu_fs/__init__")}
    )
    pid = device.start(made)["pid"]
    assert finds(device, made, "owls", "Owls hunt at night.")
    assert device.status(made)["pid"] == pid  # type: ignore[index]
    assert list(made.root.rglob("*.ran")) == []


def test_a_daemon_that_cannot_listen_says_why(
    device: Device, store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store(OWL)
    monkeypatch.setenv("MEMU_FS_RUNTIME", str(tmp_path / ("long" * 40)))
    done = device.run("watch", "--store", str(made.root))
    assert done.returncode == 1
    assert done.stderr.endswith("AF_UNIX path too long. Set MEMU_FS_RUNTIME to another private folder.\n")
    start = device.run("daemon", "start", "--store", str(made.root))
    assert start.returncode == 1
    assert start.stderr == f"memu-fs: The daemon did not start; its log may say why: {log_file(made.root)}\n"
    assert "AF_UNIX path too long" in log_of(made)
    assert "Owls" in retrieve(device, made, "owls").stdout


def test_a_log_that_has_grown_is_put_aside(device: Device, store: MakeStore) -> None:
    made = store(OWL)
    log = log_file(made.root)
    log.parent.mkdir(parents=True)
    log.write_text("old\n" * 300_000)
    device.start(made)
    assert "old" not in log.read_text()
    assert log.with_suffix(".1.log").read_text().startswith("old\n")


def test_the_settings_of_the_warm_path_have_defaults() -> None:
    config = load_config({})
    names = ("daemon_idle_minutes", "hook_seconds", "hook_tokens", "hook_floor", "hook_repeat")
    assert config.text("daemon") == "auto"
    assert [config.number(name) for name in names] == [240, 0.8, 1500, 0.4, 1]
