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
_LEFT_ALONE = {"--batch", "--no-daemon", "--help", "-h"}
_PASSED_ON = ("MEMU_FS_", "XDG_CONFIG_HOME", "HOME", "APPDATA")


def ask(argv: list[str], seconds: float = 30.0, stdin: str | None = None) -> int | None:
    """Let the daemon run a command; print what it says and give its exit code. ``None`` when there is no daemon."""
    store = _store(argv)
    if store is None or not _LEFT_ALONE.isdisjoint(argv) or os.environ.get("MEMU_FS_DAEMON") == "off":
        return None
    request = {
        "protocol": PROTOCOL,
        "version": __version__,
        "argv": argv,
        "cwd": os.getcwd(),
        "env": {key: value for key, value in os.environ.items() if key.startswith(_PASSED_ON)},
        "stdin": stdin,
    }
    answer = exchange(store, "/cli", request, seconds)
    if answer is None or "code" not in answer:
        return None
    try:
        _write(2, answer["stderr"])
        _write(1, answer["stdout"])
    except BrokenPipeError:
        return 141
    return int(answer["code"])


def exchange(store: str, path: str, request: object, seconds: float) -> dict | None:  # type: ignore[type-arg]
    """Send one request to a store's daemon and give its answer, over HTTP written by hand; ``None`` without one."""
    try:
        body = json.dumps(request).encode()
        connection, token = _connect(store, seconds)
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
    address: object = place
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
    named = []
    for place, word in enumerate(argv):
        if word == "--":
            break
        if word == "--store" and place + 1 < len(argv):
            named.append(argv[place + 1])
        elif word.startswith("--store="):
            named.append(word[8:])
    if not named and (chosen := os.environ.get("MEMU_FS_STORE")):
        named = chosen.split(os.pathsep)
    if len(named) > 1:
        return None
    if named:
        return os.path.realpath(os.path.expanduser(named[0]))
    return _around(os.getcwd()) or _configured()


def _around(folder: str) -> str | None:
    while True:
        if os.path.isfile(folder + os.sep + MARKER):
            return os.path.realpath(folder)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _configured() -> str | None:
    """Read which store is configured from the note that the last full command left, if it still holds."""
    try:
        with open(runtime_folder() + os.sep + "configured.json", encoding="utf-8") as file:
            note = json.load(file)
        status = os.stat(note["config"])
        holds = [status.st_mtime_ns, status.st_size] == note["status"] and note["env"] == config_variables()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note["store"] if holds and is_private(runtime_folder()) else None


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
