from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memu_fs.index.base import FileState, IndexBusyError, IndexUnusableError, Stamp
from memu_fs.index.bm25 import Corpus
from memu_fs.index.catalog import Catalog, Changes, Part, State

STAMP = Stamp(1, 3, "hashing:4", 4)


def file(path: str, digest: str = "d1") -> FileState:
    return FileState(path, digest, "id", "memory", path, "", "active", "size=1", 1, 2, None, None, ("too long", "計画"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "files.sqlite"


@pytest.fixture
def catalog(path: Path) -> Iterator[Catalog]:
    made = Catalog.create(path, State(STAMP, version=1))
    yield made
    made.close()


def published(catalog: Catalog, changes: Changes, version: int = 1) -> State:
    return catalog.publish(replace(catalog.state(), version=version), changes)


def test_a_pass_is_published_with_its_version_at_once(catalog: Catalog, path: Path) -> None:
    other = Catalog.open(path)
    published(catalog, Changes(put=[file("a"), file("b")], words={"owl": 2}), version=7)
    state, files = other.files()
    assert (state.version, state.turn, state.stamp) == (7, 1, STAMP)
    assert files == {"a": file("a"), "b": file("b")}
    published(catalog, Changes(put=[file("a", "d2")], drop=["b", "c"]), version=9)
    assert other.files()[1] == {"a": file("a", "d2")}
    assert other.state().version == 9
    other.close()


def test_words_are_counted_up_and_down(catalog: Catalog) -> None:
    state = replace(catalog.state(), segments=5, words=30)
    catalog.publish(state, Changes(words={"owl": 3, "cat": 1, "計画": 2, "none": 0}))
    published(catalog, Changes(words={"owl": -1, "cat": -1}))
    state, corpus = catalog.corpus(["owl", "cat", "計画", "none"])
    assert corpus == Corpus(5, 30, {"owl": 2, "cat": 0, "計画": 2, "none": 0})
    with pytest.raises(IndexUnusableError, match="lost count of words"):
        published(catalog, Changes(words={"owl": -3}))
    assert catalog.corpus(["owl"])[1].holding == {"owl": 2}


def test_more_words_than_one_statement_takes(catalog: Catalog) -> None:
    words = {f"word {n}": n % 5 + 1 for n in range(5000)}
    published(catalog, Changes(words=words))
    assert catalog.corpus(list(words))[1].holding == words


def test_parts_are_replaced_as_a_whole_or_left(catalog: Catalog) -> None:
    published(catalog, Changes(parts={"a": Part(1, 2), "b": Part(3, 4)}))
    published(catalog, Changes(put=[file("a")]))
    assert catalog.parts()[1] == {"a": Part(1, 2), "b": Part(3, 4)}
    published(catalog, Changes(parts={"b": Part(3, 4), "c": Part(5, 6)}))
    state, parts = catalog.parts()
    assert parts == {"b": Part(3, 4), "c": Part(5, 6)}
    assert state.bytes == 8


def test_two_writers_cannot_both_publish(catalog: Catalog, path: Path) -> None:
    other = Catalog.open(path)
    believed = other.state()
    published(catalog, Changes(put=[file("a")]))
    with pytest.raises(IndexBusyError):
        other.publish(believed, Changes(put=[file("b")]))
    assert other.files()[1] == {"a": file("a")}
    other.close()


def test_a_reader_is_not_kept_waiting_by_a_writer(catalog: Catalog, path: Path) -> None:
    published(catalog, Changes(put=[file("a")]))
    writing = sqlite3.connect(path, isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    writing.execute("DELETE FROM files")
    assert catalog.files()[1] == {"a": file("a")}
    writing.execute("ROLLBACK")
    writing.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE files SET body = replace(body, 'd1', 'd2')",
        "UPDATE files SET key = 'c' WHERE key = 'a'",
        "DELETE FROM files WHERE key = 'a'",
        "INSERT INTO files VALUES ('c', '{}', 0)",
        "UPDATE state SET body = replace(body, '\"version\":5', '\"version\":4')",
        "DELETE FROM state",
        "DROP TABLE files",
        "UPDATE words SET body = '9'",
        "UPDATE parts SET body = '[1,3]'",
        "DELETE FROM parts",
    ],
)
def test_a_changed_or_lost_row_is_noticed(catalog: Catalog, path: Path, statement: str) -> None:
    changes = Changes([file("a"), file("b")], words={"owl": 1}, parts={"a": Part(1, 2), "b": Part(1, 2)})
    published(catalog, changes, version=5)
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()
    with pytest.raises(IndexUnusableError, match="memu-fs index --rebuild"):
        (catalog.files(), catalog.parts(), catalog.corpus(["owl"]))


def test_a_catalogue_of_another_version_is_refused(catalog: Catalog, path: Path) -> None:
    from memu_fs.index import checked_rows

    with sqlite3.connect(path) as other:
        checked_rows.write(other, "state", "state", '{"stamp":{"schema":9},"colour":1}')
    other.close()
    with pytest.raises(IndexUnusableError, match="of another version"):
        catalog.state()


def test_a_missing_catalogue_is_not_made(path: Path) -> None:
    with pytest.raises(IndexUnusableError, match="it has no catalogue"):
        Catalog.open(path)
    assert not path.exists()


def test_shrinking_folds_the_log_into_the_file(catalog: Catalog, path: Path) -> None:
    published(catalog, Changes(put=[file(f"{n}") for n in range(500)]))
    log = path.with_name("files.sqlite-wal")
    assert log.stat().st_size > 0
    catalog.shrink()
    assert log.stat().st_size == 0
    assert len(catalog.files()[1]) == 500
