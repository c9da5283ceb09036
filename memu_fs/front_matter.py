"""Split a file's text into front matter and body, and load the front matter safely."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from frontmatter.default_handlers import SafeLoader, YAMLHandler

MAX_CHARS = 64 * 1024
MAX_DEPTH = 12
MAX_NODES = 5_000
MAX_NUMBER_BITS = 1_024

_KEY_LINE = re.compile(r"""(?:(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)|(?P<plain>[^\s'"#:\-][^:#]*?))\s*:(?:\s|$)""")
_BLOCK = re.compile(r":\s*[|>]")
#: What a double-quoted YAML text must not hold as it is, beyond what JSON escapes.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Split:
    """A text taken apart. ``bom + header + body`` is the text again."""

    bom: str
    header: str  #: both fences and their line ends, or ""
    yaml: str  #: what stands between the fences
    body: str
    unclosed: bool = False  #: the first line opens front matter that nothing closes


class _Loader(SafeLoader):  # type: ignore[misc,valid-type]
    """Safe YAML in which a date or number that does not exist stays the text that was written."""


def _or_text(construct: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    def constructed(loader: yaml.SafeLoader, node: yaml.Node) -> object:
        if not isinstance(node, yaml.ScalarNode):
            return construct(loader, node)
        try:
            value = construct(loader, node)
        except (ValueError, OverflowError):
            return node.value
        is_huge = isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS
        return node.value if is_huge else value

    return constructed


for _tag, _construct in (
    ("timestamp", SafeLoader.construct_yaml_timestamp),
    ("int", SafeLoader.construct_yaml_int),
    ("float", SafeLoader.construct_yaml_float),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _or_text(_construct))


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
    try:
        _check_shape(text)
        loaded = YAMLHandler().load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"front matter is not valid YAML ({error.problem or error.context})"
        raise FrontMatterProblem(mark.line + 2 if mark else 2, reason) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 2
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
    close = max(number for number, line in enumerate(lines) if line.rstrip() == "---")
    start = line_of(header, key) - 1
    if start < 0:
        return "\n".join([*lines[:close], text + ending, *lines[close:]])
    comment = _comment_of(lines[start].removesuffix("\r"))
    return "\n".join([*lines[:start], text + comment + ending, *lines[_value_end(lines, start, close) :]])


def line_of(header: str, key: str) -> int:
    """Give the 1-based line of a key in raw front matter, or 0. Of a key given twice the last counts, as in YAML."""
    found = [number for number, name in _keys(header) if name == key]
    return found[-1] if found else 0


def repeated_keys(header: str) -> list[tuple[int, str]]:
    """Give line and name of every key that was given before."""
    seen: set[str] = set()
    again: list[tuple[int, str]] = []
    for number, name in _keys(header):
        again += [(number, name)] if name in seen else []
        seen.add(name)
    return again


def _keys(header: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(header.split("\n"), 1):
        if match := _KEY_LINE.match(line):
            yield number, match["quoted"] or match["plain"]


def _value_end(lines: list[str], start: int, close: int) -> int:
    """Give the line after a key's value: indented lines and list items belong to it, blank lines between them too."""
    goes_on = re.compile(r"[ \t]+\S|-\s" if _BLOCK.search(lines[start]) else r"[ \t]+[^\s#]|-\s")
    end = start + 1
    for number in range(end, close):
        if goes_on.match(lines[number]):
            end = number + 1
        elif lines[number].strip():
            break
    return end


def _comment_of(line: str) -> str:
    """Give the comment at the end of a key's line, with the space before it."""
    if _BLOCK.search(line):
        return ""
    try:
        end = max(
            (token.end_mark.column for token in yaml.scan(line) if isinstance(token, yaml.ScalarToken)), default=0
        )
    except yaml.YAMLError:
        return ""
    rest = line[end:]
    return rest if re.match(r"\s+#", rest) else ""


def _scalar(value: str) -> str:
    """Write a text on one line of YAML; quoted where plain YAML would read it as something else."""
    try:
        plain = yaml.safe_load(f"k: {value}") == {"k": value}
    except (yaml.YAMLError, ValueError, RecursionError):
        plain = False
    if plain and "\n" not in value and "#" not in value:
        return value
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _check_shape(text: str) -> None:
    """Refuse, before anything is built, what is too deep to be meant, and merge keys: they can multiply without end."""
    depth = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        line = event.start_mark.line + 2 if event.start_mark else 2
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise FrontMatterProblem(line, "front matter is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise FrontMatterProblem(line, "front matter uses a merge key (<<)")


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
