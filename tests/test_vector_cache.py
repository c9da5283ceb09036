from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from memu_fs.index.base import Vector
from memu_fs.index.vector_cache import VectorCache

SPACE = "hashing:4"


def key(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def vectors(*texts: object, dimension: int = 4) -> dict[str, Vector]:
    return {key(text): np.full(dimension, hash(str(text)) % 97 / 7, np.float32) for text in texts}


def same(one: dict[str, Vector], other: dict[str, Vector]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "vectors.sqlite"


def test_what_was_put_is_got_in_a_later_process_too(path: Path) -> None:
    put = vectors("owl", "cat", "計画")
    cache = VectorCache(path)
    assert cache.get(SPACE, list(put)) == {}
    cache.put(SPACE, put)
    cache.close()
    again = VectorCache(path)
    found = again.get(SPACE, [*put, key("dog")])
    assert same(found, put)
    assert {vector.dtype for vector in found.values()} == {np.dtype(np.float32)}
    again.close()


def test_spaces_never_mix(path: Path) -> None:
    cache = VectorCache(path)
    cache.put("one", vectors("owl"))
    cache.put("two", vectors("owl", dimension=8))
    assert cache.get("one", [key("owl")])[key("owl")].shape == (4,)
    assert cache.get("two", [key("owl")])[key("owl")].shape == (8,)
    assert cache.get("three", [key("owl")]) == {}
    cache.close()


def test_a_vector_put_again_is_replaced(path: Path) -> None:
    cache = VectorCache(path)
    cache.put(SPACE, {key("owl"): np.zeros(4, np.float32)})
    cache.put(SPACE, vectors("owl"))
    assert same(cache.get(SPACE, [key("owl")]), vectors("owl"))
    cache.close()


def test_many_vectors_at_once(path: Path) -> None:
    cache = VectorCache(path)
    many = vectors(*range(5000))
    cache.put(SPACE, many)
    assert same(cache.get(SPACE, many.keys()), many)
    cache.put(SPACE, {})
    assert cache.get(SPACE, []) == {}
    cache.close()


def test_trimming_spares_what_is_in_use_and_the_newest_others(path: Path) -> None:
    cache = VectorCache(path)
    for text in ("a", "b", "c", "d", "e"):
        cache.put(SPACE, vectors(text))
    assert cache.trim(SPACE, {key("a")}, spare=2) == 2
    assert cache.get(SPACE, [key(text) for text in "abcde"]).keys() == {key("a"), key("d"), key("e")}
    assert cache.trim(SPACE, {key("a")}, spare=2) == 0
    assert cache.trim(SPACE, {key("a")}, spare=0) == 2
    cache.close()


def test_trimming_bounds_other_spaces_too(path: Path) -> None:
    cache = VectorCache(path)
    cache.put("old", vectors(*range(20)))
    cache.put("new", vectors(*range(20)))
    assert cache.trim("new", set(vectors(*range(20))), spare=5) == 15
    assert len(cache.get("old", list(vectors(*range(20))))) == 5
    assert len(cache.get("new", list(vectors(*range(20))))) == 20
    cache.close()


@pytest.mark.parametrize("what", ["noise", "cut short", "nothing", "another table"])
def test_a_damaged_cache_is_made_anew(path: Path, what: str) -> None:
    cache = VectorCache(path)
    cache.put(SPACE, vectors(*range(1000)))
    cache.close()
    data = path.read_bytes()
    if what == "another table":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE vectors (key TEXT)")
        other.close()
    else:
        path.write_bytes({"noise": b"no database" * 999, "cut short": data[:5000], "nothing": b""}[what])
    cache = VectorCache(path)
    assert cache.get(SPACE, list(vectors("owl"))) == {}
    cache.put(SPACE, vectors("owl"))
    assert same(cache.get(SPACE, [key("owl")]), vectors("owl"))
    cache.close()
    cache = VectorCache(path)
    assert same(cache.get(SPACE, [key("owl")]), vectors("owl"))
    cache.close()


def test_a_vector_whose_bytes_changed_on_disk_is_not_given(path: Path) -> None:
    cache = VectorCache(path)
    marked = np.array([1234.5, 6.0, 7.0, 8.0], np.float32)
    cache.put(SPACE, {key("owl"): marked, **vectors("cat")})
    cache.close()
    data = path.read_bytes()
    assert data.count(marked.tobytes()) == 1
    path.write_bytes(data.replace(marked.tobytes(), b"\0" * 16))
    cache = VectorCache(path)
    assert same(cache.get(SPACE, [key("owl"), key("cat")]), vectors("cat"))
    cache.close()


def test_a_place_that_cannot_be_written_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file" / "vectors.sqlite", tmp_path):
        cache = VectorCache(path)
        cache.put(SPACE, vectors("owl"))
        assert cache.get(SPACE, [key("owl")]) == {}
        assert cache.trim(SPACE, set(), 0) == 0
        cache.close()
    assert tmp_path.is_dir()


def test_threads_and_processes_share_a_cache(path: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np\n"
        "from memu_fs.index.vector_cache import VectorCache\n"
        "cache = VectorCache(pathlib.Path(sys.argv[1]))\n"
        "for n in range(50):\n"
        "    cache.put('hashing:4', {f'{sys.argv[2]} {n}': np.ones(4, np.float32)})\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(2)]
    cache = VectorCache(path)

    def put(thread: int) -> None:
        for n in range(50):
            cache.put(SPACE, vectors(f"{thread} {n}"))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    expected = [f"{n} {m}" for n in range(2) for m in range(50)]
    assert len(cache.get(SPACE, expected)) == 100
    assert len(cache.get(SPACE, [key(text) for text in expected])) == 100
    cache.close()
