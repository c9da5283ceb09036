"""``memu-fs list``."""

from __future__ import annotations

from typing import Annotated

import typer

from memu_fs.backend import MAX_PAGE, FilePage, ListedFile
from memu_fs.cli.options import (
    InactiveOption,
    JsonOption,
    ScopeOption,
    StoreOption,
    TrackOption,
    open_store,
    read_scope,
)
from memu_fs.cli.printing import note, print_json, print_table, say


def list_files(
    store: StoreOption = None,
    scope: ScopeOption = None,
    track: TrackOption = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show folders as a tree.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Only one page of this many.")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on after the page that gave it.")] = None,
    content: Annotated[bool, typer.Option("--content", help="With --json: also the text of each file.")] = False,
    include_inactive: InactiveOption = False,
    json: JsonOption = False,
) -> None:
    """List the recall files, in the order of track and name.

    Example: memu-fs list --track skill --tree
    """
    from memu_fs.local import LocalMemory

    opened, config = open_store(store)
    where: dict[str, object] = {"scope": read_scope(config, opened, scope), "include_inactive": include_inactive}
    if track:
        where["track"] = track
    memory = LocalMemory([opened], config)
    page = memory.list_all_recall_files(where, cursor, MAX_PAGE if limit is None else limit, content=content)
    found = list(page["recall_files"])
    while limit is None and page["next_cursor"]:
        page = memory.list_all_recall_files(where, page["next_cursor"], MAX_PAGE, content=content)
        found += page["recall_files"]
    if json:
        print_json(FilePage(recall_files=found, next_cursor=page["next_cursor"]))
    elif not found:
        note("No files here; a store's files lie below memory/, skill/ and resource/.")
    elif tree:
        _print_tree(found)
    else:
        print_table([[f"{file['track']}/{file['name']}", _state(file), file["description"]] for file in found])
        if page["next_cursor"]:
            note(f"There is more: --cursor {page['next_cursor']}")


def _state(file: ListedFile) -> str:
    return file["status"] if file["status"] != "active" else ""


def _print_tree(files: list[ListedFile]) -> None:
    shown: list[str] = []
    for file in files:
        *folders, name = f"{file['track']}/{file['name']}".split("/")
        common = 0
        while common < min(len(folders), len(shown)) and folders[common] == shown[common]:
            common += 1
        for depth in range(common, len(folders)):
            say(f"{'  ' * depth}{folders[depth]}/")
        shown = folders
        say(f"{'  ' * len(folders)}{name}" + (f"  [{_state(file)}]" if _state(file) else ""))
