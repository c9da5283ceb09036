"""``memu-fs stats``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from memu_fs.cli.options import JsonOption, StoreOption, open_store
from memu_fs.cli.printing import note, plural, print_json, print_table
from memu_fs.event_log import read_events
from memu_fs.statistics import Stats, summarise

_BAR = 40
_PARTS = " ▏▎▍▌▋▊▉█"
_DAY = 24 * 3600


def stats(
    store: StoreOption = None,
    days: Annotated[int, typer.Option("--days", min=1, max=3650, help="How many days, today included.")] = 30,
    json: JsonOption = False,
) -> None:
    """Show how often memory answers, how fast, and why hooks stayed silent. The log behind it stays on this machine.

    Example: memu-fs stats --days 7
    """
    opened, _ = open_store(store)
    log = read_events(opened.private, time.time() - (days + 1) * _DAY)
    found = summarise(log.events, days)
    if json:
        print_json({**found.as_json(), "damaged": log.damaged})
        return
    if log.damaged:
        note(f"{plural(log.damaged, 'line')} of the log could not be read.")
    print_stats(found)


def print_stats(found: Stats) -> None:
    """Print statistics for a person, at most 80 columns wide."""
    counts = found.events
    if not any(counts.values()):
        print(f"Nothing was logged in the last {plural(found.days, 'day')}.")
        return
    print(f"Last {plural(found.days, 'day')}")
    rate = "" if found.hit_rate is None else f", {found.hit_rate:.0%} with an answer"
    print(f"  {plural(counts['retrieval'], 'retrieval')}{rate}")
    print(
        f"  {plural(counts['hook'], 'hook call')}, {plural(counts['pass'], 'index pass', 'index passes')}, "
        f"{plural(counts['commit'], 'commit')}, {plural(counts['error'], 'error')}"
    )
    _print_bars("Retrievals a day", [(day.day, day.retrievals) for day in found.retrievals_per_day if day.retrievals])
    _print_latencies(found)
    _print_bars("Silent hooks", [(silence.reason, silence.count) for silence in found.silent_hooks])
    _print_bars("Errors", list(found.errors.items()))
    _print_passes(found)


def _print_bars(title: str, rows: Sequence[tuple[str, int]]) -> None:
    if not rows:
        return
    print(f"\n{title}")
    most = max(number for _, number in rows)
    left, right = max(len(label) for label, _ in rows), len(str(most))
    for label, number in rows:
        print(f"  {label:<{left}}  {number:>{right}}  {draw_bar(number, most)}")


def draw_bar(number: float, most: float) -> str:
    """Draw a number as a bar of at most 40 columns, to an eighth of a column; what is above 0 can be seen."""
    eighths = max(round(number / most * _BAR * 8), 1) if number > 0 else 0
    return ("█" * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


def _print_latencies(found: Stats) -> None:
    if not found.latencies:
        return
    print("\nTime of a retrieval")
    rows = [["  mode", "warmth", "count", "p50", "p95"]]
    rows += [
        [f"  {row.mode}", row.warmth, str(row.count), f"{row.p50_ms:.0f} ms", f"{row.p95_ms:.0f} ms"]
        for row in found.latencies
    ]
    print_table(rows)


def _print_passes(found: Stats) -> None:
    if not found.slowest_passes:
        return
    print("\nSlowest index passes")
    print_table(
        [
            [f"  {row.at}", f"{row.ms:.0f} ms", plural(row.files, "file"), f"{row.embedded} embedded"]
            for row in found.slowest_passes
        ]
    )
