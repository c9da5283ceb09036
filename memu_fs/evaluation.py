"""Score retrieval on a set of queries with known answers.

The metrics are those of the field: recall at k for files and for line ranges, and mean reciprocal rank.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memu_fs.errors import MemuError
from memu_fs.store import Page

FILE_RANKS = (1, 3, 5)
SEGMENT_RANK = 10
METRICS = (*(f"file@{rank}" for rank in FILE_RANKS), f"line@{SEGMENT_RANK}", "MRR")

#: A ranked answer: segments as (file, first line, last line), and files, both as ``track/name``, best first.
Ranking = tuple[Sequence[tuple[str, int, int]], Sequence[str]]


class QuerySetError(MemuError):
    """A query set that cannot be used."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where} cannot be used: {reason}.")


@dataclass(frozen=True, slots=True)
class Query:
    """One query and where its answer stands."""

    text: str
    kind: str
    files: tuple[str, ...]  #: gold files as ``track/name``; empty when nothing answers it
    lines: tuple[tuple[str, int, int], ...]  #: gold ranges, both ends included
    is_any: bool  #: the gold answers are alternatives


@dataclass(frozen=True, slots=True)
class Scored:
    """One answered query; ``values`` is ``None`` when nothing was required of it."""

    query: Query
    values: Mapping[str, float] | None


def read_queries(path: Path) -> list[Query]:
    """Read a ``queries.jsonl``: one object a line with ``query``, ``files``, ``lines``, ``kind``, ``match``.

    Raises:
        QuerySetError: when the file cannot be read or a line is not such an object.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise QuerySetError(path, 0, str(error)) from None
    queries = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                queries.append(_query(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise QuerySetError(path, number, f"not a query ({error})") from None
    return queries


def score(query: Query, ranking: Ranking) -> Mapping[str, float] | None:
    """Score one answer."""
    if not query.files:
        return None
    segments, files = ranking
    names = list(dict.fromkeys(gold_name(name) for name in files))
    gold = set(query.files)
    values: dict[str, float] = {}
    for rank in FILE_RANKS:
        hits = len(gold & set(names[:rank]))
        values[f"file@{rank}"] = float(hits > 0) if query.is_any else hits / len(gold)
    shown = [(gold_name(name), first, last) for name, first, last in segments[:SEGMENT_RANK]]
    found = sum(
        any(name == file and first <= end and last >= start for name, first, last in shown)
        for file, start, end in query.lines
    )
    share = (float(found > 0) if query.is_any else found / len(query.lines)) if query.lines else 0.0
    values[f"line@{SEGMENT_RANK}"] = share
    places = [names.index(name) + 1 for name in gold if name in names]
    values["MRR"] = 1 / min(places) if places else 0.0
    return values


def evaluate(queries: Iterable[Query], ask: Callable[[str], Ranking]) -> list[Scored]:
    """Ask every query and score its answer."""
    return [Scored(query, score(query, ask(query.text))) for query in queries]


def means(scored: Sequence[Scored]) -> dict[str, dict[str, float]]:
    """Give the mean of every metric by kind, and over all as ``all``; ``n`` counts the queries."""
    groups: dict[str, list[Scored]] = {}
    for item in scored:
        groups.setdefault(item.query.kind, []).append(item)
    table = {kind: _mean(items) for kind, items in sorted(groups.items())}
    table["all"] = _mean([item for item in scored if item.values is not None])
    return table


class Grep:
    """The baseline that must be beaten: files and lines ordered by how often they hold words of the query."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._files = [
            (f"{page.file.track}/{page.file.name}", part.body_line, [line.lower() for line in part.body.split("\n")])
            for page in pages
            for part in (page.file, *page.others)
        ]

    def ask(self, query: str) -> Ranking:
        """Rank by plain term counts; ties by name and line."""
        words = set(re.findall(r"\w+", query.lower()))
        totals: Counter[str] = Counter()
        lines: list[tuple[int, str, int]] = []
        for name, start, texts in self._files:
            counts = [sum(text.count(word) for word in words) for text in texts]
            totals[name] += sum(counts)
            lines += [(-count, name, start + number) for number, count in enumerate(counts) if count]
        lines.sort()
        ranked = sorted((name for name, count in totals.items() if count), key=lambda name: (-totals[name], name))
        return [(name, line, line) for _, name, line in lines[:SEGMENT_RANK]], ranked


def gold_name(name: str) -> str:
    """Give a name as gold answers write it: NFC, without ending; a skill's folder stands for its SKILL.md."""
    name = unicodedata.normalize("NFC", name).removesuffix(".md")
    return name.removesuffix("/SKILL") if name.startswith("skill/") else name


def _query(row: Mapping[str, object]) -> Query:
    files, lines = row["files"], row.get("lines") or {}
    if not isinstance(files, list) or not isinstance(lines, dict):
        raise TypeError("files must be a list, lines a table")
    ranges = tuple((gold_name(name), int(a), int(b)) for name, pairs in lines.items() for a, b in pairs)
    kind = str(row["kind"]) if row.get("kind") else f"category {row['category']}" if "category" in row else "query"
    return Query(str(row["query"]), kind, tuple(map(gold_name, files)), ranges, row.get("match") == "any")


def _mean(scored: Sequence[Scored]) -> dict[str, float]:
    values = [item.values for item in scored if item.values is not None]
    table: dict[str, float] = {"n": len(scored)}
    return table | {metric: sum(value[metric] for value in values) / len(values) for metric in METRICS if values}
