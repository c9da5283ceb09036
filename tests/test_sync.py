"""A pass brings the index level: step by step, at once or anew, it ends with the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memu_fs.git import Times, file_times
from memu_fs.index.base import FileState, Hit, Index, Segment, Stamp, Where
from memu_fs.index.embedder import EmbedderSettings, make_embedder
from memu_fs.index.lance import LanceIndex
from memu_fs.index.memory import MemoryIndex
from memu_fs.index.sync import Embedding, MassRemovalError, Report, bring_level
from memu_fs.index.terms import analyse
from memu_fs.index.vector_cache import VectorCache
from memu_fs.store import Store

if TYPE_CHECKING:
    from conftest import MakeStore, RunGit

SETTINGS = EmbedderSettings(embedder="hashing")
EMBEDDER = make_embedder(SETTINGS)
STAMP = Stamp(1, 1, EMBEDDER.space, EMBEDDER.dimension)
EVERYTHING = Where(None, ("memory", "skill", "workspace"))
LONG_AGO = 1_600_000_000_000_000_000


def embedding(folder: Path) -> Embedding:
    return Embedding(SETTINGS, EMBEDDER, VectorCache(folder / "vectors.sqlite"))


class Level:
    """A store, an index of it in memory, and passes from one to the other."""

    def __init__(self, store: Store, cache: Path) -> None:
        self.store = store
        self.index: Index = MemoryIndex(STAMP)
        self.embedding = embedding(cache)

    def bring(self, *, force: bool = False, seconds: float | None = None) -> Report:
        return bring_level(self.store, self.index, self.embedding, force=force, seconds=seconds)

    def texts(self, path: str) -> list[str]:
        return [segment.text for segment in self.index.segments(path)]


@pytest.fixture
def level(store: MakeStore, tmp_path: Path) -> Callable[..., Level]:
    return lambda files=None: Level(store(files), tmp_path)


def age(root: Path) -> None:
    """Make every file one that nobody has touched for a long time, as far as its hints can say."""
    for path in root.rglob("*.md"):
        os.utime(path, ns=(LONG_AGO, LONG_AGO))


# Any history of a store


PATHS = (
    "memory/owl.md",
    "memory/birds/wren.md",
    "memory/projects/acme/owl.md",
    "memory/owl.conflict-0a1b2c3d.md",
    "skill/ring.md",
    "skill/ring/SKILL.md",
    "skill/ring/tools.md",
    "resource/atlas.md",
)
BODIES = (
    "",
    "# Owls\n\nOwls hunt at night.\n\nThey hear a mouse below the snow.\n",
    "---\nname: ring-a-bird\ndescription: Put a ring on a bird\nstatus: unverified\n---\n\nHold it gently.\n",
    "---\nvalid_until: 2020-01-01\n---\n\nThe old tower is open.\r\n\r\n```sh\nls tower\n```\r\n",
    "One.\n\n" + "Wrens are small and loud. " * 80 + "\n",
)
STATUSES = ("active", "retired", "superseded")
FOLDERS = ("memory", "skill", "resource")


@dataclass(frozen=True)
class Step:
    """One thing that happens to a store."""

    kind: str
    path: str
    other: str
    number: int

    def apply(self, root: Path) -> None:
        getattr(self, self.kind)(root, root / self.path, root / self.other)

    def write(self, _root: Path, path: Path, _other: Path) -> None:
        put(path, BODIES[self.number % len(BODIES)])

    def add(self, _root: Path, path: Path, _other: Path) -> None:
        put(path, (path.read_bytes().decode() if path.is_file() else "") + f"\nSeen {self.number} times.\n")

    def rename(self, _root: Path, path: Path, other: Path) -> None:
        if path.is_file():
            other.parent.mkdir(parents=True, exist_ok=True)
            path.replace(other)

    def delete(self, _root: Path, path: Path, _other: Path) -> None:
        path.unlink(missing_ok=True)

    def set_status(self, _root: Path, path: Path, _other: Path) -> None:
        put(path, f"---\nstatus: {STATUSES[self.number % len(STATUSES)]}\n---\n\nThe owl box is empty.\n")

    def forget(self, root: Path, path: Path, _other: Path) -> None:
        put(root / ".tombstones" / path.relative_to(root), "")

    def recall(self, root: Path, path: Path, _other: Path) -> None:
        (root / ".tombstones" / path.relative_to(root)).unlink(missing_ok=True)

    def commit(self, root: Path, _path: Path, _other: Path) -> None:
        run_git(root, self.number, "add", "--all")
        run_git(root, self.number, "commit", "--quiet", "--allow-empty", "-m", "Note")

    def go_back(self, root: Path, _path: Path, _other: Path) -> None:
        run_git(root, self.number, "checkout", "--quiet", "--force", "HEAD~1", check=False)

    def go_on(self, root: Path, _path: Path, _other: Path) -> None:
        run_git(root, self.number, "checkout", "--quiet", "--force", "main", check=False)


STEPS = st.builds(
    Step,
    st.sampled_from(
        ["write"] * 4
        + ["add"] * 2
        + ["commit"] * 3
        + ["rename", "delete", "set_status", "forget"]
        + ["recall", "go_back", "go_on"]
    ),
    st.sampled_from(PATHS[:1] * 5 + PATHS),  # most histories are about one file
    st.sampled_from(PATHS),
    st.integers(0, 9),
)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def run_git(root: Path, hour: int, *arguments: str, check: bool = True) -> None:
    at = f"2026-01-01T{hour:02}:00:00Z"
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", at))
    }
    command = ["git", "-C", str(root), *arguments]
    subprocess.run(command, env={**os.environ, **who}, check=check, capture_output=True)


@contextmanager
def scratch_store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        for name in FOLDERS:
            (root / name).mkdir(parents=True)
        run_git(root, 0, "-c", "init.defaultBranch=main", "init", "--quiet")
        yield Store(root)


def known(index: Index) -> dict[str, tuple[FileState, list[Segment]]]:
    """Give all that an index holds, but for what depends on the moment of reading."""
    return {path: (replace(state, hints="", read_at=0), index.segments(path)) for path, state in index.files().items()}


def answers(index: Index) -> list[list[Hit]]:
    asked = ("owl", "a small loud wren", "tower", "seen times")
    near = [index.nearest(EMBEDDER.embed_query(text), EVERYTHING, 5) for text in asked]
    return near + [index.matching(analyse(text), EVERYTHING, 5) for text in asked]


def check_histories(make: Callable[[Path], Index], steps: Sequence[tuple[Step, bool]]) -> None:
    with scratch_store() as store:
        beside = store.root.parent
        often, seldom, once = make(beside / "often"), make(beside / "seldom"), make(beside / "once")
        ways = embedding(beside)
        for step, pause in steps:
            step.apply(store.root)
            bring_level(store, often, ways, force=True)
            if pause:
                bring_level(store, seldom, ways, force=True)
        for index in (often, seldom, once):
            bring_level(store, index, ways, force=True)
        assert known(often) == known(seldom) == known(once)
        assert answers(often) == answers(seldom) == answers(once)
        assert often.head == seldom.head == once.head
        for index in (often, seldom, once):
            again = bring_level(store, index, ways, force=True)
            assert (again.changed, again.embedded) == (0, 0)
            index.close()


@settings(max_examples=60)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=12))
def test_any_history_ends_in_the_same_index_as_a_rebuild(steps: list[tuple[Step, bool]]) -> None:
    check_histories(lambda _: MemoryIndex(STAMP), steps)


@settings(max_examples=8)
@given(st.lists(st.tuples(STEPS, st.booleans()), min_size=4, max_size=8))
def test_any_history_ends_in_the_same_lance_index_as_a_rebuild(steps: list[tuple[Step, bool]]) -> None:
    check_histories(lambda folder: LanceIndex.create(folder, STAMP), steps)


# What a pass does


def test_a_second_pass_changes_and_embeds_nothing(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt.", "skill/ring/SKILL.md": "Ring.", "skill/ring/tools.md": "Tools."})
    first, second = now.bring(), now.bring()
    assert (first.files, first.added, first.embedded) == (2, 2, 3)
    assert (second.files, second.changed, second.embedded, second.behind) == (2, 0, 0, ())


def test_a_one_line_edit_embeds_the_changed_segments_alone(level: Callable[..., Level]) -> None:
    pages = "\n\n".join(f"## Part {number}\n\n" + f"Bird number {number} sings. " * 60 for number in range(6))
    now = level({"memory/birds.md": pages, "memory/owl.md": "Owls hunt."})
    first = now.bring()
    assert first.segments >= 7
    path = now.store.root / "memory/birds.md"
    path.write_text(pages.replace("Bird number 3 sings. ", "Bird number 3 sleeps. ", 1))
    second = now.bring()
    assert (second.edited, second.added, second.removed) == (1, 0, 0)
    before = {segment.id for segment in now.index.segments("memory/birds.md")}
    assert second.embedded == sum("sleeps" in text for text in now.texts("memory/birds.md")) == 1
    assert len(before) == second.segments - 1


def test_switching_a_branch_and_back_embeds_nothing(git_store: MakeStore, git: RunGit, tmp_path: Path) -> None:
    made = git_store({f"memory/bird-{number}.md": f"Bird {number} sings." for number in range(5)})
    now = Level(made, tmp_path)
    now.bring()
    git("checkout", "--quiet", "-b", "other", cwd=made.root)
    for number in range(3):
        (made.root / f"memory/bird-{number}.md").write_text(f"Bird {number} is silent.")
    git("rm", "--quiet", "memory/bird-4.md", cwd=made.root)
    git("commit", "--quiet", "--all", "-m", "Silence", cwd=made.root)
    assert now.bring().embedded == 3
    git("checkout", "--quiet", "main", cwd=made.root)
    back = now.bring()
    assert (back.added, back.edited, back.embedded) == (1, 3, 0)
    git("checkout", "--quiet", "other", cwd=made.root)
    assert now.bring().embedded == 0


def test_a_touched_file_is_not_cut_again(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    now.bring()
    before = now.index.files()["memory/owl.md"]
    age(now.store.root)
    report = now.bring()
    after = now.index.files()["memory/owl.md"]
    assert (report.changed, report.embedded) == (0, 0)
    assert after.hints != before.hints
    assert replace(after, hints="", read_at=0) == replace(before, hints="", read_at=0)


def test_an_edit_of_the_same_size_in_the_same_second_is_seen(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    path = now.store.root / "memory/owl.md"
    for text in ("Owls rest.", "Owls call.", "Owls moan."):
        stamp = path.stat()
        path.write_text(text)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert now.bring().changed == 1
        assert now.texts("memory/owl.md") == [text]


def test_an_edit_that_hides_its_time_is_seen_by_its_change_time(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    path = now.store.root / "memory/owl.md"
    age(now.store.root)
    time.sleep(2.1)  # from here on the hints are believed
    now.bring()
    now.bring()
    inode = path.stat().st_ino
    with path.open("r+") as file:
        file.write("Owls rest.")
    age(now.store.root)
    assert path.stat().st_ino == inode
    assert now.bring().edited == 1
    assert now.texts("memory/owl.md") == ["Owls rest."]


def test_believed_hints_spare_the_reading(level: Callable[..., Level], monkeypatch: pytest.MonkeyPatch) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    age(now.store.root)
    time.sleep(2.1)
    now.bring()
    read: list[str] = []
    read_bytes = Store.read_bytes

    def noted(self: Store, path: str) -> bytes:
        read.append(path)
        return read_bytes(self, path)

    monkeypatch.setattr(Store, "read_bytes", noted)
    now.bring()
    assert read == []


def test_files_dated_in_the_future_do_not_make_every_pass_write(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    later = time.time_ns() + 10**15
    os.utime(now.store.root / "memory/owl.md", ns=(later, later))
    now.bring()
    before = now.index.files()
    time.sleep(0.01)
    now.bring()
    assert now.index.files() == before
    (now.store.root / "memory/owl.md").write_text("Owls rest.")
    os.utime(now.store.root / "memory/owl.md", ns=(later, later))
    assert now.bring().edited == 1


def test_a_file_that_yields_no_segments_any_more_leaves_none_behind(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt.\n\nOwls rest.", "memory/wren.md": "Wrens sing."})
    now.bring()
    (now.store.root / "memory/owl.md").write_text("")
    report = now.bring()
    assert report.segments == now.index.count() == 1
    assert now.texts("memory/owl.md") == []
    assert now.index.files()["memory/owl.md"].segments == 0


def test_a_file_that_moves_keeps_its_text_and_costs_no_embedding(level: Callable[..., Level]) -> None:
    now = level({"memory/owl.md": "Owls hunt."})
    now.bring()
    (now.store.root / "memory/birds").mkdir()
    (now.store.root / "memory/owl.md").rename(now.store.root / "memory/birds/owl.md")
    report = now.bring()
    assert (report.added, report.removed, report.embedded) == (1, 1, 0)
    assert now.texts("memory/birds/owl.md") == ["Owls hunt."]
    assert now.texts("memory/owl.md") == []


# Files that vanish


def many(level: Callable[..., Level], number: int) -> Level:
    return level({f"memory/bird-{place}.md": f"Bird {place} sings." for place in range(number)})


def test_a_pass_that_would_drop_most_of_the_index_stops_and_asks(level: Callable[..., Level]) -> None:
    now = many(level, 20)
    now.bring()
    before = known(now.index)
    for number in range(11):
        (now.store.root / f"memory/bird-{number}.md").unlink()
    with pytest.raises(MassRemovalError, match=r"11 of 20 indexed files .* memu-fs index --force"):
        now.bring()
    assert known(now.index) == before
    assert now.bring(force=True).removed == 11


@pytest.mark.parametrize(("number", "gone"), [(20, 10), (19, 19)])
def test_half_of_an_index_and_all_of_a_small_one_may_go(level: Callable[..., Level], number: int, gone: int) -> None:
    now = many(level, number)
    now.bring()
    for place in range(gone):
        (now.store.root / f"memory/bird-{place}.md").unlink()
    assert now.bring().removed == gone


def test_a_folder_that_is_empty_as_if_unmounted_drops_nothing(level: Callable[..., Level]) -> None:
    now = many(level, 25)
    now.bring()
    shutil.rmtree(now.store.root / "memory")
    (now.store.root / "memory").mkdir()
    with pytest.raises(MassRemovalError):
        now.bring()
    assert now.index.count() == 25


# Git's times


def check_times(now: Level) -> None:
    full = file_times(now.store.root) or {}
    for path, state in now.index.files().items():
        expected = full.get(path)
        assert (state.created_at, state.updated_at) == (
            (expected.created_at, expected.updated_at) if expected else (None, None)
        )


def test_times_read_commit_by_commit_are_those_read_at_once(git_store: MakeStore, git: RunGit, tmp_path: Path) -> None:
    made = git_store({"memory/owl.md": "Owls hunt.", "memory/wren.md": "Wrens sing."})
    now = Level(made, tmp_path)
    now.bring()
    check_times(now)
    root = made.root

    def commit(at: str) -> None:
        git("add", "--all", cwd=root)
        git("commit", "--quiet", "-m", "Note", cwd=root, at=at)
        now.bring()
        check_times(now)

    (root / "memory/owl.md").write_text("Owls rest.")
    now.bring()
    check_times(now)
    commit("2026-02-01T00:00:00Z")
    (root / "memory/wren.md").rename(root / "memory/troglodytes.md")
    now.bring()
    commit("2026-03-01T00:00:00Z")
    (root / "memory/new.md").write_text("New.")
    commit("2026-04-01T00:00:00Z")
    (root / "memory/owl.md").unlink()
    commit("2026-05-01T00:00:00Z")
    (root / "memory/owl.md").write_text("Owls are back.")
    commit("2026-06-01T00:00:00Z")
    assert now.index.files()["memory/troglodytes.md"].created_at == Times("2026-01-01T00:00:00Z", "").created_at


def test_a_deleted_file_that_git_gives_back_has_its_times_again(
    git_store: MakeStore, git: RunGit, tmp_path: Path
) -> None:
    made = git_store({"memory/owl.md": "Owls hunt.", "memory/wren.md": "Wrens sing."})
    now = Level(made, tmp_path)
    now.bring()
    (made.root / "memory/owl.md").unlink()
    now.bring()
    git("checkout", "--quiet", "--", "memory/owl.md", cwd=made.root)
    now.bring()
    assert now.index.files()["memory/owl.md"].created_at == "2026-01-01T00:00:00Z"
    check_times(now)


def test_rewritten_history_is_read_anew(git_store: MakeStore, git: RunGit, tmp_path: Path) -> None:
    made = git_store({"memory/owl.md": "Owls hunt."})
    now = Level(made, tmp_path)
    now.bring()
    git("commit", "--quiet", "--amend", "--date=2020-01-01T00:00:00Z", "-m", "Start", cwd=made.root)
    now.bring()
    check_times(now)
    assert now.index.files()["memory/owl.md"].created_at == "2020-01-01T00:00:00Z"


# Passes that must fit a time


def test_a_pass_with_little_time_takes_small_files_first_and_counts_the_rest(level: Callable[..., Level]) -> None:
    now = level({"memory/large.md": "Owls hunt at night. " * 5_000, "memory/small.md": "Wrens sing."})
    report = now.bring(seconds=0.1)
    assert list(now.index.files()) == ["memory/small.md"]
    assert report.behind == ("memory/large.md",)
    assert now.bring(seconds=0.1).behind == ()
    assert sorted(now.index.files()) == ["memory/large.md", "memory/small.md"]
