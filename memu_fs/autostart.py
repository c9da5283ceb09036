"""Have the system start a store's daemon when its user logs in: a file in the form of systemd, launchd or Windows."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from memu_fs.errors import MemuError
from memu_fs.files import replace_file
from memu_fs.runtime import name_of

_PLAIN = re.compile(r"[\w/.+-]+", re.ASCII)
#: Where systems keep programs of their own and of users; a service gets no other PATH.
_SHARED = ("/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin")


class UnitPathError(MemuError):
    """A path that no such file can hold."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} is not Unicode text without control characters; rename the folder first.")


class NotOursError(MemuError):
    """A file of that name was written by someone else."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was not written by memu-fs, so it stays as it is. Move it away, then retry.")


@dataclass(frozen=True, slots=True)
class Command:
    """The program that is started, found without this shell's PATH."""

    words: tuple[str, ...]
    path: tuple[str, ...]  #: folders that the service looks for programs in
    is_found: bool  #: on that path; else the words name where it lies now


@dataclass(frozen=True, slots=True)
class Unit:
    """One file for one system, and how a person puts it to use."""

    path: Path
    data: bytes
    enable: str
    disable: str

    @property
    def text(self) -> str:
        """The file as text."""
        return self.data.decode("utf-16" if self.data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")


def unit_for(root: Path, platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Unit:
    """Give the file that starts the daemon of a store on this system.

    Raises:
        UnitPathError: when the store's path cannot stand in such a file.
    """
    home = Path(environment.get("USERPROFILE" if platform == "win32" else "HOME") or Path.home())
    if not all(_is_plain(text) for text in (str(root), str(home))):
        raise UnitPathError(str(root))
    render = {"darwin": _launchd, "win32": _windows}.get(platform, _systemd)
    return render(root, find_command(home), home, environment)


def find_command(home: Path) -> Command:
    """Find ``memu-fs`` as a service would, else say where this one lies."""
    folders = (str(home / ".local" / "bin"), *_SHARED)
    searched = None if os.name == "nt" else os.pathsep.join(folders)  # a task of Windows gets its user's PATH
    if shutil.which("memu-fs", path=searched):
        return Command(("memu-fs",), folders, True)
    return Command((sys.executable, "-P", "-m", "memu_fs"), folders, False)


def install(unit: Unit) -> None:
    """Write the file; starting it is left to its user.

    Raises:
        NotOursError: when another program's file has that name.
    """
    _check_ours(unit)
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(unit.path, unit.data, mode=0o600)


def uninstall(unit: Unit) -> bool:
    """Remove the file that ``install`` wrote, and nothing else; say whether there was one."""
    _check_ours(unit)
    try:
        unit.path.unlink()
    except FileNotFoundError:
        return False
    return True


def _check_ours(unit: Unit) -> None:
    try:
        found = unit.path.read_bytes()
    except FileNotFoundError:
        return
    if b"memu-fs" not in found.replace(b"\0", b""):
        raise NotOursError(unit.path)


def _is_plain(text: str) -> bool:
    return all(char.isprintable() or char == " " for char in text)


def _watch(root: Path, command: Command) -> list[str]:
    return [*command.words, "watch", "--store", str(root)]


def _systemd(root: Path, command: Command, home: Path, environment: Mapping[str, str]) -> Unit:
    """Render a user unit. ``env`` finds the program: systemd itself looks in the folders of the system alone."""
    name = f"memu-fs-{name_of(str(root))}.service"
    words = ["/usr/bin/env", *_watch(root, command)] if command.is_found else _watch(root, command)
    text = f"""\
[Unit]
Description=memu-fs daemon of {str(root).replace("%", "%%")}

[Service]
ExecStart={" ".join(_systemd_word(word).replace("$", "$$") for word in words)}
Environment={_systemd_word("PATH=" + ":".join(command.path))}
Environment=MALLOC_ARENA_MAX=2
KillMode=mixed
TimeoutStopSec=600
Restart=on-failure
RestartSec=30

[Install]
WantedBy=default.target
"""
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    enable = f"systemctl --user enable --now {name}"
    return Unit(config / "systemd" / "user" / name, text.encode(), enable, f"systemctl --user disable --now {name}")


def _systemd_word(word: str) -> str:
    for char, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(char, written)
    return word if _PLAIN.fullmatch(word) else f'"{word}"'


def _launchd(root: Path, command: Command, home: Path, _environment: Mapping[str, str]) -> Unit:
    label = f"memu-fs.{name_of(str(root))}"
    words = ["/usr/bin/env", *_watch(root, command)] if command.is_found else _watch(root, command)
    log = root / ".memu" / "log" / "daemon.log"
    agent = {
        "Label": label,
        "ProgramArguments": words,
        "EnvironmentVariables": {"PATH": ":".join(command.path)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "StandardErrorPath": str(log),
        "StandardOutPath": str(log),
    }
    path = home / "Library" / "LaunchAgents" / f"{label}.plist"
    enable = f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(path))}"
    return Unit(path, plistlib.dumps(agent), enable, f"launchctl bootout gui/$(id -u)/{label}")


def _windows(root: Path, command: Command, home: Path, environment: Mapping[str, str]) -> Unit:
    """Render a task for the scheduler; it takes UTF-16 only."""
    name = f"memu-fs {name_of(str(root))}"
    program, *words = _watch(root, command)
    text = f"""\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>memu-fs daemon of {escape(str(root))}</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Hidden>true</Hidden>
  </Settings>
  <Actions>
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(subprocess.list2cmdline(words))}</Arguments>
    </Exec>
  </Actions>
</Task>
"""
    folder = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    path = folder / "memu-fs" / f"{name_of(str(root))}.xml"
    enable = f'schtasks /Create /TN "{name}" /XML "{path}"'
    return Unit(path, text.encode("utf-16"), enable, f'schtasks /Delete /TN "{name}" /F')
