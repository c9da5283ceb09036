"""Change the user's ``config.toml``: comments and unknown keys stay, the write is atomic, the mode 0600."""

from __future__ import annotations

import os
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from memu_fs.config import BY_NAME, Config, ConfigError, Setting, UnknownSettingError, Value, convert
from memu_fs.errors import MemuError, UsageError
from memu_fs.files import replace_file


class IdentityLossError(UsageError):
    """Changing an identity would leave something behind."""

    def __init__(self, name: str, loss: str) -> None:
        super().__init__(f"{name} was not changed: {loss}. Change it all the same with --force.")


class SecretArgumentError(UsageError):
    """A secret was given where other people can read it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is a secret and never taken from the command line: "
            f"use 'memu-fs config set {name} -' (standard input), --from-file FILE, or the environment."
        )


def set_value(config: Config, name: str, text: str) -> str:
    """Write one setting into the user's file; give the mode that the file has afterwards, such as ``0600``.

    Raises:
        UnknownSettingError: for a name that is no setting.
        ConfigError: when the value does not fit or the file cannot be written.
    """
    if name not in BY_NAME:
        raise UnknownSettingError(name)
    value = convert(BY_NAME[name], text, name)
    return _edit(config.path, name, _as_declared(BY_NAME[name], value))


def made_whole(setting: Setting, text: str) -> str:
    """Give a path that was typed as one that means the same from every folder; any other setting as it is."""
    if not setting.is_path:
        return text
    paths = text.split(os.pathsep) if setting.kind is list else [text]
    return os.pathsep.join(path if path.startswith("~") or not path else str(Path(path).absolute()) for path in paths)


def unset_value(config: Config, name: str) -> str:
    """Take one setting out of the user's file; give the mode that the file has afterwards."""
    if name not in BY_NAME:
        raise UnknownSettingError(name)
    return _edit(config.path, name, None)


def _as_declared(setting: Setting, value: Value) -> Value:
    if setting.kind is list and isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def _edit(path: Path, name: str, value: Value) -> str:
    try:
        text = path.read_bytes().decode() if path.exists() else ""
        document = tomlkit.parse(text)
        if value is None:
            document.pop(name, None)
        else:
            document[name] = value
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()
        replace_file(target, tomlkit.dumps(document).encode(), mode=0o600)
        return f"{target.stat().st_mode & 0o777:04o}"
    except (OSError, ValueError, RecursionError, TOMLKitError) as error:
        raise ConfigError(f"{path} was not changed: {error}.") from None


def first_line(text: str) -> str:
    """Take a value from the text of a file or standard input: its first line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise MemuError("No value was given: the input is empty.")
    return lines[0]
