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
    running = launch.wait_for(opened.root, launch.start(opened.root))
    if running is None:
        raise MemuError(f"The daemon did not start; its log may say why: {launch.log_file(opened.root)}")
    _print(running, json=json)


@app.command("stop")
def stop(store: StoreOption = None, json: JsonOption = False) -> None:
    """End the daemon of a store; the pass in hand is finished first.

    Example: memu-fs daemon stop
    """
    from memu_fs import launch

    opened, _ = open_store(store)
    ran = launch.stop(opened.root)
    if json:
        print_json({"stopped": ran})
    else:
        print("stopped" if ran else "no daemon runs")


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
    if running is not None:
        _print(running, json=json)
        return
    if json:
        print_json({"running": False})
    else:
        print("no daemon runs")
    raise typer.Exit(1)


@app.command("logs")
def logs(
    store: StoreOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many lines from the end.")] = 50,
) -> None:
    """Print the end of the daemon's log.

    Example: memu-fs daemon logs -n 20
    """
    from memu_fs import launch

    opened, _ = open_store(store)
    path = launch.log_file(opened.root)
    if path.is_file():
        for line in path.read_text("utf-8", "replace").splitlines()[-lines:]:
            print(line)


@app.command("install")
def install(
    store: StoreOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the file, write nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Write the file that has this system start the daemon when you log in; the command that puts it to use is printed.

    A systemd user unit, a launchd agent or a Windows scheduled task.

    Example: memu-fs daemon install --dry-run
    """
    from memu_fs import autostart

    opened, _ = open_store(store)
    unit = autostart.unit_for(opened.root)
    if not dry_run:
        autostart.install(unit)
    if json:
        print_json({"file": str(unit.path), "written": not dry_run, "text": unit.text, "next": unit.enable})
        return
    if dry_run:
        print(unit.text, end="")
    else:
        print(f"Wrote {unit.path}")
        print(f"Next: {unit.enable}")
    if not autostart.find_command(Path.home()).is_found:
        note("memu-fs is not where services look for programs: the file names this Python; install anew if it moves.")


@app.command("uninstall")
def uninstall(store: StoreOption = None, json: JsonOption = False) -> None:
    """Remove the file that ``install`` wrote.

    Example: memu-fs daemon uninstall
    """
    from memu_fs import autostart

    opened, _ = open_store(store)
    unit = autostart.unit_for(opened.root)
    removed = autostart.uninstall(unit)
    if json:
        print_json({"file": str(unit.path), "removed": removed, "next": unit.disable})
        return
    print(f"Removed {unit.path}" if removed else f"{unit.path} is not there")
    if removed:
        print(f"Next: {unit.disable}")


def _print(running: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json({"running": True} | running)
        return
    print(f"runs, process {running['pid']}, version {running['version']}, up {running['uptime']:.0f} s")
    print(f"memory {running['memory_mb']:.0f} MB, watcher by {running['watcher']}")
    if running["watcher_reason"]:
        print(running["watcher_reason"])
    if running["last_error"]:
        print(f"last pass failed: {running['last_error']}")
