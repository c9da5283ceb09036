"""``memu-fs retrieve``, also called ``search``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from memu_fs.cli.options import (
    InactiveOption,
    JsonOption,
    ScopeOption,
    StoresOption,
    TrackOption,
    open_stores,
    read_scope,
)
from memu_fs.cli.printing import note, plural, print_json, say
from memu_fs.config import load_config
from memu_fs.errors import MemuError, UsageError
from memu_fs.hooks import HookEvent
from memu_fs.quoting import visible
from memu_fs.store import Store

_EXCERPT_LINES = 6


def retrieve(
    query: Annotated[list[str] | None, typer.Argument(help="What to look for.")] = None,
    store: StoresOption = None,
    scope: ScopeOption = None,
    track: TrackOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many files at the most.")] = 5,
    content: Annotated[bool, typer.Option("--content", help="Give the whole text of each file.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each hit was ranked.")] = False,
    include_inactive: InactiveOption = False,
    format_: Annotated[
        Literal["text", "context"], typer.Option("--format", help="context: quoted data for a prompt.")
    ] = "text",
    hook: Annotated[
        str | None, typer.Option("--hook", metavar="HOST", help="Answer a host's hook: its JSON in, its JSON out.")
    ] = None,
    event: Annotated[HookEvent | None, typer.Option("--event", help="With --hook: what it is called for.")] = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="Read one query a line from stdin, write one line of JSON for each.")
    ] = False,
    json: JsonOption = False,
    no_daemon: Annotated[bool, typer.Option("--no-daemon", help="Neither ask nor start a daemon.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr how long it took.")] = False,
) -> None:
    """Find the files that answer a query, best first, with the passages that do.

    Example: memu-fs retrieve --scope all "how do we rotate certificates"
    """
    from memu_fs.invocation import current, open_memory
    from memu_fs.launch import start_for_next_time

    if hook is not None:
        print(_answer_hook(hook, event, store), end="")
        return
    stores, config = open_stores(store)
    where: dict[str, object] = {"scope": read_scope(config, stores[0], scope), "include_inactive": include_inactive}
    if track:
        where["track"] = track
    memory = open_memory(stores, config)

    def ask(text: str) -> Any:
        started = time.perf_counter()
        answer = memory.progressive_retrieve(text, where, limit=limit, content=content, explain=explain)
        if verbose:
            note(f"{(time.perf_counter() - started) * 1000:.0f} ms, {answer['mode']}, {answer['stale']} stale")
        return answer

    if batch:
        if query:
            raise UsageError("--batch reads its queries from standard input; give none on the command line.")
        raise typer.Exit(_answer_lines(ask))
    answer = ask(" ".join(query or []))
    if json:
        print_json(answer)
    elif format_ == "context":
        print_context(answer, stores[0])
    else:
        print_answer(answer, explain=explain, content=content)
    if not no_daemon and not current().is_served:
        start_for_next_time(stores[0], config)


def _answer_hook(host: str, event: HookEvent | None, store: list[Path] | None) -> str:
    """Answer a hook inside the daemon."""
    from memu_fs.hooking import accepted_store, answer_hook
    from memu_fs.invocation import current, open_memory

    caller = current()
    config = load_config(caller.environment)
    opened = accepted_store(config, [caller.cwd / path.expanduser() for path in store or []])
    if opened is None:
        return ""
    memory = open_memory([opened], config)
    return answer_hook(memory, config, host, event, (caller.stdin or "").encode())


def print_context(answer: Any, store: Store) -> None:
    """Print an answer as quoted data for a prompt."""
    from memu_fs.context import format_context
    from memu_fs.git import repository

    found = repository(store.root)
    text = format_context(answer, store_head=found.head if found else None)
    if text:
        print(text)


def _answer_lines(ask: Any) -> int:
    """Answer one line after the other; a query that fails gives an ``error`` line, so that lines stay in step."""
    code = 0
    for line in sys.stdin:
        try:
            print_json(ask(line))
        except MemuError as error:
            print_json({"query": line.strip(), "error": str(error)})
            code = 1
        sys.stdout.flush()
    return code


def print_answer(answer: Any, *, explain: bool, content: bool) -> None:
    """Print an answer for a person."""
    if answer["stale"]:
        note(f"{plural(answer['stale'], 'file')} not level with the index yet: run memu-fs index")
    if answer["reason"]:
        note(f"Answered by {answer['mode']}: {answer['reason']}")
    if not answer["files"] and not answer["resources"]:
        note("Nothing found.")
    for number, file in enumerate(answer["files"], 1):
        _print_file(number, file, answer["segments"], explain=explain, content=content)
    if answer["resources"]:
        print("Resources")
    for resource in answer["resources"]:
        place = resource["url"] or resource["local_path"] or resource["path"]
        say(f"  {resource['score']:.2f}  {resource['name']}: {resource['caption']} ({place})")


def _print_file(number: int, file: Any, segments: Any, *, explain: bool, content: bool) -> None:
    flags = [file["status"]] if file["status"] != "active" else []
    flags += [f"by {file['origin']}"] if file["origin"] != "human" else []
    flags += ["has conflict copies"] if file["conflicts"] else []
    flags += [f"superseded by {file['superseded_by']}"] if file["superseded_by"] else []
    say(f"{number}. {file['track']}/{file['name']}  {file['score']:.2f}" + (f"  [{', '.join(flags)}]" if flags else ""))
    if file["description"]:
        say(f"   {file['description']}")
    if content:
        print(_indented(file["content"].rstrip()))
    mine = [
        item for item in segments if item["recall_file_id"] == file["id"] and item.get("store") == file.get("store")
    ]
    for segment in [] if content else mine:
        first, last = segment["lines"]
        heading = f"  {segment['heading']}" if segment["heading"] else ""
        say(f"   {segment['path']}:{first}-{last}{heading}")
        if explain:
            print(f"     {_explained(segment)}")
        print(_indented(_excerpt(segment["text"]), "     "))
    print()


def _explained(segment: Any) -> str:
    why = segment["why"]
    parts = [f"score {segment['score']:.3f}"]
    for name in ("vector", "keyword"):
        if why[name] is not None:
            parts.append(f"{name} {why[name]:.3f} (rank {why[name + '_rank']})")
    return ", ".join(parts)


def _excerpt(text: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:_EXCERPT_LINES], "..."] if len(lines) > _EXCERPT_LINES else lines)


def _indented(text: str, by: str = "   ") -> str:
    return "\n".join((by + visible(line)).rstrip() for line in text.split("\n"))
