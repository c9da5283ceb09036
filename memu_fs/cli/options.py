"""Options that several commands share, and what they open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memu_fs.config import Config, load_config
from memu_fs.invocation import current
from memu_fs.locate import derive_scope, find_stores
from memu_fs.scope import Scope
from memu_fs.store import Store

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="FOLDER", help="The store; else the one around this folder."),
]
StoresOption = Annotated[
    list[Path] | None,
    typer.Option("--store", metavar="FOLDER", help="The store; may be given several times."),
]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="all, shared, project:NAME or agent:NAME; may be given several times. Default: this folder's project.",
    ),
]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", metavar="TRACK", help="memory, skill or resource; may be repeated."),
]
InactiveOption = Annotated[
    bool,
    typer.Option("--include-inactive", help="Also what is superseded, retired or expired, and conflict copies."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON (docs/output.md).")]


def open_store(store: Path | None) -> tuple[Store, Config]:
    """Open the one store that a command works on."""
    stores, config = open_stores([store] if store else [])
    return stores[0], config


def open_stores(stores: list[Path] | None) -> tuple[list[Store], Config]:
    """Open every store that a command reads."""
    caller = current()
    config = load_config(caller.environment)
    return find_stores(config, stores or [], caller.cwd), config


def read_scope(config: Config, store: Store, scope: list[str] | None) -> Scope:
    """Take the scope that was given, else derive it from the working directory."""
    return Scope.parse(scope) if scope else derive_scope(config, store, current().cwd)
