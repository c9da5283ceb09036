"""``memu-fs eval``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memu_fs.cli.options import JsonOption
from memu_fs.cli.printing import print_json, print_table, progress_bar
from memu_fs.config import load_config

if TYPE_CHECKING:
    from memu_fs.backend import Mode
    from memu_fs.evaluation import Ranking, Scored
    from memu_fs.local import LocalMemory


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A store with a queries.jsonl.", metavar="FOLDER")],
    queries: Annotated[Path | None, typer.Option("--queries", help="Another file of queries.")] = None,
    json: JsonOption = False,
) -> None:
    """Score retrieval on queries with known answers, beside plain word counting.

    A query is one line of JSON: {"query", "files", "lines", "kind", "match"}. Shown are recall of files at 1, 3
    and 5, recall of line ranges at 10 segments, and the mean reciprocal rank, by kind of query.

    Example: memu-fs eval example-store
    """
    from memu_fs import evaluation
    from memu_fs.linked import all_pages
    from memu_fs.local import LocalMemory
    from memu_fs.scope import EVERYTHING
    from memu_fs.store import Store

    asked = evaluation.read_queries(queries or folder / "queries.jsonl")
    store = Store(folder)
    memory = LocalMemory([store], load_config())
    with progress_bar("embedding") as progress:
        memory.sidecars[0].update(progress=progress)
    ways: dict[str, Callable[[str], Ranking]] = {
        "hybrid": _asker(memory, None),
        "keyword": _asker(memory, "keyword"),
        "vector": _asker(memory, "vector"),
        "grep": evaluation.Grep(all_pages(store, EVERYTHING)).ask,
    }
    with progress_bar("asking") as progress:
        scored: dict[str, list[Scored]] = {}
        for done, (name, ask) in enumerate(ways.items(), 1):
            scored[name] = evaluation.evaluate(asked, ask)
            progress(done, len(ways))
    words = _segment_words(memory)
    if json:
        print_json(_as_json(store, scored, words))
        return
    for name, results in scored.items():
        _print_means(name, evaluation.means(results))
    print(f"mean segment: {words:.0f} words")


def _asker(memory: LocalMemory, mode: Mode | None) -> Callable[[str], Ranking]:
    from memu_fs.evaluation import SEGMENT_RANK

    def ask(query: str) -> Ranking:
        where = {"scope": "all", "track": ["memory", "skill"]}
        answer = memory.progressive_retrieve(query, where, limit=SEGMENT_RANK, mode=mode)
        segments = [(item["source_file"], item["lines"][0], item["lines"][1]) for item in answer["segments"]]
        return segments, [f"{item['track']}/{item['name']}" for item in answer["files"]]

    return ask


def _segment_words(memory: LocalMemory) -> float:
    index = memory.sidecars[0].index()
    texts = [segment.text for path in index.files() for segment in index.segments(path)] if index else []
    return sum(len(text.split()) for text in texts) / max(len(texts), 1)


def _print_means(name: str, table: dict[str, dict[str, float]]) -> None:
    from memu_fs.evaluation import METRICS

    rows = [[name, "n", *METRICS]]
    for kind, values in table.items():
        cells = [f"{values[metric]:.3f}" if metric in values else "-" for metric in METRICS]
        rows.append([kind, str(int(values["n"])), *cells])
    print_table(rows)
    print()


def _as_json(store: Any, scored: dict[str, list[Scored]], words: float) -> dict[str, object]:
    from memu_fs.evaluation import means

    return {
        "store": str(store.root),
        "mean_segment_words": round(words, 1),
        "modes": {name: means(results) for name, results in scored.items()},
        "queries": [
            {"query": first.query.text, "kind": first.query.kind}
            | {name: results[place].values for name, results in scored.items()}
            for place, first in enumerate(scored["hybrid"])
        ],
    }
