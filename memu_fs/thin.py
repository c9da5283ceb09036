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
_HELP = {"--help", "-h"}
_LEFT_ALONE = {"--batch", "--no-daemon", "--rebuild", *_HELP}
_MOST_INPUT = 4 * 1024 * 1024
_PASSED_ON = ("MEMU_FS_", "XDG_CONFIG_HOME", "HOME", "APPDATA")


def ask(argv: list[str], seconds: float = 30.0) -> int | None:
    """Let the daemon run a command; print what it says and give its exit code. ``None`` when there is no daemon."""
    try:
        store = find_store(argv)
        request = _request(argv, os.getcwd(), None, None)
    except OSError:  # the working directory is gone
        return None
    if store is None or None in (sys.stdout, sys.stderr) or not _LEFT_ALONE.isdisjoint(options(argv)):
        return None
    answer = exchange(store, "/cli", request, seconds if argv[0] != "index" else 24 * 3600.0)
    if answer is None or "code" not in answer:
        return None
    try:
        _write(2, answer["stderr"])
        _write(1, answer["stdout"])
    except BrokenPipeError:
        return 141
    except OSError as error:
        _write(2, f"memu-fs: the output could not be written: {error.strerror}.\n")
        return 1
    return int(answer["code"])


def is_hook(argv: list[str]) -> bool:
    """Say whether a retrieve is called by a host's hook, rather than by someone who wants to know how that is done."""
    words = options(argv)
    return any(word.partition("=")[0] == "--hook" for word in words) and _HELP.isdisjoint(words)


def hook(argv: list[str]) -> None:
    """Answer a host's hook within its time: print what the daemon gives, or nothing. Never fails."""
    data = b""
    while len(data) < _MOST_INPUT and (part := os.read(0, 1 << 16)):
        data += part
    named = _named(argv) or _from_environment()
    note = _note()
    store = _real(named[0]) if named else note.get("store")
    reason = "no-daemon"
    if store:
        seconds = float(os.environ.get("MEMU_FS_HOOK_SECONDS") or note.get("hook_seconds", 0.8))
        try:
            connection, token = _connect(store, seconds)
        except (OSError, ValueError):
            connection = None
        if connection is not None:
            request = _request(argv, _folder(), data.decode("utf-8", "replace"), os.times().elapsed + seconds)
            answer = _talk(connection, token, "/cli", request)
            if answer is not None and answer.get("code") == 0:
                _write(1, answer["stdout"])
                return
            reason = "timeout" if answer is None else "daemon-failed"
    from memu_fs.cold_hook import without_daemon

    host, event = _value(argv, "--hook"), _value(argv, "--event")
    _write(1, without_daemon(host or "", named, event, data, reason))


def exchange(store: str, path: str, request: object, seconds: float) -> dict | None:  # type: ignore[type-arg]
    """Send one request to a store's daemon and give its answer, over HTTP written by hand.

    ``None`` when no daemon answers in time, {} when what it says is no answer.
    """
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
    except (TimeoutError, BlockingIOError):
        return None
    except OSError:
        return {}
    status, _, answer = b"".join(parts).partition(b"\r\n\r\n")
    try:
        return json.loads(answer) if status[9:12] == b"200" else {}
    except ValueError:
        return {}


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


def find_store(argv: list[str]) -> str | None:
    """Find the one store that a command means; ``None`` when that takes more than a look."""
    named = _named(argv) or _from_environment()
    if len(named) > 1:
        return None
    if named:
        return _real(named[0])
    return _around(os.getcwd()) or _note().get("store")


def _from_environment() -> list[str]:
    return [part for part in os.environ.get("MEMU_FS_STORE", "").split(os.pathsep) if part]


def _folder() -> str:
    """Give the working directory, or the user's own where it has been deleted: a host says itself where it works."""
    try:
        return os.getcwd()
    except OSError:
        return os.path.expanduser("~")


def _real(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def options(argv: list[str]) -> list[str]:
    """Give the words before ``--``: what comes after it is a query."""
    return argv[: argv.index("--")] if "--" in argv else argv


def _named(argv: list[str]) -> list[str]:
    return _values(argv, "--store")


def _value(argv: list[str], option: str) -> str | None:
    return next(reversed(_values(argv, option)), None)


def _values(argv: list[str], option: str) -> list[str]:
    words = options(argv)
    values = []
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            values.append(words[place + 1])
        elif word.startswith(option + "="):
            values.append(word[len(option) + 1 :])
    return values


def _request(argv: list[str], cwd: str, stdin: str | None, deadline: float | None) -> object:
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "argv": argv,
        "cwd": cwd,
        "env": {key: value for key, value in os.environ.items() if key.startswith(_PASSED_ON)},
        "stdin": stdin,
        "deadline": deadline,
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
        holds = file_state(note["config"]) == note["status"] and note["env"] == config_variables(os.environ)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return note if holds and is_private(runtime_folder()) else {}


def file_state(path: str) -> list[int]:
    """Give what changes when a file is changed."""
    status = os.stat(path)
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def config_variables(environment: "os._Environ[str] | dict[str, str]") -> list[str | None]:
    """Give what decides where the user's configuration lies."""
    return [environment.get(name) for name in ("MEMU_FS_CONFIG", "XDG_CONFIG_HOME", "HOME", "APPDATA")]


def _write(handle: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(handle, data) :]


def leave(code: int) -> None:
    """End the process at once: nothing is left to clean up."""
    os._exit(code)
