"""``memu-fs watch`` and ``memu-fs daemon``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import note, print_json
from memu_fs.errors import MemuError

app = typer.Typer(help="Hold a store warm in the background.", no_args_is_help=True, rich_markup_mode=None)


def watch(
    store: StoreOption = None,
    background: Annotated[bool, typer.Option("--background", help="End when nobody asks.")] = False,
) -> None:
    """Keep the index level with the files and answer retrieves at once, until stopped.

    Example: memu-fs watch --store ~/memory
    """
    from memu_fs import daemon

    opened, config = open_store(store)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    if not background:
        note(f"Watching {opened.root}; stop with Ctrl+C.")
    daemon.run(opened, config, idle_minutes=config.number("daemon_idle_minutes") if background else None)


@app.command("start")
def start(store: StoreOption = None, json: JsonOption = False) -> None:
    """Start the daemon of a store, unless it runs.

    Example: memu-fs daemon start
    """
    from memu_fs import launch

    opened, config = open_store(store)
    launch.note_configured(config)
    running = launch.status(opened.root)
    if running is None:
        launch.start(opened.root)
        running = launch.wait_for(opened.root)
    if running is None:
        raise MemuError(f"The daemon did not start; see {_log(opened.root)}")
    _print(running, json=json)


@app.command("stop")
def stop(store: StoreOption = None, json: JsonOption = False) -> None:
    """End the daemon of a store; the pass in hand is finished first.

    Example: memu-fs daemon stop
    """
    from memu_fs import launch

    opened, _ = open_store(store)
    ran = launch.stop(opened.root)
    print_json({"stopped": ran}) if json else print("stopped" if ran else "no daemon runs")


@app.command("restart")
def restart(store: StoreOption = None, json: JsonOption = False) -> None:
    """End the daemon and start it anew.

    Example: memu-fs daemon restart
    """
    from memu_fs import launch

    opened, _ = open_store(store)
    launch.stop(opened.root)
    start(store, json)


@app.command("status")
def status(store: StoreOption = None, json: JsonOption = False) -> None:
    """Say whether the daemon runs and how it is. Exit status 1 when it does not run.

    Example: memu-fs daemon status
    """
    from memu_fs import launch

    opened, _ = open_store(store)
    running = launch.status(opened.root)
    if running is None:
        print_json({"running": False}) if json else print("no daemon runs")
        raise typer.Exit(1)
    _print(running, json=json)


@app.command("logs")
def logs(
    store: StoreOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines from the end.")] = 50,
) -> None:
    """Print the end of the daemon's log.

    Example: memu-fs daemon logs -n 20
    """
    opened, _ = open_store(store)
    path = _log(opened.root)
    if path.is_file():
        for line in path.read_text("utf-8", "replace").splitlines()[-lines:]:
            print(line)


def _log(root: Path) -> Path:
    return root / ".memu" / "log" / "daemon.log"


def _print(running: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json({"running": True} | running)
        return
    print(f"runs, process {running['pid']}, version {running['version']}, up {running['uptime']:.0f} s")
    print(f"memory {running['memory_mb']:.0f} MB, watcher by {running['watcher']}")
    if running["last_error"]:
        print(f"last pass failed: {running['last_error']}")
