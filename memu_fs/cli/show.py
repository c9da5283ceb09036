"""``memu-fs show``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from memu_fs.cli.options import JsonOption, ScopeOption, StoreOption, open_store, read_scope
from memu_fs.cli.printing import print_json, print_problems, say
from memu_fs.quoting import visible
from memu_fs.recall_file import RecallFile


def show(
    name: Annotated[str, typer.Argument(help="TRACK/NAME, a path in the store, or a name that only one file has.")],
    store: StoreOption = None,
    scope: ScopeOption = None,
    links: Annotated[bool, typer.Option("--links", help="Show what it links to and what links to it.")] = False,
    json: JsonOption = False,
) -> None:
    """Show one recall file: as Markdown on a terminal, as it stands in a pipe.

    Example: memu-fs show memory/how-i-work --links
    """
    from memu_fs.linked import links_of
    from memu_fs.listing import listed, plain_without_secrets
    from memu_fs.local import LocalMemory
    from memu_fs.scope import scope_of

    opened, config = open_store(store)
    reader = read_scope(config, opened, scope)
    entry = opened.find(name, visible=lambda entry: reader.sees(scope_of(entry.path)))
    page = opened.read(entry)
    print_problems(page.problems)
    linked = links_of(opened, entry.path, reader) if links else None
    if json:
        times = LocalMemory([opened], config).git_times(opened).get(entry.path)
        item: dict[str, Any] = dict(listed(opened, page.file, times, content=True))
        item |= {
            "front_matter": plain_without_secrets(page.file.meta, opened.marker.allowed_secrets),
            "files": [file.path for file in entry.files],
        }
        print_json(item | ({"links": linked} if linked is not None else {}))
        return
    _print_file(page.file)
    if linked is not None:
        _print_links(linked)


def _print_file(file: RecallFile) -> None:
    text = file.body.replace("\r\n", "\n").strip("\n")
    if not sys.stdout.isatty():
        print(file.header.replace("\r\n", "\n") + file.body.replace("\r\n", "\n"), end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.text import Text

    console = Console()
    flags = "" if file.status == "active" else f"  [{file.status}]"
    console.print(Text(visible(f"{file.track}/{file.name}{flags}"), style="bold"))
    if file.description:
        console.print(Text(visible(file.description), style="dim"))
    console.print()
    console.print(Markdown("\n".join(map(visible, text.split("\n")))))


def _print_links(linked: Any) -> None:
    print()
    for title, rows in (("Links to", linked["links"]), ("Linked from", linked["back_links"])):
        say(f"{title}: " + (", ".join(row["path"] for row in rows) if rows else "nothing"))
    for row in linked["dangling"]:
        say(f"Leads nowhere: [[{row['target']}]] (line {row['line']})")
