"""One suite for every implementation of an index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memu_fs.index.base import FileState, Hit, Index, Pass, Segment, Stamp, Vector, Where
from memu_fs.index.held import HeldIndex
from memu_fs.index.lance import LanceIndex
from memu_fs.index.memory import MemoryIndex

STAMP = Stamp(schema=1, slicer=3, space="hashing:4", dimension=4)
EVERYTHING = Where(scopes=None, tracks=("memory", "skill", "workspace"))


def vector(*numbers: float) -> Vector:
    return np.array(numbers, dtype=np.float32)


def segment(path: str, line: int = 1, terms: str = "", **other: str) -> Segment:
    track, _, name = path.removesuffix(".md").partition("/")
    made = Segment(
        id=f"{path}#{line}",
        file_id=f"id of {path}",
        track=track,
        name=name,
        path=path,
        heading="Birds > Owls",
        prefix="Birds",
        text=f"text of {path} at {line}",
        line_start=line,
        line_end=line,
        status="active",
        valid_from="",
        valid_until="",
        scope="",
        digest=f"digest of {path}",
        terms=terms,
    )
    return replace(made, **other)  # type: ignore[arg-type]


def state(path: str, digest: str = "d1", scope: str = "", segments: int = 0) -> FileState:
    track, _, name = path.removesuffix(".md").partition("/")
    return FileState(
        path,
        digest,
        f"id of {path}",
        track,
        name,
        scope,
        "active",
        "size=1",
        12,
        segments,
        None,
        "2026-05-01T10:00:00Z",
        ("a",),
    )


def put(*segments: Segment, head: str | None = None, vectors: dict[str, Vector] | None = None) -> Pass:
    """Make a pass that puts the files of some segments."""
    files: dict[str, list[Segment]] = {}
    for one in segments:
        files.setdefault(one.path, []).append(one)
    given_vectors = {one.id: vector(1, 0, 0, 0) for one in segments} | (vectors or {})
    return Pass(
        put={path: (state(path, scope=cut[0].scope), cut) for path, cut in files.items()},
        vectors=given_vectors,
        head=head,
    )


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.segment.id for hit in hits]


def found(index: Index, *terms: str, where: Where = EVERYTHING, limit: int = 50) -> list[str]:
    return ids(index.matching(terms, where, limit))


def near(index: Index, where: Where = EVERYTHING, limit: int = 50) -> list[str]:
    return ids(index.nearest(vector(1, 0, 0, 0), where, limit))


class IndexContract:
    """What every index does."""

    @pytest.fixture
    def index(self) -> Index | Iterator[Index]:
        raise NotImplementedError

    def test_an_empty_index_finds_nothing(self, index: Index) -> None:
        assert index.files() == {}
        assert index.count() == 0
        assert index.scopes() == []
        assert index.head == ""
        assert index.stamp == STAMP
        assert near(index) == found(index, "owl") == []
        assert index.segments("memory/owl.md") == []

    def test_what_is_put_is_found_whole(self, index: Index) -> None:
        one = segment("memory/owl.md", 3, "owl night", valid_from="2026-01-01", prefix="é\n| a | b |")
        index.apply(put(one, head="abc"))
        assert index.matching(["owl"], EVERYTHING, 5)[0].segment == one
        assert index.nearest(vector(2, 0, 0, 0), EVERYTHING, 5) == [Hit(one, 1.0)]
        assert index.segments("memory/owl.md") == [one]
        assert index.files() == {"memory/owl.md": state("memory/owl.md", segments=1)}
        assert index.head == "abc"

    def test_a_file_is_replaced_whole(self, index: Index) -> None:
        index.apply(put(segment("memory/owl.md", 1, "owl"), segment("memory/owl.md", 2, "night")))
        index.apply(put(segment("memory/owl.md", 2, "day")))
        assert found(index, "owl", "night", "day") == ["memory/owl.md#2"]
        assert index.count() == 1

    def test_a_file_that_yields_no_segment_leaves_none_behind(self, index: Index) -> None:
        index.apply(put(segment("memory/owl.md", 1, "owl"), segment("memory/cat.md", 1, "cat")))
        index.apply(Pass(put={"memory/owl.md": (state("memory/owl.md", "d2"), [])}))
        assert found(index, "owl", "cat") == near(index) == ["memory/cat.md#1"]
        assert index.files()["memory/owl.md"] == state("memory/owl.md", "d2", segments=0)

    def test_a_dropped_file_is_gone(self, index: Index) -> None:
        index.apply(put(segment("memory/owl.md", 1, "owl"), segment("memory/cat.md", 1, "cat")))
        index.apply(Pass(drop=frozenset({"memory/owl.md", "memory/never.md"})))
        assert list(index.files()) == ["memory/cat.md"]
        assert found(index, "owl", "cat") == near(index) == ["memory/cat.md#1"]

    def test_a_path_that_is_dropped_and_put_is_put(self, index: Index) -> None:
        changes = put(segment("memory/owl.md", 1, "owl"))
        index.apply(replace(changes, drop=frozenset({"memory/owl.md"})))
        assert found(index, "owl") == ["memory/owl.md#1"]

    def test_a_touched_file_keeps_its_segments(self, index: Index) -> None:
        index.apply(put(segment("memory/owl.md", 1, "owl")))
        touched = replace(state("memory/owl.md"), hints="size=2", segments=99)
        index.apply(Pass(touch=[touched, state("memory/never.md")]))
        assert index.files() == {"memory/owl.md": replace(touched, segments=1)}
        assert found(index, "owl") == ["memory/owl.md#1"]

    def test_a_pass_keeps_the_head_unless_it_names_one(self, index: Index) -> None:
        index.apply(Pass(head="abc"))
        index.apply(put(segment("memory/owl.md")))
        assert index.head == "abc"

    def test_the_other_files_of_a_skill_go_with_it(self, index: Index) -> None:
        main = segment("skill/fly/SKILL.md", 1, "fly")
        other = replace(segment("skill/fly/wings.md", 1, "wings"), file_id=main.file_id, name="fly")
        path = main.path
        vectors = {main.id: vector(1, 0, 0, 0), other.id: vector(0, 1, 0, 0)}
        index.apply(Pass(put={path: (state(path), [other, main])}, vectors=vectors))
        assert index.segments(path) == [main, other]
        index.apply(Pass(drop=frozenset({path})))
        assert found(index, "fly", "wings") == []
        assert index.segments(path) == []

    def test_applying_a_pass_again_changes_nothing(self, index: Index) -> None:
        changes = put(segment("memory/owl.md", 1, "owl"), segment("memory/cat.md", 1, "cat owl"), head="abc")
        index.apply(changes)
        before = (index.files(), index.matching(["owl"], EVERYTHING, 9), index.count())
        index.apply(changes)
        assert (index.files(), index.matching(["owl"], EVERYTHING, 9), index.count()) == before

    def test_a_segment_put_without_a_fitting_vector_is_refused(self, index: Index) -> None:
        changes = put(segment("memory/owl.md", 1, "owl"))
        with pytest.raises(ValueError, match="no vector of 4 numbers"):
            index.apply(replace(changes, vectors={}))
        with pytest.raises(ValueError, match="no vector of 4 numbers"):
            index.apply(replace(changes, vectors={"memory/owl.md#1": vector(1, 0)}))
        assert index.files() == {}

    def test_scopes_are_exact(self, index: Index) -> None:
        scopes = ["", "projects/a", "projects/a/b", "projects/A", "projects/o'b\\%_\"", "agents/計画"]
        for number, scope in enumerate(scopes):
            index.apply(put(segment(f"memory/{number}.md", 1, "owl", scope=scope)))
        for number, scope in enumerate(scopes):
            where = Where(scopes=(scope,), tracks=("memory",))
            assert found(index, "owl", where=where) == near(index, where) == [f"memory/{number}.md#1"]
        both = Where(scopes=("", "projects/a"), tracks=("memory",))
        assert near(index, both) == ["memory/0.md#1", "memory/1.md#1"]
        assert near(index, Where(scopes=(), tracks=("memory",))) == []
        assert index.scopes() == sorted(scopes)

    def test_a_scope_that_looks_like_sql_is_a_scope(self, index: Index) -> None:
        index.apply(put(segment("memory/secret.md", 1, "owl", scope="projects/secret")))
        where = Where(scopes=("' OR '1'='1",), tracks=("memory') OR ('1'='1",))
        assert found(index, "owl", where=where) == near(index, where) == []

    def test_tracks_and_statuses_are_filtered(self, index: Index) -> None:
        index.apply(
            put(
                segment("memory/a.md", 1, "owl"),
                segment("skill/b.md", 1, "owl", status="retired"),
                segment("workspace/c.md", 1, "owl", status="unverified"),
            )
        )
        assert near(index, Where(None, ("memory", "workspace"))) == ["memory/a.md#1", "workspace/c.md#1"]
        assert found(index, "owl", where=replace(EVERYTHING, statuses=("retired",))) == ["skill/b.md#1"]
        assert near(index, replace(EVERYTHING, statuses=())) == near(index, Where(None, ())) == []

    def test_validity_includes_both_ends(self, index: Index) -> None:
        index.apply(
            put(
                segment("memory/always.md", 1, "owl"),
                segment("memory/may.md", 1, "owl", valid_from="2026-05-01", valid_until="2026-05-31"),
            )
        )
        seen = {
            day: near(index, replace(EVERYTHING, today=day))[1:] == ["memory/may.md#1"]
            for day in ("2026-04-30", "2026-05-01", "2026-05-31", "2026-06-01")
        }
        assert list(seen.values()) == [False, True, True, False]
        assert len(found(index, "owl")) == 2

    def test_what_is_hidden_pushes_nothing_out(self, index: Index) -> None:
        hidden = [segment(f"memory/h{n}.md", 1, "owl owl owl", scope="projects/b") for n in range(40)]
        seen = segment("memory/seen.md", 1, "a long one with one owl only")
        index.apply(put(*hidden, seen, vectors={seen.id: vector(0.1, 1, 0, 0)}))
        where = Where(scopes=("",), tracks=("memory",))
        assert found(index, "owl", where=where, limit=1) == near(index, where, 1) == [seen.id]

    def test_ties_at_the_cut_are_ordered_before_they_are_cut(self, index: Index) -> None:
        names = [f"memory/{n:03}.md" for n in range(300)]
        index.apply(put(*(segment(path, 1, "owl") for path in reversed(names))))
        expected = [f"{path}#1" for path in names[:7]]
        assert near(index, limit=7) == found(index, "owl", limit=7) == expected

    def test_equal_scores_are_ordered_by_track_name_path_and_line(self, index: Index) -> None:
        every = [
            segment("skill/a.md", 1, "owl"),
            segment("memory/b.md", 10, "owl"),
            segment("memory/b.md", 9, "owl"),
            segment("memory/a.md", 1, "owl"),
        ]
        index.apply(put(*every))
        expected = ["memory/a.md#1", "memory/b.md#9", "memory/b.md#10", "skill/a.md#1"]
        assert near(index) == found(index, "owl") == expected

    def test_limits_hold(self, index: Index) -> None:
        index.apply(put(*(segment(f"memory/{n}.md", 1, "owl") for n in range(5))))
        assert [len(near(index, limit=n)) for n in (-1, 0, 1, 5, 6)] == [0, 0, 1, 5, 5]
        assert [len(found(index, "owl", limit=n)) for n in (-1, 0, 1, 5, 6)] == [0, 0, 1, 5, 5]

    def test_cosine_is_between_minus_one_and_one(self, index: Index) -> None:
        every = [segment("memory/a.md", line) for line in (1, 2, 3, 4)]
        shapes = [vector(5, 0, 0, 0), vector(-2, 0, 0, 0), vector(3, 3, 0, 0), vector(0, 0, 0, 0)]
        index.apply(put(*every, vectors=dict(zip([s.id for s in every], shapes, strict=True))))
        hits = index.nearest(vector(0.5, 0, 0, 0), EVERYTHING, 9)
        assert [(hit.segment.line_start, hit.score) for hit in hits] == [(1, 1.0), (3, 0.707107), (2, -1.0)]
        assert index.nearest(vector(0, 0, 0, 0), EVERYTHING, 9) == []

    def test_rare_words_count_more_and_long_segments_less(self, index: Index) -> None:
        index.apply(
            put(
                segment("memory/both.md", 1, "owl cat"),
                segment("memory/cat.md", 1, "cat dog"),
                segment("memory/long.md", 1, "owl " + "word " * 30),
                segment("memory/short.md", 1, "owl dog"),
                segment("memory/none.md", 1, "dog"),
            )
        )
        assert found(index, "owl") == ["memory/both.md#1", "memory/short.md#1", "memory/long.md#1"]
        assert found(index, "cat", "owl")[0] == "memory/both.md#1"
        assert found(index, "zebra") == found(index) == found(index, "") == []

    def test_a_word_asked_twice_counts_once(self, index: Index) -> None:
        index.apply(put(segment("memory/a.md", 1, "owl"), segment("memory/b.md", 1, "cat cat owl")))
        once = index.matching(["owl", "cat"], EVERYTHING, 9)
        assert index.matching(["owl", "cat", "owl", "owl"], EVERYTHING, 9) == once

    @pytest.mark.parametrize(
        "word",
        [
            *["計画", "東京都", "ゴジラ", "สวัสดี", "🦉", "résumé", "Owl", "getUserName", "src/main.py:42"],
            *[
                "AND",
                "OR",
                "NOT",
                '"quoted"',
                "(x)",
                "a:b",
                "it's",
                "c++",
                "*",
                "?",
                "-",
                "^",
                "~2",
                "\\",
                "{}",
            ],
            *[
                "a" * 64,
                "0123456789abcdef" * 4,
                "x" * 5000,
                "the",
                "running",
                "owl\u3000cat",
                "a\xa0b",
                "a\x1fb",
            ],
        ],
    )
    def test_a_word_is_matched_as_it_is_and_alone(self, index: Index, word: str) -> None:
        index.apply(put(segment("memory/it.md", 1, f"owl {word} cat"), segment("memory/other.md", 1, "dog")))
        assert found(index, word) == found(index, "zebra", word) == ["memory/it.md#1"]
        assert found(index, word + "x") == found(index, "x" + word) == []

    def test_many_words_can_be_asked(self, index: Index) -> None:
        index.apply(put(segment("memory/a.md", 1, "w999 owl"), segment("memory/b.md", 1, "cat")))
        assert found(index, *(f"w{n}" for n in range(1000))) == ["memory/a.md#1"]


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    def index(self) -> Index:
        return MemoryIndex(STAMP)


class TestLanceIndex(IndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[Index]:
        made = LanceIndex.create(tmp_path / "1", STAMP)
        yield made
        made.close()


class TestHeldIndex(IndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[Index]:
        made = HeldIndex(LanceIndex.create(tmp_path / "1", STAMP))
        yield made
        made.close()


class TestFollowingHeldIndex(IndexContract):
    """A daemon's view of what another process writes: the passes go past it."""

    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[Index]:
        writer = LanceIndex.create(tmp_path / "1", STAMP)
        reader = HeldIndex(LanceIndex.open(tmp_path / "1"))
        reader.apply = writer.apply  # type: ignore[method-assign]
        yield reader
        reader.close()
        writer.close()


class TestReopenedLanceIndex(IndexContract):
    """Another process's view: every answer comes from an index opened before the passes."""

    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[Index]:
        writer = LanceIndex.create(tmp_path / "über alles" / "1", STAMP)
        reader = LanceIndex.open(tmp_path / "über alles" / "1")
        reader.apply = writer.apply  # type: ignore[method-assign]
        yield reader
        reader.close()
        writer.close()


WORDS = st.lists(st.sampled_from(["owl", "cat", "night", "計画", "AND", "a:b", "\u3000"]), max_size=5)
PATHS = st.sampled_from(["memory/a.md", "memory/b.md", "skill/c/SKILL.md", "resource/d'.md"])
HINTS = st.sampled_from(["size=1", "size=2"])


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Make a pass over a few files."""
    changed: dict[str, tuple[FileState, list[Segment]]] = {}
    vectors: dict[str, Vector] = {}
    for path in draw(st.sets(PATHS, max_size=3)):
        scope = draw(st.sampled_from(["", "projects/a"]))
        cut = [segment(path, line, " ".join(draw(WORDS)), scope=scope) for line in range(draw(st.integers(0, 3)))]
        changed[path] = (state(path, draw(st.sampled_from(["d1", "d2"])), scope), cut)
        for one in cut:
            numbers = draw(st.tuples(*[st.integers(-2, 2)] * 4))
            vectors[one.id] = vector(*numbers)
    touched = draw(st.dictionaries(PATHS, HINTS, max_size=2))
    touch = [replace(state(path), hints=hints) for path, hints in touched.items()]
    drop = draw(st.frozensets(PATHS, max_size=2))
    return Pass(changed, vectors, drop, touch, draw(st.none() | st.just("h")))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(passes(), max_size=6), words=WORDS, limit=st.integers(1, 6))
def test_lance_answers_like_memory_after_any_passes(steps: list[Pass], words: list[str], limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, lance = MemoryIndex(STAMP), LanceIndex.create(Path(folder), STAMP)
        for number, step in enumerate(steps):
            memory.apply(step)
            lance.apply(step)
            if number % 2:
                lance.maintain()
            assert_alike(memory, lance, words, limit)
        lance.close()
        again = LanceIndex.open(Path(folder))
        assert_alike(memory, again, words, limit)
        again.close()


def assert_alike(memory: Index, lance: Index, words: list[str], limit: int) -> None:
    assert lance.files() == memory.files()
    assert (lance.count(), lance.scopes(), lance.head) == (memory.count(), memory.scopes(), memory.head)
    for path in memory.files():
        assert lance.segments(path) == memory.segments(path)
    for where in (EVERYTHING, Where(scopes=("projects/a",), tracks=("memory", "skill"))):
        assert lance.matching(words, where, limit) == memory.matching(words, where, limit)
        asked = vector(1, 2, 0, -1)
        assert lance.nearest(asked, where, limit) == memory.nearest(asked, where, limit)
