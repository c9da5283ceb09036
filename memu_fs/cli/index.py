"""``memu-fs index``."""

from __future__ import annotations

from typing import Annotated

import typer

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import plural, print_json, print_problems, progress_bar


def index(
    store: StoreOption = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the index anew beside the one in use.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also when most of the indexed files are gone.")] = False,
    json: JsonOption = False,
) -> None:
    """Bring the index level with the files.

    Only what changed is read and embedded. A rebuild that was interrupted goes on where it stopped: what was
    embedded is not embedded again. Exit status 1 when a file could not be read and was left out.

    Example: memu-fs index --store ~/memory
    """
    from memu_fs.invocation import open_memory

    opened, config = open_store(store)
    sidecar = open_memory([opened], config).sidecars[0]
    with progress_bar("embedding") as progress:
        report = sidecar.rebuild(progress=progress) if rebuild else sidecar.update(force=force, progress=progress)
    print_problems(problem for problem in report.problems if problem.level != "notice")
    left_out = any(problem.rule == "unreadable" for problem in report.problems)
    if json:
        print_json(report.as_json())
        raise typer.Exit(1 if left_out else 0)
    changes = ", ".join(
        f"{number} {what}"
        for number, what in ((report.added, "added"), (report.edited, "edited"), (report.removed, "removed"))
        if number
    )
    print(
        f"{plural(report.files, 'file')}: {changes or '0 changed'}; "
        f"{plural(report.segments, 'segment')}, {report.embedded} embedded"
    )
    raise typer.Exit(1 if left_out else 0)
