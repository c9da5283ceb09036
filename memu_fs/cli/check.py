"""``memu-fs check``."""

from __future__ import annotations

import typer

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import note, plural, print_json, say


def check(store: StoreOption = None, json: JsonOption = False) -> None:
    """Report every problem of every file, with path and line.

    Exit status 1 when anything needs fixing; a notice does not.

    Example: memu-fs check --json
    """
    from memu_fs.checkup import check_store

    opened, _ = open_store(store)
    found = check_store(opened)
    if json:
        print_json(found.as_json())
    else:
        for problem in found.problems:
            say(str(problem))
        wrong = sum(problem.level != "notice" for problem in found.problems)
        note(f"{plural(found.files, 'file')} checked, {plural(wrong, 'problem')}")
    raise typer.Exit(0 if found.is_clean else 1)
