"""What the local log adds up to: how often memory answers, how fast, and why it does not."""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from memu_fs.event_log import KINDS, Event

_SLOWEST = 5


@dataclass(frozen=True, slots=True)
class Day:
    """The retrievals of one day."""

    day: str
    retrievals: int
    answered: int  #: with at least one file


@dataclass(frozen=True, slots=True)
class Latency:
    """How long retrievals of one kind took."""

    mode: str
    warmth: str
    count: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Silence:
    """How often hooks said nothing for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class SlowPass:
    """One pass over changed files."""

    at: str
    ms: float
    files: int
    embedded: int


@dataclass(frozen=True, slots=True)
class Stats:
    """A log, added up."""

    days: int
    events: dict[str, int]  #: by kind
    retrievals_per_day: tuple[Day, ...]  #: every day of the period, oldest first
    hit_rate: float | None  #: share of retrievals with at least one file
    latencies: tuple[Latency, ...]
    silent_hooks: tuple[Silence, ...]  #: most frequent first
    slowest_passes: tuple[SlowPass, ...]
    errors: dict[str, int]  #: by reason

    def as_json(self) -> dict[str, object]:
        """Give the shape of ``memu-fs stats --json``."""
        return asdict(self)


def summarise(events: Iterable[Event], days: int = 30, *, now: datetime.datetime | None = None) -> Stats:
    """Add up the events of the last days, today included, as the calendar of ``now`` counts them."""
    now = now or datetime.datetime.now().astimezone()
    first = now.date() - datetime.timedelta(days=days - 1)
    recent = [event for event in events if first <= _moment(event, now).date() <= now.date()]
    kinds = Counter(event.kind for event in recent)
    retrievals = [event for event in recent if event.kind == "retrieval"]
    answered = sum(_is_answered(event) for event in retrievals)
    return Stats(
        days=days,
        events={kind: kinds[kind] for kind in KINDS},
        retrievals_per_day=_per_day(retrievals, [first + datetime.timedelta(number) for number in range(days)], now),
        hit_rate=round(answered / len(retrievals), 4) if retrievals else None,
        latencies=_latencies(retrievals),
        silent_hooks=_silences(event for event in recent if event.kind == "hook"),
        slowest_passes=_slowest([event for event in recent if event.kind == "pass"], now),
        errors=dict(_ranked(event.word("reason") or "unknown" for event in recent if event.kind == "error")),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the smallest of the values that at least ``percent`` of them do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]


def _per_day(retrievals: Iterable[Event], dates: Iterable[datetime.date], now: datetime.datetime) -> tuple[Day, ...]:
    found: dict[datetime.date, list[Event]] = defaultdict(list)
    for event in retrievals:
        found[_moment(event, now).date()].append(event)
    return tuple(Day(date.isoformat(), len(found[date]), sum(map(_is_answered, found[date]))) for date in dates)


def _latencies(retrievals: Iterable[Event]) -> tuple[Latency, ...]:
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in retrievals:
        if "ms" in event.fields:
            key = (event.word("mode") or "unknown", event.word("warmth") or "unknown")
            groups[key].append(event.number("ms"))
    return tuple(
        Latency(mode, warmth, len(times), percentile(times, 50), percentile(times, 95))
        for (mode, warmth), times in sorted(groups.items())
    )


def _silences(hooks: Iterable[Event]) -> tuple[Silence, ...]:
    reasons = (event.word("reason") or "unknown" for event in hooks if event.fields.get("silent") is True)
    return tuple(Silence(reason, count) for reason, count in _ranked(reasons))


def _slowest(passes: Iterable[Event], now: datetime.datetime) -> tuple[SlowPass, ...]:
    ordered = sorted(passes, key=lambda event: (-event.number("ms"), event.at))
    return tuple(
        SlowPass(
            at=_moment(event, now).isoformat(timespec="seconds"),
            ms=event.number("ms"),
            files=int(event.number("files")),
            embedded=int(event.number("embedded")),
        )
        for event in ordered[:_SLOWEST]
    )


def _ranked(words: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))


def _is_answered(event: Event) -> bool:
    return event.number("files") >= 1


def _moment(event: Event, now: datetime.datetime) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(event.at, now.tzinfo)
