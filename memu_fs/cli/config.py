"""``memu-fs config``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from memu_fs.cli.options import JsonOption
from memu_fs.cli.printing import print_json, print_table, say
from memu_fs.config import (
    BY_NAME,
    SETTINGS,
    Config,
    Setting,
    UnknownSettingError,
    load_config,
    public_address,
    variable_of,
)
from memu_fs.errors import MemuError

app = typer.Typer(help="Show and change the settings of this device.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show(json: JsonOption = False) -> None:
    """Show every setting, its value and where it comes from. A secret is shown as set or unset.

    Example: memu-fs config show
    """
    config = load_config()
    rows = [(setting, _shown(config, setting), config.source(setting.name)) for setting in SETTINGS]
    if json:
        settings = {setting.name: {"value": value, "source": source} for setting, value, source in rows}
        print_json({"file": str(config.path), "exists": config.path.is_file(), "settings": settings})
        return
    say(f"File: {config.path}" + ("" if config.path.is_file() else " (not there)"))
    print_table([[setting.name, _text(value), f"({source})"] for setting, value, source in rows])


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BY_NAME)}.")],
    value: Annotated[str | None, typer.Argument(help="The value; - reads it from standard input.")] = None,
    from_file: Annotated[Path | None, typer.Option("--from-file", help="Read the value from a file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when that leaves something behind.")] = False,
    json: JsonOption = False,
) -> None:
    """Change one setting in the user's file. Comments and unknown keys stay.

    Changing the store or the embedding space is refused (exit status 2) while there is something to lose under
    the old one. Keys are taken from standard input, a file or the environment, never from an argument.

    Example: memu-fs config set embedder ollama:nomic-embed-text
    """
    from memu_fs import config_file
    from memu_fs.identity import loss_of_change

    config = load_config()
    if name not in BY_NAME:
        raise UnknownSettingError(name)
    text = config_file.made_whole(BY_NAME[name], _value(BY_NAME[name], value, from_file))
    if not force and (loss := loss_of_change(config, name, text)):
        raise config_file.IdentityLossError(name, loss)
    mode = config_file.set_value(config, name, text)
    _report(config, name, mode, json=json)


@app.command("unset")
def unset(
    name: Annotated[str, typer.Argument(help="The setting to take out.")],
    force: Annotated[bool, typer.Option("--force", help="Also when that leaves something behind.")] = False,
    json: JsonOption = False,
) -> None:
    """Take one setting out of the user's file, so that its default counts again.

    Example: memu-fs config unset embedder_url
    """
    from memu_fs import config_file
    from memu_fs.identity import loss_of_change

    config = load_config()
    if not force and (loss := loss_of_change(config, name, None)):
        raise config_file.IdentityLossError(name, loss)
    _report(config, name, config_file.unset_value(config, name), json=json)


def _value(setting: Setting, value: str | None, from_file: Path | None) -> str:
    from memu_fs.config_file import SecretArgumentError, first_line

    if from_file is not None:
        try:
            return first_line(from_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise MemuError(f"{from_file} cannot be read: {error}.") from None
    if value == "-" or (value is None and not sys.stdin.isatty()):
        return first_line(sys.stdin.read())
    if setting.is_secret or value is None or (setting.name == "embedder_url" and "@" in value):
        raise SecretArgumentError(setting.name)
    return value


def _report(config: Config, name: str, mode: str, *, json: bool) -> None:
    after = load_config()
    written = Config(after.path, after.declared)
    shown, source = _shown(written, BY_NAME[name]), after.source(name)
    if json:
        print_json({"file": str(config.path), "mode": mode, "name": name, "value": shown, "source": source})
        return
    say(f"{name} = {_text(shown)} in {config.path} (mode {mode})")
    if source == "environment":
        say(f"For now {variable_of(name)} in the environment wins over it.")


def _shown(config: Config, setting: Setting) -> object:
    value = config.get(setting.name)
    if setting.is_secret:
        return "set" if value else "unset"
    return public_address(value) if setting.name == "embedder_url" and isinstance(value, str) else value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else str(value)
