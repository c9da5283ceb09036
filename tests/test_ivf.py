from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memu_fs.index import lance_ivf, lance_table
from memu_fs.index.base import FileState, Index, Pass, Segment, Vector, Where
from memu_fs.index.catalog import Changes
from memu_fs.index.lance import LanceIndex
from memu_fs.index.memory import MemoryIndex

SCRIPT = Path(__file__).with_name("index_writer.py")
MANY, FEW = 300, 150


writer: Any = importlib.import_module("index_writer")
EVERYTHING: Where = writer.EVERYTHING


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the vector index be made for a few hundred rows, in several partitions."""
    monkeypatch.setattr(lance_ivf, "MANY", MANY)
    monkeypatch.setattr(lance_ivf, "FEW", FEW)
    monkeypatch.setattr(lance_ivf, "_PARTITION", 32)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LanceIndex, MemoryIndex]]:
    """An index in LanceDB, and the reference that it must answer like."""
    lance, memory = LanceIndex.create(tmp_path / "1", writer.STAMP), MemoryIndex(writer.STAMP)
    yield lance, memory
    lance.close()


def some(start: int, stop: int, scopes: tuple[str, ...] = ("",), around: float = 1.0) -> Pass:
    """Make a pass that writes files of one segment, clustered around few directions."""
    chance = np.random.default_rng(start)
    centres = np.random.default_rng(1).normal(size=(12, writer.DIMENSION))
    put: dict[str, tuple[FileState, list[Segment]]] = {}
    vectors: dict[str, Vector] = {}
    for n in range(start, stop):
        path = f"memory/{n}.md"
        cut = replace(writer.segment(path, 1, "owl"), scope=scopes[n % len(scopes)])
        put[path] = (replace(writer.state(path, "d"), scope=cut.scope), [cut])
        vectors[cut.id] = (centres[n % 12] + around * chance.normal(size=writer.DIMENSION)).astype(np.float32)
    return Pass(put, vectors)


def apply(pair: tuple[LanceIndex, MemoryIndex], changes: Pass) -> None:
    for index in pair:
        index.apply(changes)


def dropped(start: int, stop: int) -> Pass:
    return Pass(drop=frozenset(f"memory/{n}.md" for n in range(start, stop)))


def vector_indexes(index: LanceIndex) -> list[Any]:
    """Give the vector indexes of the version that is published."""
    return [i for i in index._at(index._catalog.state().version).list_indices() if i.columns == [lance_table.VECTOR]]


def assert_alike(lance: Index, memory: Index, where: Where = EVERYTHING, limit: int = 20) -> None:
    assert lance.count() == memory.count()
    for seed in range(8):
        asked = np.random.default_rng(seed).normal(size=writer.DIMENSION).astype(np.float32)
        assert lance.nearest(asked, where, limit) == memory.nearest(asked, where, limit)


def test_it_is_made_used_and_dropped_as_the_table_grows_and_shrinks(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    lance, _ = pair
    kinds = []
    for change in (some(0, MANY), some(MANY, MANY + 1), dropped(0, MANY + 1 - FEW), dropped(MANY, MANY + 1)):
        apply(pair, change)
        assert writer.maintained(lance)
        kinds.append([(index.index_type, index.num_unindexed_rows) for index in vector_indexes(lance)])
        assert_alike(*pair)
    assert kinds == [[], [("IvfFlat", 0)], [("IvfFlat", 0)], []]


def test_a_search_goes_through_every_partition(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    apply(pair, some(0, MANY + 1))
    writer.maintained(pair[0])
    table = pair[0]._at(pair[0]._catalog.state().version)
    query = lance_ivf.ask(table.search(np.ones(writer.DIMENSION, np.float32), lance_table.VECTOR))
    plan = query.distance_type("cosine").limit(5).analyze_plan()
    assert "ANNSubIndex" in plan
    assert f"partitions_searched={MANY // 32}," in plan


def test_rows_that_came_later_are_found_and_rows_that_went_are_not(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    apply(pair, some(0, MANY + 1))
    writer.maintained(pair[0])
    apply(pair, some(MANY - 50, MANY + 50))
    apply(pair, dropped(0, 40))
    assert vector_indexes(pair[0])[0].num_unindexed_rows == 100
    assert_alike(*pair)
    writer.maintained(pair[0])
    assert vector_indexes(pair[0])[0].num_unindexed_rows == 0
    assert_alike(*pair)


@pytest.mark.parametrize("scope", ["rare", "half", "none"])
def test_few_visible_rows_are_found_to_the_last(pair: tuple[LanceIndex, MemoryIndex], scope: str) -> None:
    apply(pair, some(0, 400, ("half", "", "half", "")))
    apply(pair, some(400, 410, ("rare",), around=9.0))
    writer.maintained(pair[0])
    assert vector_indexes(pair[0])
    where = Where((scope,), ("memory",))
    for limit in (3, 10, 36):
        assert_alike(*pair, where, limit)
    if scope == "rare":
        found = pair[0].nearest(np.ones(writer.DIMENSION, np.float32), where, 10)
        assert {hit.segment.path for hit in found} == {f"memory/{n}.md" for n in range(400, 410)}


def test_ties_are_ordered_before_they_are_cut(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    apply(pair, some(0, 400, around=0.0))
    writer.maintained(pair[0])
    assert vector_indexes(pair[0])
    for limit in (1, 7, 40):
        assert_alike(*pair, limit=limit)


def test_vectors_of_any_length_score_alike_and_those_of_none_are_near_nothing(
    pair: tuple[LanceIndex, MemoryIndex],
) -> None:
    changes = some(0, 400)
    lengths = np.random.default_rng(3).choice([0.0, 1e-3, 1.0, 1e3], 400)
    scaled = {key: (v * by).astype(np.float32) for (key, v), by in zip(changes.vectors.items(), lengths, strict=True)}
    apply(pair, replace(changes, vectors=scaled))
    writer.maintained(pair[0])
    assert vector_indexes(pair[0])
    assert_alike(*pair)
    assert_alike(*pair, limit=500)


def test_many_maintenances_leave_one_index_of_few_parts(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    apply(pair, some(0, MANY + 1))
    parts = []
    for start in range(MANY + 1, MANY + 121, 10):
        apply(pair, some(start, start + 10))
        writer.maintained(pair[0])
        parts += [index.num_segments for index in vector_indexes(pair[0])]
    assert len(parts) == 12
    assert 1 < max(parts) <= 8
    assert parts[-1] < 8
    assert_alike(*pair)


def test_an_index_of_another_kind_gives_way(pair: tuple[LanceIndex, MemoryIndex]) -> None:
    from lancedb.index import IvfSq

    apply(pair, some(0, MANY + 1))
    table = pair[0]._database.open_table(lance_table.NAME)
    table.create_index(lance_table.VECTOR, config=IvfSq(distance_type="cosine"), name="of another name")
    pair[0]._catalog.publish(replace(pair[0]._catalog.state(), version=table.version), Changes())
    writer.maintained(pair[0])
    assert [index.index_type for index in vector_indexes(pair[0])] == ["IvfFlat"]
    assert_alike(*pair)


def test_a_crash_before_it_is_published_leaves_what_was_published(
    pair: tuple[LanceIndex, MemoryIndex], tmp_path: Path
) -> None:
    apply(pair, some(0, MANY + 1))
    version = pair[0]._catalog.state().version
    crash = (
        "import os, sys; from memu_fs.index import lance_ivf, lance_table;"
        "table = lance_table.connect(sys.argv[1]).open_table(lance_table.NAME); lance_ivf.MANY = 300;"
        "lance_ivf.level(table, lance_table.VECTOR, table.count_rows()); print(table.version); os._exit(9)"
    )
    process = subprocess.run([sys.executable, "-c", crash, str(tmp_path / "1")], capture_output=True, text=True)
    assert process.returncode == 9, process.stderr
    again = LanceIndex.open(tmp_path / "1")
    latest = again._database.open_table(lance_table.NAME)
    assert latest.version > again._catalog.state().version == version
    assert vector_indexes(again) == []
    assert_alike(again, pair[1])
    again.close()
    apply(pair, some(MANY + 1, MANY + 9))
    assert vector_indexes(pair[0]) == []
    writer.maintained(pair[0])
    assert len(vector_indexes(pair[0])) == 1
    assert_alike(*pair)
