"""Settings: a flag wins over ``MEMU_FS_*``, that over the user's ``config.toml``, that over the default."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from memu_fs.errors import MemuError, UsageError

Source = Literal["environment", "file", "default"]
Value = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its type is that of ``default``, or text when that is ``None``."""

    name: str
    default: Value
    help: str
    kind: type = str
    is_secret: bool = False
    is_identity: bool = False  #: changing it can orphan what was made under the old value
    is_path: bool = False  #: in the user's file it is whole: what it means never depends on the current folder


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "store", None, "folder of the store; several: a TOML list, all but the first read-only", list, False, True, True
    ),
    Setting("embedder", "minilm", "minilm, hashing, fastembed:MODEL, or PRESET:MODEL", is_identity=True),
    Setting("embedder_url", None, "base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1"),
    Setting("embedder_key", None, "key of the endpoint; never taken from an argument", is_secret=True),
    Setting("embedder_dimension", None, "dimension to ask the endpoint for", int, is_identity=True),
    Setting("embedder_timeout", 30.0, "seconds that one embedding request may take", float),
    Setting(
        "embedder_path", None, "folder with a model's weights, instead of a download", is_identity=True, is_path=True
    ),
    Setting("index_location", None, "folder for the index, instead of .memu/index in the store", is_path=True),
    Setting("daemon", "auto", "auto: a retrieve or hook without a daemon starts one for next time; off: it does not"),
    Setting("daemon_idle_minutes", 240.0, "minutes without a request after which the daemon ends", float),
    Setting("hook_seconds", 0.8, "seconds after which a hook gives up and stays silent", float),
    Setting("hook_tokens", 1500, "how many tokens a hook may put into a prompt", int),
    Setting("hook_floor", 0.4, "how relevant a passage must be for a hook to give it, from 0 to about 1", float),
    Setting("hook_repeat", 1, "how often a hook gives the same passage in one session", int),
    Setting("freshness_seconds", 2.0, "how long a retrieve may spend on bringing the index level first", float),
)
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


class ConfigError(MemuError):
    """The configuration cannot be used."""


class UnknownSettingError(UsageError):
    """There is no such setting."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no setting {name!r}. Settings are: {', '.join(BY_NAME)}.")


@dataclass(frozen=True)
class Config:
    """The settings of this device as they resolve now."""

    path: Path  #: the user's file, there or not
    declared: Mapping[str, object] = field(default_factory=dict)  #: what the file says
    environment: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Value:
        """Give the value of a setting from environment, file or default."""
        return self._resolved[name][0]

    def source(self, name: str) -> Source:
        """Say where its value comes from."""
        return self._resolved[name][1]

    def text(self, name: str) -> str | None:
        """Give a text setting; "" counts as unset."""
        value = self.get(name)
        return str(value) if value not in (None, "") else None

    def number(self, name: str) -> float:
        """Give a number."""
        value = self.get(name)
        assert isinstance(value, int | float)
        return float(value)

    @property
    def stores(self) -> tuple[Path, ...]:
        """The configured stores, the writable one first."""
        value = self.get("store") or []
        names = value if isinstance(value, list) else [str(value)]
        return tuple(expanded(Path(name)) for name in names)

    @property
    def projects(self) -> Mapping[str, str]:
        """This device's own names: folder or remote to project."""
        table = self.declared.get("projects", {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"[projects] in {self.path} must be a table of folder = name.")
        return {str(key): str(value) for key, value in table.items()}

    @cached_property
    def _resolved(self) -> dict[str, tuple[Value, Source]]:
        return {setting.name: self._resolve(setting) for setting in SETTINGS}

    def _resolve(self, setting: Setting) -> tuple[Value, Source]:
        variable = variable_of(setting.name)
        if self.environment.get(variable):
            return convert(setting, self.environment[variable], variable), "environment"
        if setting.name in self.declared:
            where = f"{setting.name} in {self.path}"
            return _whole(setting, convert(setting, self.declared[setting.name], where), where), "file"
        return setting.default, "default"


def _whole(setting: Setting, value: Value, where: str) -> Value:
    paths = value if isinstance(value, list) else [str(value or "/")]
    if setting.is_path and not all(path.startswith("~") or Path(path).is_absolute() for path in paths):
        raise ConfigError(f"{where} must be a whole path, one that starts with / or ~.")
    return value


def variable_of(name: str) -> str:
    """Give the environment variable of a setting."""
    return f"MEMU_FS_{name.upper()}"


def convert(setting: Setting, value: object, where: str) -> Value:
    """Turn a value from a file or the environment into the setting's type.

    Raises:
        ConfigError: when it does not fit.
    """
    try:
        if setting.kind is list:
            values = value if isinstance(value, list) else str(value).split(os.pathsep)
            if any("\0" in str(item) for item in values):
                raise ValueError
            return [str(item) for item in values if str(item)]
        if isinstance(value, list | dict) or (isinstance(value, bool) and setting.kind is not bool):
            raise ValueError
        if "\0" in str(value):
            raise ValueError
        converted = setting.kind(str(value))
        if setting.kind is float and not 0 <= converted < 1e9:
            raise ValueError
        if setting.kind is int and not 0 < converted < 1_000_000:
            raise ValueError
    except ValueError:
        wanted = {int: "a whole number above 0", float: "a number of 0 or more"}.get(setting.kind, "a text")
        raise ConfigError(f"{where} must be {wanted}.") from None
    result: Value = converted
    return result


def expanded(path: Path) -> Path:
    """Give a path with ``~`` replaced by the folder it stands for.

    Raises:
        UsageError: when that folder is not known.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(f"{path} names a home folder that is not known; write the whole path.") from None


def public_address(address: str) -> str:
    """Give an address without what may be secret in it: user, password and query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "not an address"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def config_path(environment: Mapping[str, str]) -> Path:
    """Give the user's file: ``MEMU_FS_CONFIG``, else ``config.toml`` in the platform's config folder."""
    if chosen := environment.get("MEMU_FS_CONFIG"):
        return expanded(Path(chosen))
    import platformdirs

    return platformdirs.user_config_path("memu-fs") / "config.toml"


def load_config(environment: Mapping[str, str] | None = None) -> Config:
    """Read the settings of this device.

    Raises:
        ConfigError: when the file is not valid TOML or cannot be read.
    """
    variables = dict(os.environ if environment is None else environment)
    path = config_path(variables)
    try:
        declared = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        declared = {}
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read: {reason}. Correct it, or move it away.") from None
    return Config(path, declared, variables)
