from __future__ import annotations

import datetime
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import Typer
from typer.testing import CliRunner

from memu_fs.cli.stats import draw_bar, print_stats, stats
from memu_fs.event_log import Event, record
from memu_fs.statistics import Day, Latency, Silence, percentile, summarise

NOW = datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC)


def event(kind: str, days_ago: float = 0, **fields: object) -> Event:
    return Event(kind, NOW.timestamp() - days_ago * 86_400, fields)


def test_retrievals_are_counted_by_day_with_the_days_that_had_none() -> None:
    events = [
        event("retrieval", files=2),
        event("retrieval", files=0),
        event("retrieval", 2, files=1),
        event("retrieval", 3, files=1),
        event("retrieval", -1, files=1),
    ]
    found = summarise(events, 3, now=NOW)
    assert found.retrievals_per_day == (Day("2026-03-08", 1, 1), Day("2026-03-09", 0, 0), Day("2026-03-10", 2, 1))
    assert found.hit_rate == 0.6667
    assert found.events["retrieval"] == 3


def test_days_are_those_of_the_owners_calendar() -> None:
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    late = Event("retrieval", datetime.datetime(2026, 3, 9, 16, tzinfo=datetime.UTC).timestamp(), {})
    assert summarise([late], 1, now=NOW.astimezone(tokyo)).events["retrieval"] == 1
    assert summarise([late], 1, now=NOW).events["retrieval"] == 0


def test_an_empty_log_has_no_hit_rate() -> None:
    found = summarise([], 2, now=NOW)
    assert found.hit_rate is None
    assert found.latencies == ()
    assert found.events == {"retrieval": 0, "hook": 0, "pass": 0, "commit": 0, "error": 0}


def test_latencies_are_kept_apart_by_mode_and_warmth() -> None:
    events = [event("retrieval", ms=number, mode="hybrid", warmth="warm") for number in range(1, 101)]
    events += [event("retrieval", ms=2000, mode="keyword", warmth="cold"), event("retrieval", files=1)]
    assert summarise(events, now=NOW).latencies == (
        Latency("hybrid", "warm", 100, 50, 95),
        Latency("keyword", "cold", 1, 2000, 2000),
    )


def test_silent_hooks_are_counted_by_reason_most_frequent_first() -> None:
    events = [event("hook", silent=True, reason="timeout"), event("hook", silent=False), event("hook", silent=True)]
    events += [event("hook", silent=True, reason="nothing-found")] * 2
    found = summarise(events, now=NOW)
    assert found.silent_hooks == (Silence("nothing-found", 2), Silence("timeout", 1), Silence("unknown", 1))
    assert found.events["hook"] == 5


def test_the_five_slowest_passes_and_the_errors_are_told() -> None:
    events = [event("pass", ms=number, files=number, embedded=1) for number in range(9)]
    events += [event("error", reason="timeout"), event("error", reason="internal"), event("error", reason="timeout")]
    found = summarise(events, now=NOW)
    assert [(row.ms, row.files) for row in found.slowest_passes] == [(8, 8), (7, 7), (6, 6), (5, 5), (4, 4)]
    assert found.slowest_passes[0].at == "2026-03-10T12:00:00+00:00"
    assert found.errors == {"timeout": 2, "internal": 1}


@given(values=st.lists(st.floats(0, 1e6), min_size=1), percent=st.floats(0, 100))
def test_a_percentile_is_one_of_the_values_that_enough_do_not_exceed(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values) - 1e-6


@given(number=st.integers(0, 10**9), most=st.integers(1, 10**9))
def test_a_bar_has_at_most_forty_columns_and_shows_whatever_is_above_none(number: int, most: int) -> None:
    bar = draw_bar(min(number, most), most)
    assert len(bar) <= 40
    assert bool(bar) == (number > 0)


def test_the_text_fits_eighty_columns_and_has_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("retrieval", "hook", "pass", "commit", "error")
    events = [event(kind, number, ms=3_600_000) for kind in kinds for number in range(30)] * 400
    events += [event("hook", silent=True, reason="version-mismatch"), event("retrieval", files=1, mode="hybrid")]
    print_stats(summarise(events, now=NOW))
    printed = capsys.readouterr().out
    assert max(map(len, printed.split("\n"))) <= 80
    assert "\x1b" not in printed
    assert "2026-03-10  401  ████████████████████████████████████████" in printed
    assert "version-mismatch  1  █" in printed
    assert "12001 retrievals, 0% with an answer" in printed


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    for folder in ("memory", ".memu"):
        (tmp_path / folder).mkdir()
    record(tmp_path / ".memu", "retrieval", ms=12, mode="hybrid", warmth="warm", files=1)
    with (tmp_path / ".memu" / "log" / "events.jsonl").open("a") as file:
        file.write(f'{{"at":{time.time()},"ki\n')
    return tmp_path


def run_stats(*arguments: str) -> tuple[int, str, str]:
    app = Typer()
    app.command()(stats)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_stats_reads_the_log_of_the_store(logged: Path) -> None:
    code, printed, said = run_stats("--store", str(logged), "--days", "1")
    assert code == 0
    assert printed.startswith("Last 1 day\n  1 retrieval, 100% with an answer\n")
    assert said == "1 line of the log could not be read.\n"


def test_stats_as_json_is_the_same_value(logged: Path) -> None:
    code, printed, _ = run_stats("--store", str(logged), "--json")
    values = json.loads(printed)
    assert (code, values["days"], values["hit_rate"], values["damaged"]) == (0, 30, 1.0, 1)
    assert values["latencies"] == [{"mode": "hybrid", "warmth": "warm", "count": 1, "p50_ms": 12, "p95_ms": 12}]
    assert len(values["retrievals_per_day"]) == 30


def test_stats_of_a_store_without_a_log_say_so(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    code, printed, _ = run_stats("--store", str(tmp_path))
    assert (code, printed) == (0, "Nothing was logged in the last 30 days.\n")


def test_stats_of_no_days_are_refused(logged: Path) -> None:
    assert run_stats("--store", str(logged), "--days", "0")[0] == 2
