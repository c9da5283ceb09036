from __future__ import annotations

import importlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memu_fs.index import lance_table
from memu_fs.index.base import Hit, Index, IndexUnusableError, IndexWriteError, Pass, Stamp
from memu_fs.index.lance import CATALOG, LanceIndex
from memu_fs.index.lance_pass import IndexMaintenanceError
from memu_fs.index.memory import MemoryIndex

SCRIPT = Path(__file__).with_name("index_writer.py")


writer: Any = importlib.import_module("index_writer")
STAMP: Stamp = writer.STAMP


def both(folder: Path, passes: range) -> tuple[LanceIndex, MemoryIndex]:
    lance, memory = LanceIndex.create(folder, STAMP), MemoryIndex(STAMP)
    for number in passes:
        lance.apply(writer.written(number))
        memory.apply(writer.written(number))
    return lance, memory


def assert_alike(lance: Index, memory: Index, limit: int = 20) -> None:
    assert lance.files() == memory.files()
    assert (lance.count(), lance.head) == (memory.count(), memory.head)
    for words in (["owl"], ["night", "計画", "egg"]):
        assert lance.matching(words, writer.EVERYTHING, limit) == memory.matching(words, writer.EVERYTHING, limit)
    asked = np.arange(1, writer.DIMENSION + 1, dtype=np.float32)
    assert lance.nearest(asked, writer.EVERYTHING, limit) == memory.nearest(asked, writer.EVERYTHING, limit)
    for path in memory.files():
        assert lance.segments(path) == memory.segments(path)


def start(command: str, folder: Path, number: int = 0) -> subprocess.Popen[str]:
    argv = [sys.executable, str(SCRIPT), command, str(folder), str(number)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may read; those of pytest are private."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made / "1"
    shutil.rmtree(made)


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a table alone", "another file"])
def test_what_is_no_index_says_how_to_make_one(tmp_path: Path, there: str) -> None:
    folder = tmp_path / "1"
    if there == "a table alone":
        LanceIndex.create(folder, STAMP).close()
        (folder / CATALOG).unlink()
    elif there != "nothing":
        folder.mkdir()
    if there == "another file":
        (folder / CATALOG).write_text("no database")
    with pytest.raises(IndexUnusableError, match="memu-fs index --rebuild"):
        LanceIndex.open(folder)


def test_an_index_of_another_make_is_not_opened(tmp_path: Path) -> None:
    LanceIndex.create(tmp_path / "1", replace(STAMP, schema=STAMP.schema + 1)).close()
    with pytest.raises(IndexUnusableError, match="its format is of another version"):
        LanceIndex.open(tmp_path / "1")
    LanceIndex.create(tmp_path / "2", STAMP).close()
    LanceIndex.open(tmp_path / "2", slicer=STAMP.slicer).close()
    with pytest.raises(IndexUnusableError, match="cut by another version"):
        LanceIndex.open(tmp_path / "2", slicer=STAMP.slicer + 1)


@pytest.mark.parametrize("change", ["a type", "a name", "a vector's length", "no index of words"])
def test_a_table_with_other_columns_or_types_is_not_opened(tmp_path: Path, change: str) -> None:
    index = LanceIndex.create(tmp_path / "1", STAMP)
    table = index._database.open_table(lance_table.NAME)
    if change == "a type":
        table.alter_columns({"path": "line_start", "data_type": pa.int64()})
    elif change == "a name":
        table.alter_columns({"path": "heading", "rename": "headings"})
    elif change == "no index of words":
        table.drop_index(table.list_indices()[0].name)
    stamp = replace(STAMP, dimension=9) if change == "a vector's length" else STAMP
    index._catalog.publish(replace(index._catalog.state(), stamp=stamp, version=table.version), writer.Changes())
    index.close()
    with pytest.raises(IndexUnusableError, match=r"columns are of another version|words are not indexed"):
        LanceIndex.open(tmp_path / "1")


def test_without_vectors_there_is_keyword_search(tmp_path: Path) -> None:
    index = LanceIndex.create(tmp_path / "1", replace(STAMP, space="", dimension=0))
    index.apply(replace(writer.rotated(1), vectors={}))
    index.close()
    index = LanceIndex.open(tmp_path / "1")
    assert len(index.matching(["owl"], writer.EVERYTHING, 9)) == 3
    assert index.nearest(np.ones(8, np.float32), writer.EVERYTHING, 9) == []
    index.close()


def test_a_vector_of_another_length_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    index = LanceIndex.create(tmp_path / "1", STAMP)
    with pytest.raises(ValueError, match="vectors of 8 numbers"):
        index.nearest(np.ones(9, np.float32), writer.EVERYTHING, 9)


def test_the_table_can_lie_elsewhere(tmp_path: Path) -> None:
    uri = (tmp_path / "far away").as_uri()
    index = LanceIndex.create(tmp_path / "1", STAMP, uri)
    index.apply(writer.rotated(1))
    index.close()
    assert [path.name for path in (tmp_path / "1").iterdir()] == [CATALOG]
    index = LanceIndex.open(tmp_path / "1", uri)
    assert index.count() == len(index.segments("memory/1.md")) == 3
    index.close()


def test_a_pass_that_was_broken_off_is_never_seen(tmp_path: Path) -> None:
    index, memory = both(tmp_path / "1", range(4))
    table = index._database.open_table(lance_table.NAME)
    table.delete("path = 'memory/3.md' OR line_start = 1")
    table.add(lance_table.rows(writer.rotated(7), writer.rotated(7).vectors, writer.DIMENSION))
    assert_alike(index, memory)
    index.close()
    index = LanceIndex.open(tmp_path / "1")
    assert_alike(index, memory)
    for number in (5, 6):
        index.apply(writer.written(number))
        memory.apply(writer.written(number))
        assert_alike(index, memory)
    index.close()


def test_broken_off_maintenance_is_never_seen(tmp_path: Path) -> None:
    index, memory = both(tmp_path / "1", range(8))
    index._database.open_table(lance_table.NAME).optimize()
    assert writer.maintained(index)
    assert_alike(index, memory)
    index.close()


def test_a_killed_writer_leaves_one_of_the_published_passes(tmp_path: Path) -> None:
    folder, chance = tmp_path / "1", random.Random(7)
    index, memory = both(folder, range(1))
    index.close()
    number = 0
    for _ in range(4):
        process = start("write_on", folder)
        assert process.stdout is not None
        for _ in range(chance.randrange(2, 9)):
            process.stdout.readline()
        time.sleep(chance.random() / 20)
        process.kill()
        process.communicate()
        index = LanceIndex.open(folder)
        while number < int(index.head):
            number += 1
            memory.apply(writer.written(number))
        assert_alike(index, memory)
        index.close()
    assert number >= 8


def test_a_reader_never_finds_a_file_missing_or_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    index = LanceIndex.create(folder, STAMP)
    for number in range(3):
        index.apply(writer.rotated(number))
    process = start("rotate", folder, 200)
    looks, digests = 0, set()
    while process.poll() is None:
        for hits in (index.matching(["owl"], writer.EVERYTHING, 50), _near(index)):
            seen = sorted((hit.segment.path, hit.segment.line_start) for hit in hits)
            assert seen == [(f"memory/{n}.md", line) for n in range(3) for line in range(3)]
            found = {(hit.segment.path, hit.segment.digest) for hit in hits}
            assert len(found) == 3
            digests |= found
        assert {len(index.segments(f"memory/{n}.md")) for n in range(3)} == {3}
        looks += 1
    assert process.communicate() == ("", "")
    assert looks > 20
    assert len(digests) > 20
    assert index.head == "199"
    index.close()


def _near(index: LanceIndex) -> list[Hit]:
    return index.nearest(np.ones(writer.DIMENSION, np.float32), writer.EVERYTHING, 50)


def test_many_threads_read_while_one_writes(tmp_path: Path) -> None:
    index = LanceIndex.create(tmp_path / "1", STAMP)
    for number in range(3):
        index.apply(writer.rotated(number))
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            hits = index.matching(["owl"], writer.EVERYTHING, 50)
            found = {(hit.segment.path, hit.segment.digest) for hit in hits}
            if len(hits) != 9 or len(found) != 3 or len(index.files()) != 3:
                wrong.append(hits)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        writer.rotate(index, 60)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong
    index.close()


def test_answers_stay_the_same_through_maintenance_and_rebuild(tmp_path: Path) -> None:
    index, memory = LanceIndex.create(tmp_path / "1", STAMP), MemoryIndex(STAMP)
    for number in range(6):
        changes = writer.written(number, files=400, changed=300)
        index.apply(changes)
        memory.apply(changes)
        if number == 3:
            assert writer.maintained(index)
    assert index.count() > 500
    assert_alike(index, memory)
    assert writer.maintained(index)
    assert_alike(index, memory)
    index.close()


def test_the_index_stays_small_over_many_edits(tmp_path: Path) -> None:
    index, memory = both(tmp_path / "1", range(0))
    first = writer.written(0, files=300, changed=300, longest=6)
    for number in range(151):
        changes = writer.written(number, files=300, changed=1, longest=6) if number else first
        index.apply(changes)
        memory.apply(changes)
        index.maintain()
    assert_alike(index, memory)
    index.close()
    fresh = LanceIndex.create(tmp_path / "2", STAMP)
    fresh.apply(Pass({p: (s, memory.segments(p)) for p, s in memory.files().items()}, memory._vectors))
    fresh.maintain()
    fresh.close()
    assert size(tmp_path / "1") < 2 * size(tmp_path / "2")


def test_maintenance_waits_until_enough_has_piled_up(tmp_path: Path) -> None:
    index, _ = both(tmp_path / "1", range(3))
    version = index._catalog.state().version
    assert not index.maintain()
    assert index._catalog.state().version == version
    index.close()


def test_clean_up_spares_young_versions(tmp_path: Path) -> None:
    index, _ = both(tmp_path / "1", range(3))
    table = index._database.open_table(lance_table.NAME)
    assert writer.maintained(index, timedelta(minutes=1))
    table.checkout_latest()
    spared = len(table.list_versions())
    assert writer.maintained(index)
    assert len(table.list_versions()) < spared
    index.close()


def test_failing_maintenance_is_said_and_changes_nothing(tmp_path: Path) -> None:
    index, memory = both(tmp_path / "1", range(4))
    lost = max((tmp_path / "1").rglob("data/*.lance"), key=lambda path: path.stat().st_mtime_ns)
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(IndexMaintenanceError, match="could not be compacted"):
        writer.maintained(index)
    lost.write_bytes(kept)
    assert_alike(index, memory)
    index.close()


@pytest.mark.parametrize("limit", [0, 3_000, 300_000])
def test_a_full_disk_is_said_and_changes_nothing(tmp_path: Path, limit: int) -> None:
    index, memory = both(tmp_path / "1", range(4))
    process = start("fill", tmp_path / "1", limit)
    said, _ = process.communicate()
    assert process.returncode == 1
    assert said.startswith("IndexWriteError: The index at ")
    assert_alike(index, memory)
    index.apply(writer.written(5))
    memory.apply(writer.written(5))
    assert_alike(index, memory)
    index.close()
    index = LanceIndex.open(tmp_path / "1")
    assert_alike(index, memory)
    index.close()


def test_a_folder_that_may_only_be_read_is_read(folder: Path) -> None:
    index, memory = both(folder, range(4))
    index.close()
    inside = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in inside:
        path.chmod(0o555)
    process = start("intrude", folder)
    said, problem = process.communicate()
    for path in inside:
        path.chmod(0o755)
    found = len(memory.matching(["owl"], writer.EVERYTHING, 100))
    assert (said.splitlines()[:1], problem) == ([f"{found} {memory.count()}"], "")
    assert said.splitlines()[1].startswith("IndexWriteError: The index at ")
    index = LanceIndex.open(folder)
    assert_alike(index, memory)
    index.close()


DAMAGE: dict[str, Callable[[bytes, int], bytes]] = {
    "one bit": lambda data, at: data[:at] + bytes([data[at] ^ 8]) + data[at + 1 :],
    "noise": lambda data, at: data[:at] + random.Random(at).randbytes(60) + data[at + 60 :],
    "cut short": lambda data, at: data[:at],
    "no bytes": lambda _data, _at: b"",
    "more bytes": lambda data, _: data + b"more",
}


@pytest.mark.parametrize("how", [*DAMAGE, "gone"])
def test_a_damaged_index_answers_right_or_not_at_all(tmp_path: Path, how: str) -> None:
    index, memory = both(tmp_path / "whole", range(5))
    writer.maintained(index)
    for number in range(5, 8):
        index.apply(writer.written(number))
        memory.apply(writer.written(number))
    index.close()
    chance = random.Random(how)
    names = sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*.*"))
    refused = 0
    for name in [name for name in names if (tmp_path / "whole" / name).is_file()] + [Path(CATALOG)] * 8:
        damaged = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", damaged)
        data = (damaged / name).read_bytes()
        if how == "gone":
            (damaged / name).unlink()
        else:
            (damaged / name).write_bytes(DAMAGE[how](data, chance.randrange(len(data))))
        refused += not _answers(damaged, memory)
        shutil.rmtree(damaged)
    assert refused


def _answers(folder: Path, memory: MemoryIndex) -> bool:
    """Say whether an index can be used; if so, it answers like the other."""
    try:
        index = LanceIndex.open(folder)
    except IndexUnusableError:
        return False
    try:
        assert_alike(index, memory)
    except IndexUnusableError:
        return False
    finally:
        index.close()
    return True


def test_one_changed_byte_of_the_table_is_always_noticed(tmp_path: Path) -> None:
    both(tmp_path / "1", range(3))[0].close()
    for path in sorted((tmp_path / "1").rglob("data/*.lance")):
        data = path.read_bytes()
        for at in range(0, len(data), len(data) // 7):
            path.write_bytes(DAMAGE["one bit"](data, at))
            with pytest.raises(IndexUnusableError, match="is damaged"):
                LanceIndex.open(tmp_path / "1")
        path.write_bytes(data)
    LanceIndex.open(tmp_path / "1").close()


def test_a_version_cleaned_away_while_it_is_read_is_replaced_by_the_next(tmp_path: Path) -> None:
    index = LanceIndex.create(tmp_path / "1", STAMP)
    index.apply(writer.rotated(0))
    seen: list[str] = []

    def ask(table: Any, _: object) -> list[str]:
        if not seen:
            index.apply(writer.rotated(3))
            assert writer.maintained(index)
        seen.append("asked")
        found = lance_table.of_files(table, ["memory/0.md"], ["digest"], 9)
        return list(found["digest"].to_pylist())

    assert index._read(ask) == ["pass 3"] * 3
    assert len(seen) == 2
    index.close()


def test_damage_in_use_is_said(tmp_path: Path) -> None:
    index, _ = both(tmp_path / "1", range(4))
    for path in (tmp_path / "1").rglob("data/*.lance"):
        path.unlink()
    index._table = None
    index._database = lance_table.connect(str(tmp_path / "1"))
    with pytest.raises(IndexUnusableError):
        index.matching(["owl"], writer.EVERYTHING, 9)
    with pytest.raises((IndexUnusableError, IndexWriteError)):
        index.apply(writer.written(4))
    index.close()


def test_an_import_loads_no_database_and_use_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, memu_fs.index.lance as lance\n"
        "assert not {'lancedb', 'pyarrow'} & set(sys.modules)\n"
        f"sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "import index_writer as writer, pathlib\n"
        "index = lance.LanceIndex.create(pathlib.Path(sys.argv[1]), writer.STAMP)\n"
        "index.apply(writer.written(1))\n"
        "assert index.matching(['owl', 'cat'], writer.EVERYTHING, 9)\n"
        "assert index.nearest(writer.np.ones(8, 'f4'), writer.EVERYTHING, 9)\n"
        "assert writer.maintained(index)\n"
        "index.close()\n"
    )
    argv = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "1")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
