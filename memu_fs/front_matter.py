"""Split a file's text into front matter and body, and load the front matter safely."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from frontmatter.default_handlers import YAMLHandler

MAX_CHARS = 64 * 1024
MAX_DEPTH = 12
MAX_NODES = 5_000


@dataclass(frozen=True, slots=True)
class Split:
    """A text taken apart. ``bom + header + body`` is the text again."""

    bom: str
    header: str  #: both fences and their line ends, or ""
    yaml: str  #: what stands between the fences
    body: str
    unclosed: bool = False  #: the first line opens front matter that nothing closes


class FrontMatterProblem(Exception):
    """Why front matter was not understood, and on which 1-based line of the file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def split(text: str) -> Split:
    """Take a text apart. Front matter starts on line 1 with ``---`` and ends at the next ``---`` line."""
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    rest = text[len(bom) :]
    first_end = rest.find("\n") + 1
    if not first_end or rest[:first_end].rstrip() != "---":
        return Split(bom, "", "", rest)
    position = first_end
    while position < len(rest):
        end = rest.find("\n", position) + 1 or len(rest)
        if rest[position:end].rstrip() == "---" and rest.startswith("---", position):
            return Split(bom, rest[:end], rest[first_end:position], rest[end:])
        position = end
    return Split(bom, "", "", rest, unclosed=True)


def load(text: str) -> dict[str, object]:
    """Load the YAML of a front matter as plain values; dates become ISO strings.

    Raises:
        FrontMatterProblem: when it is not valid YAML, no mapping, or too large or deep to be meant.
    """
    if len(text) > MAX_CHARS:
        raise FrontMatterProblem(1, f"front matter is larger than {MAX_CHARS // 1024} KB")
    if _depth(text) > MAX_DEPTH * 4:
        raise FrontMatterProblem(2, "front matter is nested too deeply")
    try:
        loaded = YAMLHandler().load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"front matter is not valid YAML ({error.problem or error.context})"
        raise FrontMatterProblem(mark.line + 2 if mark else 2, reason) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 2
        raise FrontMatterProblem(line, f"front matter is not valid YAML ({error.reason})") from None
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, RecursionError) as error:
        raise FrontMatterProblem(2, f"front matter is not valid YAML ({error})") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        kind = "list" if isinstance(loaded, list) else "single value"
        raise FrontMatterProblem(2, f"front matter is a {kind}, not a mapping of keys to values")
    budget = [MAX_NODES]
    return {_key(key): _plain(value, MAX_DEPTH, budget) for key, value in loaded.items()}


def dump(values: Mapping[str, object]) -> str:
    """Write a new front matter with both fences. Only for files that memu-fs itself creates."""
    return f"---\n{YAMLHandler().export(dict(values), sort_keys=False, allow_unicode=True)}\n---\n"


def set_key(header: str, key: str, value: str, newline: str = "\n") -> str:
    """Give ``header`` with one key set to a text; every other line stays byte for byte.

    ``header`` is raw front matter with its fences, or "" for a file that has none.
    """
    text = f"{key}: {_scalar(value)}"
    if not header:
        return f"---{newline}{text}{newline}---{newline}"
    lines = header.split("\n")
    ending = "\r" if lines[0].endswith("\r") else ""
    starts = [number for number, line in enumerate(lines[1:], 1) if re.match(rf"{re.escape(key)}\s*:", line)]
    if not starts:
        close = max(number for number, line in enumerate(lines) if line.rstrip() == "---")
        return "\n".join([*lines[:close], text + ending, *lines[close:]])
    after = starts[0] + 1
    while re.match(r"[ \t]+\S", lines[after]):
        after += 1
    return "\n".join([*lines[: starts[0]], text + ending, *lines[after:]])


def _scalar(value: str) -> str:
    """Write a text on one line of YAML; quoted where plain YAML would read it as something else."""
    try:
        plain = yaml.safe_load(f"k: {value}") == {"k": value}
    except (yaml.YAMLError, ValueError):
        plain = False
    return value if plain and "\n" not in value and "#" not in value else json.dumps(value, ensure_ascii=False)


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(_plain(key, 1, [100]))


def _plain(value: object, depth: int, budget: list[int]) -> object:
    """Turn a YAML value into what JSON can hold; aliases that multiply or recurse are refused."""
    budget[0] -= 1
    if depth < 0 or budget[0] < 0:
        raise FrontMatterProblem(2, "front matter is nested too deeply")
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, depth - 1, budget) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth - 1, budget) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and (value != value or value in {float("inf"), float("-inf")}):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return repr(value) if isinstance(value, bytes) else str(value)
