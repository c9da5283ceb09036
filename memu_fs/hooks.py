"""Translate the JSON of hosts' hooks. A host is a row; nothing here reads a file or a clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memu_fs.backend import MAX_QUERY_CHARS
from memu_fs.errors import MemuError, UsageError
from memu_fs.quoting import CUT

HookEvent = Literal["prompt", "session-start"]


@dataclass(frozen=True, slots=True)
class HookHost:
    """How one host speaks to its hooks."""

    name: str
    query: str  #: keys of what it writes to a hook
    cwd: str
    session: str
    event: str | None  #: ``None`` where every call is a prompt
    events: Mapping[str, HookEvent]  #: its names for what can be answered
    context_at: tuple[str, ...]  #: where it reads text for the prompt
    event_at: tuple[str, ...] = ()  #: where it reads the event's name back
    most_chars: int = 100_000  #: longer text does not reach the model whole


@dataclass(frozen=True, slots=True)
class HookInput:
    """What a hook was told."""

    query: str  #: "" at the start of a session
    cwd: Path
    session: str | None
    event: HookEvent


HOSTS: Mapping[str, HookHost] = {
    host.name: host
    for host in (
        HookHost(
            name="claude-code",
            query="prompt",
            cwd="cwd",
            session="session_id",
            event="hook_event_name",
            events={"UserPromptSubmit": "prompt", "SessionStart": "session-start"},
            context_at=("hookSpecificOutput", "additionalContext"),
            event_at=("hookSpecificOutput", "hookEventName"),
            most_chars=9_000,
        ),
        HookHost(
            name="generic",
            query="query",
            cwd="cwd",
            session="session",
            event=None,
            events={},
            context_at=("context",),
        ),
    )
}


class HookInputError(MemuError):
    """A hook was told something that its host does not say."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"The input of the {host} hook cannot be used: {reason}.")


class UnknownHookError(UsageError):
    """There is no hook of that name."""

    def __init__(self, host: str) -> None:
        super().__init__(f"There is no hook for {host!r}; use {', '.join(HOSTS)}.")


def read_hook(host: str, data: bytes, event: HookEvent | None = None) -> HookInput:
    """Read what a host wrote to its hook; ``event`` says what it is called for where the hook's command does.

    Fields that are not needed are ignored; a long query is cut.

    Raises:
        UnknownHookError: when no such host is known.
        HookInputError: when the input is not what the host says it writes.
    """
    row = _row(host)
    values = _object(row, data)
    event = event or _event(row, values)
    query = _text(row, values, row.query) if event == "prompt" else ""
    if query is None:
        raise HookInputError(host, f"{row.query} is missing")
    cwd = _text(row, values, row.cwd)
    if not cwd or "\0" in cwd or not Path(cwd).is_absolute():
        raise HookInputError(host, f"{row.cwd} is not an absolute path")
    return HookInput(query[:MAX_QUERY_CHARS], Path(cwd), _text(row, values, row.session) or None, event)


def write_hook(host: str, event: HookEvent, context: str) -> str:
    """Give what a hook prints so that the host puts ``context`` before the model; "" for nothing.

    What is longer than the host can take is cut after a line.

    Raises:
        UnknownHookError: when no such host is known.
    """
    row = _row(host)
    if not context:
        return ""
    answer: dict[str, Any] = {}
    if row.event_at:
        name = next(theirs for theirs, ours in row.events.items() if ours == event)
        _put(answer, row.event_at, name)
    _put(answer, row.context_at, _cut(context, row.most_chars))
    return json.dumps(answer)


def _row(host: str) -> HookHost:
    if host not in HOSTS:
        raise UnknownHookError(host)
    return HOSTS[host]


def _object(row: HookHost, data: bytes) -> dict[str, object]:
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise HookInputError(row.name, "it is not JSON") from None
    if not isinstance(values, dict):
        raise HookInputError(row.name, "it is not a JSON object")
    return values


def _event(row: HookHost, values: Mapping[str, object]) -> HookEvent:
    if row.event is None:
        return "prompt"
    name = _text(row, values, row.event) or ""
    if name not in row.events:
        raise HookInputError(row.name, f"{row.event} is none of {', '.join(row.events)}")
    return row.events[name]


def _text(row: HookHost, values: Mapping[str, object], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise HookInputError(row.name, f"{key} is not a text")
    return value.encode("utf-8", "replace").decode() if value is not None else None


def _put(answer: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    *above, last = path
    for key in above:
        answer = answer.setdefault(key, {})
    answer[last] = value


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    kept = text[: most - len(CUT)]
    return kept[: kept.rfind("\n") + 1] + CUT
