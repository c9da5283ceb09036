"""The command table, and what happens when a command ends."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from memu_fs import __version__
from memu_fs.cli import check, config, daemon, doctor, evaluate, index, init, listing, retrieve, show, stats, status
from memu_fs.cli.printing import complain
from memu_fs.errors import MemuError

app = typer.Typer(
    name="memu-fs",
    help="A memory for coding agents: Markdown files in git, searchable in the time of one process start.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("init")(init.init)
app.command("index")(index.index)
app.command("retrieve")(retrieve.retrieve)
app.command("search", help="The same as retrieve.")(retrieve.retrieve)
app.command("list")(listing.list_files)
app.command("show")(show.show)
app.command("check")(check.check)
app.command("status")(status.status)
app.command("stats")(stats.stats)
app.command("doctor")(doctor.doctor)
app.command("eval")(evaluate.evaluate)
app.command("watch")(daemon.watch)
app.add_typer(config.app, name="config")
app.add_typer(daemon.app, name="daemon")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"memu-fs {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Give every command the same entry."""


def run(arguments: Sequence[str]) -> int:
    """Run the command of this process; give its exit code."""
    open_closed_streams()
    _speak_utf8()
    try:
        code = execute(arguments)
    except BrokenPipeError:
        return _silence()
    except OSError as error:
        return _refused(error)
    except KeyboardInterrupt:
        complain("memu-fs: stopped.")
        return 130
    return _flush(code)


def execute(arguments: Sequence[str]) -> int:
    """Run one command; give its exit code. A MemuError is one sentence on stderr, never a traceback."""
    try:
        app(args=list(arguments), prog_name="memu-fs")
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            raise leaving.__context__ from None
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except MemuError as error:
        complain(f"memu-fs: {error}")
        return error.exit_code
    return 0


def _refused(error: OSError) -> int:
    """Say what the system would not do: such things are the machine's, not ours."""
    if error.errno == errno.ENOENT and error.filename is None:
        complain("memu-fs: the current folder is gone; go to another one first.")
    elif error.filename is None:  # only an open stream fails without a name
        return _full(error)
    else:
        complain(f"memu-fs: {error.strerror or error}: {str(error.filename)[:200]}.")
    _flush(1)
    return 1


def open_closed_streams() -> None:
    """Put nothing in the place of a standard stream that is closed, so that no file ever takes its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _speak_utf8() -> None:
    """Write UTF-8 whatever the terminal's locale says, and read what is not UTF-8 as U+FFFD."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _silence()
    except OSError as error:
        return _full(error)
    return code


def _full(error: OSError) -> int:
    complain(f"memu-fs: the output could not be written: {error.strerror}.")
    _silence()
    return 1


def _silence() -> int:
    """Leave quietly when the reader has gone: nothing more can be said to it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
