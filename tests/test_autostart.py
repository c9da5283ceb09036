"""What has a system start the daemon: one file for each system, as text, and nothing that is run here."""

from __future__ import annotations

import json
import plistlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memu_fs import autostart
from memu_fs.autostart import unit_for
from memu_fs.cli.app import run
from memu_fs.errors import MemuError
from memu_fs.runtime import name_of

if TYPE_CHECKING:
    from conftest import Device, MakeStore

OWL = {"memory/owl.md": "Owls hunt at night.\n"}
PLAIN = Path("/srv/memory")
HARD = Path('/srv/it\'s "my" <memory> & 100% $HOME \\ Ünï')
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


@pytest.fixture
def home(isolation: Path) -> Path:
    """Give a home in which ``memu-fs`` lies where users' programs do."""
    program = isolation / ".local" / "bin" / "memu-fs"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return isolation


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "USERPROFILE": str(home), **more}


def settings_of(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line:
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_a_systemd_unit_starts_the_daemon_at_login_and_lets_it_finish(home: Path) -> None:
    unit = unit_for(PLAIN, "linux", environment(home))
    name = f"memu-fs-{name_of(str(PLAIN))}.service"
    assert unit.path == home / ".config" / "systemd" / "user" / name
    assert unit.enable == f"systemctl --user enable --now {name}"
    assert unit.disable == f"systemctl --user disable --now {name}"
    said = settings_of(unit.text)
    assert said["ExecStart"] == ["/usr/bin/env memu-fs watch --store /srv/memory"]
    path = f"{home}/.local/bin:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin"
    assert said["Environment"] == [f'"PATH={path}"', "MALLOC_ARENA_MAX=2"]
    assert (said["KillMode"], said["Restart"], said["WantedBy"]) == (["mixed"], ["on-failure"], ["default.target"])
    other = unit_for(PLAIN, "linux", environment(home, XDG_CONFIG_HOME="/etc/mine"))
    assert other.path == Path("/etc/mine/systemd/user") / name


def test_systemd_reads_a_path_of_any_kind_as_it_is(home: Path) -> None:
    said = settings_of(unit_for(HARD, "linux", environment(home)).text)
    quoted = '"/srv/it\'s \\"my\\" <memory> & 100%% $$HOME \\\\ Ünï"'
    assert said["ExecStart"] == [f"/usr/bin/env memu-fs watch --store {quoted}"]
    assert said["Description"] == [f"memu-fs daemon of {str(HARD).replace('%', '%%')}"]


@pytest.mark.parametrize("root", [PLAIN, HARD], ids=["plain", "hard"])
def test_a_launchd_agent_holds_the_words_of_the_command(root: Path, home: Path) -> None:
    unit = unit_for(root, "darwin", environment(home))
    label = f"memu-fs.{name_of(str(root))}"
    assert unit.path == home / "Library" / "LaunchAgents" / f"{label}.plist"
    agent = plistlib.loads(unit.data)
    assert agent["Label"] == label
    assert agent["ProgramArguments"] == ["/usr/bin/env", "memu-fs", "watch", "--store", str(root)]
    assert agent["EnvironmentVariables"]["PATH"].split(":")[0] == str(home / ".local" / "bin")
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert unit.enable == f"launchctl bootstrap gui/$(id -u) {unit.path}"
    assert unit.disable == f"launchctl bootout gui/$(id -u)/{label}"


@pytest.mark.parametrize("root", [PLAIN, HARD], ids=["plain", "hard"])
def test_a_windows_task_holds_the_words_of_the_command(root: Path, home: Path) -> None:
    unit = unit_for(root, "win32", environment(home, LOCALAPPDATA=str(home / "Local")))
    assert unit.path == home / "Local" / "memu-fs" / f"{name_of(str(root))}.xml"
    assert unit.data[:2] == "\ufeff".encode("utf-16-le")
    task = ElementTree.fromstring(unit.data)
    assert task.findtext(f".//{TASK}Command") == "memu-fs"
    arguments = task.findtext(f".//{TASK}Arguments") or ""
    assert arguments == subprocess.list2cmdline(["watch", "--store", str(root)])
    assert task.findtext(f".//{TASK}ExecutionTimeLimit") == "PT0S"
    assert task.find(f".//{TASK}LogonTrigger") is not None
    assert unit.enable == f'schtasks /Create /TN "memu-fs {name_of(str(root))}" /XML "{unit.path}"'
    assert unit.disable == f'schtasks /Delete /TN "memu-fs {name_of(str(root))}" /F'


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_each_store_has_a_file_of_its_own(system: str, home: Path) -> None:
    units = [unit_for(root, system, environment(home)) for root in (PLAIN, HARD)]
    assert len({unit.path for unit in units}) == len({unit.enable for unit in units}) == 2
    assert all(str(root) in unit.text for root, unit in zip([PLAIN], units, strict=False))


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("name", ["two\nlines", "bell\a", "byte\udcff"])
def test_a_path_that_no_file_can_hold_is_refused(system: str, name: str, home: Path) -> None:
    with pytest.raises(MemuError, match="rename the folder first"):
        unit_for(Path("/srv") / name, system, environment(home))


def test_a_program_that_services_cannot_find_is_named_in_full(
    isolation: Path, store: MakeStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(autostart, "_SHARED", ("/nowhere",))
    unit = unit_for(PLAIN, "linux", environment(isolation))
    assert settings_of(unit.text)["ExecStart"] == [f"{sys.executable} -P -m memu_fs watch --store /srv/memory"]
    assert run(["daemon", "install", "--dry-run", "--store", str(store(OWL).root)]) == 0
    said = capsys.readouterr()
    assert sys.executable in said.out
    assert said.err.startswith("memu-fs is not where services look for programs: the file names this Python")


def test_install_writes_the_file_and_uninstall_takes_exactly_it_away(
    device: Device, store: MakeStore, home: Path
) -> None:
    made = store(OWL)
    here = ("--store", str(made.root))
    unit = unit_for(made.root)
    dry = device.run("daemon", "install", "--dry-run", *here)
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, unit.text, "")
    assert not unit.path.exists()
    done = device.run("daemon", "install", *here)
    assert done.stdout == f"Wrote {unit.path}\nNext: {unit.enable}\n"
    assert unit.path.read_bytes() == unit.data
    (unit.path.parent / "other.service").write_text("[Unit]\n")
    said = json.loads(device.run("daemon", "uninstall", "--json", *here).stdout)
    assert said == {"file": str(unit.path), "removed": True, "next": unit.disable}
    assert [path.name for path in unit.path.parent.iterdir()] == ["other.service"]
    assert device.run("daemon", "uninstall", *here).stdout == f"{unit.path} is not there\n"


def test_a_file_of_someone_else_is_neither_replaced_nor_removed(home: Path) -> None:
    unit = unit_for(PLAIN, "linux", environment(home))
    unit.path.parent.mkdir(parents=True)
    unit.path.write_text("[Unit]\nDescription=something else\n")
    for act in (autostart.install, autostart.uninstall):
        with pytest.raises(MemuError, match="was not written by memu-fs"):
            act(unit)
    assert "something else" in unit.path.read_text()
