"""``memu-fs init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memu_fs.cli.options import JsonOption
from memu_fs.cli.printing import plural, print_json, say
from memu_fs.config import load_config


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; made when it is not there.")] = Path(),
    json: JsonOption = False,
) -> None:
    """Make a store, or make one of a folder or repository that is there. Existing files are never touched.

    Example: memu-fs init ~/memory
    """
    from memu_fs.initialise import initialise

    result = initialise(folder, load_config())
    if json:
        print_json(result.as_json())
        return
    say(f"Store: {result.root}")
    print(f"Made: {', '.join(result.made) or 'nothing, everything was there'}")
    say(f"Git: {_about_git(result.repository)}")
    if result.config:
        say(f"Configured as this device's store in {result.config} (mode {result.config_mode})")
    else:
        say(f"From other folders commands use {result.configured}; change that with: memu-fs config set store FOLDER")
    if result.outside:
        say(f"Not read: {plural(result.outside, 'Markdown file')} outside memory/, skill/ and resource/")
    print("Next: write Markdown files below memory/, then run memu-fs retrieve WORDS")


def _about_git(repository: str) -> str:
    return {
        "new": "a new repository, with .memu-fs.toml committed",
        "existing": "the repository that was there; commit .memu-fs.toml when you like",
        "none": "none; reading works without it, history and sync need it",
    }.get(repository, f"{repository}, whose people commit and share it")
