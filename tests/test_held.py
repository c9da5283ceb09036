from __future__ import annotations

import importlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memu_fs.errors import MemuError
from memu_fs.index import held as held_module
from memu_fs.index import held_rows, held_words, lance_table
from memu_fs.index.base import (
    FileState,
    Hit,
    Index,
    IndexUnusableError,
    IndexWriteError,
    Pass,
    Segment,
    Stamp,
    Vector,
    Where,
)
from memu_fs.index.catalog import State
from memu_fs.index.held import HeldIndex
from memu_fs.index.held_words import Postings
from memu_fs.index.lance import LanceIndex
from memu_fs.index.lance_pass import KEEP
from memu_fs.index.lance_table import Rows
from memu_fs.index.memory import MemoryIndex
from memu_fs.index.upkeep import maintain_apart

SCRIPT = Path(__file__).with_name("index_writer.py")


writer: Any = importlib.import_module("index_writer")
STAMP: Stamp = writer.STAMP
WORDS: Sequence[str] = writer.WORDS
EVERYTHING: Where = writer.EVERYTHING
SCOPES = ("", "projects/a", "agents/b")
WHERES = (
    EVERYTHING,
    Where(("", "projects/a"), ("memory", "skill"), ("active",), "2026-05-10"),
    Where(None, ("memory", "skill"), None, "2026-05-20"),
    Where(("agents/b",), ("skill",)),
)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Make everything that depends on size happen with a few segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_words, "_FIRST", 4)
        patch.setattr(held_words, "_MANY", 40)
        patch.setattr(held_rows, "_FIRST", 8)
        patch.setattr(held_rows, "_ALONE", 16)
        patch.setattr(held_rows, "_BLOCK", 8)
        patch.setattr(held_rows, "_PLAIN", 5)
        patch.setattr(held_rows, "_WHERES", 2)
        patch.setattr(lance_table, "_BATCH", 3)
        patch.setattr(held_module, "_MANY_PATHS", 4)
        patch.setattr(held_module, "_MANY_ADDED", 30)
        patch.setattr(held_module, "_SMALL", 16)
        yield


def changed(number: int, files: int = 9) -> Pass:
    """Make a pass of some number, over tracks, scopes, statuses and dates, with vectors of any kind."""
    chance = random.Random(number)
    put: dict[str, tuple[FileState, list[Segment]]] = {}
    vectors: dict[str, Vector] = {}
    for n in chance.sample(range(files), chance.randrange(4)):
        track, scope = chance.choice(("memory", "skill")), chance.choice(SCOPES)
        path = f"{track}/{n}.md"
        days = [f"2026-05-{day:02}" for day in sorted(chance.sample(range(1, 31), 2))]
        cut = [
            replace(
                writer.segment(path, line, " ".join(chance.choices(WORDS, k=chance.randrange(9))), str(number)),
                track=track,
                scope=scope,
                status=chance.choice(("active", "retired")),
                valid_from=days[0] if chance.random() < 0.3 else "",
                valid_until=days[1] if chance.random() < 0.3 else "",
            )
            for line in range(chance.randrange(6))
        ]
        put[path] = (replace(writer.state(path, str(number)), scope=scope, track=track), cut)
        vectors |= {segment.id: drawn(chance) for segment in cut}
    touch = [replace(writer.state(f"memory/{n}.md", str(number)), hints="new") for n in chance.sample(range(files), 2)]
    gone = chance.random() < 0.04
    drop = {f"{track}/{n}.md" for track in ("memory", "skill") for n in (range(files) if gone else [number % files])}
    return Pass(put, vectors, frozenset(drop), [state for state in touch if chance.random() < 0.3], str(number))


def drawn(chance: random.Random) -> Vector:
    scale = chance.choice((1, 1, 1, 3, 0, 1e-30, 1e30))
    numbers = [chance.choice((-1, 0, 1, chance.gauss(0, 1))) * scale for _ in range(writer.DIMENSION)]
    return np.array(numbers, np.float32)


def assert_alike(held: Index, memory: Index, chance: random.Random) -> None:
    assert held.files() == memory.files()
    assert (held.count(), held.scopes(), held.head) == (memory.count(), memory.scopes(), memory.head)
    for where in WHERES:
        limit = chance.choice((1, 2, 5, 100))
        words = chance.choices([*WORDS, "nothing"], k=3)
        assert held.matching(words, where, limit) == memory.matching(words, where, limit)
        asked = drawn(chance)
        assert held.nearest(asked, where, limit) == memory.nearest(asked, where, limit)
    for path in (*memory.files(), "memory/never.md"):
        assert held.segments(path) == memory.segments(path)


@pytest.mark.usefixtures("small")
@settings(max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_it_answers_like_memory_after_any_passes(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        held, memory = HeldIndex(LanceIndex.create(Path(folder), STAMP)), MemoryIndex(STAMP)
        for number in range(seed, seed + 25):
            for index in (held, memory):
                index.apply(changed(number))
            if number % 9 == 0:
                writer.maintained(held._inner)
            assert_alike(held, memory, chance)
        assert held._rows.size <= max(2 * memory.count(), 100)
        held.close()
        again = HeldIndex(LanceIndex.open(Path(folder)))
        assert_alike(again, memory, chance)
        again.close()


@pytest.mark.usefixtures("small")
@settings(max_examples=4)
@given(seed=st.integers(0, 10_000))
def test_it_follows_what_others_write(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        other, memory = LanceIndex.create(Path(folder), STAMP), MemoryIndex(STAMP)
        held = HeldIndex(LanceIndex.open(Path(folder)))
        for number in range(seed, seed + 25):
            step = changed(number)
            chance.choice((held, other, other)).apply(step)
            memory.apply(step)
            if number % 9 == 0:
                writer.maintained(other)
            if chance.random() < 0.6:
                assert_alike(held, memory, chance)
        assert_alike(held, memory, chance)
        held.close()
        other.close()


class Watched(LanceIndex):
    """An index that remembers which files were read."""

    asked: list[Sequence[str] | None]

    def rows(self, state: State, paths: Sequence[str] | None = None) -> Iterator[Rows]:
        self.asked = [*getattr(self, "asked", []), paths]
        return super().rows(state, paths)


def test_only_the_files_that_others_changed_are_read_again(tmp_path: Path) -> None:
    other, memory = LanceIndex.create(tmp_path / "1", STAMP), MemoryIndex(STAMP)
    for index in (other, memory):
        index.apply(writer.written(0))
    inner = Watched.open(tmp_path / "1")
    assert isinstance(inner, Watched)
    held = HeldIndex(inner)
    for index in (other, memory):
        index.apply(writer.rotated(1))
        index.apply(writer.rotated(2))
        index.apply(Pass(touch=[replace(state, hints="new") for state in index.files().values()], head="2"))
    writer.maintained(other)
    assert_alike(held, memory, random.Random(1))
    held.apply(writer.written(3))
    memory.apply(writer.written(3))
    assert held.maintain() is False
    assert_alike(held, memory, random.Random(2))
    assert inner.asked == [None, ["memory/1.md", "memory/2.md"]]
    held.close()
    other.close()


def test_a_version_cleaned_away_while_it_is_read_is_replaced_by_the_next(tmp_path: Path) -> None:
    other, memory = LanceIndex.create(tmp_path / "1", STAMP), MemoryIndex(STAMP)
    for index in (other, memory):
        index.apply(writer.written(0))

    class Overtaken(Watched):
        def rows(self, state: State, paths: Sequence[str] | None = None) -> Iterator[Rows]:
            if not hasattr(self, "asked"):
                for index in (other, memory):
                    index.apply(writer.written(1))
                writer.maintained(other)
            return super().rows(state, paths)

    inner = Overtaken.open(tmp_path / "1")
    assert isinstance(inner, Overtaken)
    held = HeldIndex(inner)
    assert_alike(held, memory, random.Random(1))
    assert inner.asked == [None, None]
    held.close()
    other.close()


def test_a_table_that_lacks_what_was_written_is_not_believed(tmp_path: Path) -> None:
    inner = LanceIndex.create(tmp_path / "1", STAMP)
    inner.apply(writer.rotated(1))
    inner._catalog.publish(replace(inner.state, segments=4), writer.Changes())
    with pytest.raises(IndexUnusableError, match=r"not the 4 segments .* memu-fs index --rebuild"):
        HeldIndex(inner)
    inner.close()


def test_a_reader_never_finds_a_file_missing_or_mixed_while_another_process_writes(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    inner = LanceIndex.create(folder, STAMP)
    for number in range(3):
        inner.apply(writer.rotated(number))
    held = HeldIndex(inner)
    argv = [sys.executable, str(SCRIPT), "rotate", str(folder), "60"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    digests: set[str] = set()
    while process.poll() is None:
        for hits in (held.matching(["owl"], EVERYTHING, 50), near(held)):
            digests |= whole(hits)
    assert process.communicate() == ("", "")
    assert len(digests) > 5
    assert held.head == "59"
    held.close()


@pytest.mark.usefixtures("small")
def test_threads_read_whole_passes_while_one_writes(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
    for number in range(3):
        held.apply(writer.rotated(number))
    done = threading.Event()
    looks: list[int] = []
    wrong: list[AssertionError] = []

    def read() -> None:
        while not done.is_set():
            try:
                whole(held.matching(["owl"], EVERYTHING, 50))
                whole(near(held))
                assert [segment.line_start for segment in held.segments("memory/1.md")] == [0, 1, 2]
                looks.append(len(held.files()))
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3, 50):
            held.apply(writer.rotated(number))
            if number % 20 == 0:
                writer.maintained(held._inner)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert set(looks) == {3}
    assert len(looks) > 20
    held.close()


def near(index: Index) -> list[Hit]:
    return index.nearest(np.ones(writer.DIMENSION, np.float32), EVERYTHING, 50)


def whole(hits: Sequence[Hit]) -> set[str]:
    """Check that hits are three files of three segments, each of one pass; give the passes."""
    seen = sorted((hit.segment.path, hit.segment.line_start) for hit in hits)
    assert seen == [(f"memory/{n}.md", line) for n in range(3) for line in range(3)]
    found = {(hit.segment.path, hit.segment.digest) for hit in hits}
    assert len(found) == 3
    return {digest for _, digest in found}


@pytest.mark.usefixtures("small")
def test_a_view_stays_as_it_is_as_long_as_someone_looks_at_it(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
    held.apply(writer.written(1, files=9, changed=9))
    view, words = held._level(), list(WORDS)
    asked = np.ones(writer.DIMENSION, np.float32)

    def answers() -> list[object]:
        searched = [view.matching(words, EVERYTHING, 50), view.nearest(asked, EVERYTHING, 50)]
        return [*searched, *(view.segments(path) for path in view.files)]

    before = answers()
    assert before[0]
    for number in range(60):
        held.apply(changed(number))
        view._products = None
    assert answers() == before
    held.close()


@pytest.mark.usefixtures("small")
def test_rows_are_used_again(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
    for number in range(60):
        held.apply(writer.rotated(number))
    assert held.count() == 9
    assert held._rows.size < 60
    held.close()


@pytest.mark.usefixtures("small")
def test_what_most_of_is_dropped_is_held_small(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
    first = writer.written(1, files=80, changed=80)
    held.apply(first)
    before = held._rows.size
    held.apply(Pass(drop=frozenset(sorted(first.put)[:70])))
    assert held._rows.size == held.count() < before / 2
    held.close()


def test_many_ties_are_cut_in_order(tmp_path: Path) -> None:
    held, memory = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP)), MemoryIndex(STAMP)
    paths = [f"memory/{n}.md" for n in range(300)]
    random.Random(1).shuffle(paths)
    cut: dict[str, list[Segment]] = {path: [writer.segment(path, n, "owl owl cat") for n in (1, 2)] for path in paths}
    vectors = {segment.id: np.ones(writer.DIMENSION, np.float32) for every in cut.values() for segment in every}
    for index in (held, memory):
        index.apply(Pass({path: (writer.state(path, "d"), every) for path, every in cut.items()}, vectors))
    assert held.matching(["owl"], EVERYTHING, 37) == memory.matching(["owl"], EVERYTHING, 37)
    assert near(held) == near(memory)
    held.close()


def test_a_pass_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    held, memory = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP)), MemoryIndex(STAMP)
    for index in (held, memory):
        index.apply(writer.written(1))
    refused = writer.rotated(2)
    nothing = np.full(writer.DIMENSION, np.nan, np.float32)
    with pytest.raises(IndexWriteError, match="could not be written"):
        held.apply(replace(refused, vectors=dict.fromkeys(refused.vectors, nothing)))
    assert_alike(held, memory, random.Random(1))
    for index in (held, memory):
        index.apply(refused)
    assert_alike(held, memory, random.Random(2))
    held.close()


def test_without_vectors_there_is_keyword_search(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", replace(STAMP, space="", dimension=0)))
    held.apply(replace(writer.rotated(1), vectors={}))
    again = HeldIndex(LanceIndex.open(tmp_path / "1"))
    for index in (held, again):
        assert len(index.matching(["owl"], EVERYTHING, 9)) == 3
        assert near(index) == []
        index.close()


def test_a_vector_of_another_length_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    held = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
    with pytest.raises(ValueError, match="vectors of 8 numbers"):
        held.nearest(np.ones(9, np.float32), EVERYTHING, 9)
    held.close()


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=30), st.data())
def test_postings_made_anew_hold_the_same_of_what_lives(texts: list[list[str]], data: st.DataObject) -> None:
    postings, alive = Postings(), np.ones(len(texts), np.bool_)
    for row, words in enumerate(texts):
        postings.add([row], [words])
        if data.draw(st.integers(0, 5)) == 0:
            alive[data.draw(st.integers(0, row))] = False
            postings = postings.renewed(alive)
    for word in "abcdefghi":
        rows, counts = postings.find([word], postings.size)[0]
        found = {int(row): int(count) for row, count in zip(rows, counts, strict=True) if alive[row]}
        assert found == {row: text.count(word) for row, text in enumerate(texts) if word in text and alive[row]}


def test_a_large_index_is_maintained_by_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "LARGE", 0)
    held, memory, chance = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP)), MemoryIndex(STAMP), random.Random(4)
    assert not held.maintain()
    number = 0
    while not held._inner.is_due:
        for index in (held, memory):
            index.apply(changed(number))
        number += 1
    assert held.maintain()
    assert not held._inner.is_due
    assert_alike(held, memory, chance)
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(MemuError):
        maintain_apart(tmp_path / "1", KEEP)
    held.close()
