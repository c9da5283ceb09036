"""The thin client: one request to the daemon, one answer printed. Four standard modules, nothing else.

Anything it cannot do, it leaves to the command itself by giving ``None``.
"""

import json
import os
import socket
import sys

from memu_fs import __version__
from memu_fs.runtime import PROTOCOL, has_unix_sockets, is_private, runtime_folder, socket_path

MARKER = ".memu-fs.toml"
_LEFT_ALONE = {"--batch", "--no-daemon", "--rebuild", "--help", "-h"}
_MOST_INPUT = 4 * 1024 * 1024
_PASSED_ON = ("MEMU_FS_", "XDG_CONFIG_HOME", "HOME", "APPDATA")


def ask(argv: list[str], seconds: float = 30.0) -> int | None:
    """Let the daemon run a command; print what it says and give its exit code. ``None`` when there is no daemon."""
    store = _store(argv)
    if store is None or not _LEFT_ALONE.isdisjoint(argv) or os.environ.get("MEMU_FS_DAEMON") == "off":
        return None
    answer = exchange(store, "/cli", _request(argv, None, None), seconds if argv[0] != "index" else 24 * 3600.0)
    if answer is None or "code" not in answer:
        return None
    try:
        _write(2, answer["stderr"])
        _write(1, answer["stdout"])
    except BrokenPipeError:
        return 141
    return int(answer["code"])


def hook(argv: list[str]) -> None:
    """Answer a host's hook within its time: print what the daemon gives, or nothing. Never fails."""
    data = sys.stdin.buffer.read(_MOST_INPUT)
    named = _named(argv) or [part for part in os.environ.get("MEMU_FS_STORE", "").split(os.pathsep) if part]
    note = _note()
    store = os.path.realpath(os.path.expanduser(named[0])) if named else note.get("store")
    reason = "no-daemon"
    if store:
        seconds = float(os.environ.get("MEMU_FS_HOOK_SECONDS") or note.get("hook_seconds") or 0.8)
        try:
            connection, token = _connect(store, seconds)
        except OSError:
            connection = None
        if connection is not None:
            answer = _talk(connection, token, "/cli", _request(argv, data.decode("utf-8", "replace"), seconds))
            if answer is not None and answer.get("code") == 0:
                _write(1, answer["stdout"])
                return
            reason = "timeout" if answer is None else "daemon-failed"
    from memu_fs.cold_hook import without_daemon

    host, event = _value(argv, "--hook"), _value(argv, "--event")
    _write(1, without_daemon(host or "", named, event, data, reason))


def exchange(store: str, path: str, request: object, seconds: float) -> dict | None:  # type: ignore[type-arg]
    """Send one request to a store's daemon and give its answer, over HTTP written by hand; ``None`` without one."""
    try:
        connection, token = _connect(store, seconds)
    except (OSError, ValueError):
        return None
    return _talk(connection, token, path, request)


def _talk(connection: socket.socket, token: str, path: str, request: object) -> dict | None:  # type: ignore[type-arg]
    try:
        body = json.dumps(request).encode()
        with connection:
            head = f"POST {path} HTTP/1.1\r\nHost: memu-fs\r\nAuthorization: Bearer {token}\r\n"
            head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        status, _, answer = b"".join(parts).partition(b"\r\n\r\n")
        return json.loads(answer) if status[9:12] == b"200" else None
    except (OSError, ValueError):
        return None


def _connect(store: str, seconds: float) -> tuple[socket.socket, str]:
    """Connect to the daemon's socket; where there are no Unix sockets, to the loopback address it wrote down."""
    if not is_private(runtime_folder()):
        raise OSError("the runtime folder is not ours")
    place, token = socket_path(store), "-"
    address: str | tuple[str, int] = place
    if has_unix_sockets():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        with open(place, encoding="ascii") as file:
            port, token = file.read().split()
        connection, address = socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", int(port))
    connection.settimeout(seconds)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection, token


def _store(argv: list[str]) -> str | None:
    """Find the one store that a command means; ``None`` when that takes more than a look."""
    named = _named(argv)
    if not named and (chosen := os.environ.get("MEMU_FS_STORE")):
        named = chosen.split(os.pathsep)
    if len(named) > 1:
        return None
    if named:
        return os.path.realpath(os.path.expanduser(named[0]))
    return _around(os.getcwd()) or _note().get("store")


def _named(argv: list[str]) -> list[str]:
    named = []
    for place, word in enumerate(argv):
        if word == "--":
            break
        if word == "--store" and place + 1 < len(argv):
            named.append(argv[place + 1])
        elif word.startswith("--store="):
            named.append(word[8:])
    return named


def _value(argv: list[str], option: str) -> str | None:
    for place, word in enumerate(argv):
        if word == option and place + 1 < len(argv):
            return argv[place + 1]
        if word.startswith(option + "="):
            return word[len(option) + 1 :]
    return None


def _request(argv: list[str], stdin: str | None, seconds: float | None) -> object:
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "argv": argv,
        "cwd": os.getcwd(),
        "env": {key: value for key, value in os.environ.items() if key.startswith(_PASSED_ON)},
        "stdin": stdin,
        "seconds": seconds,
    }


def _around(folder: str) -> str | None:
    while True:
        if os.path.isfile(folder + os.sep + MARKER):
            return os.path.realpath(folder)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _note() -> dict:  # type: ignore[type-arg]
    """Read what is configured from the note that the last full command left; {} when it does not hold any more."""
    try:
        with open(runtime_folder() + os.sep + "configured.json", encoding="utf-8") as file:
            note = json.load(file)
        status = os.stat(note["config"])
        holds = [status.st_mtime_ns, status.st_size] == note["status"] and note["env"] == config_variables()
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return note if holds and is_private(runtime_folder()) else {}


def config_variables() -> list[str | None]:
    """Give what decides where the user's configuration lies."""
    return [os.environ.get(name) for name in ("MEMU_FS_CONFIG", "XDG_CONFIG_HOME", "HOME", "APPDATA")]


def _write(handle: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(handle, data) :]


def leave(code: int) -> None:
    """End the process at once: nothing is left to clean up."""
    sys.stdout.flush()
    os._exit(code)
