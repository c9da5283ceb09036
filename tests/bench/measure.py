"""What the rows of the benchmark share: timing, stores of made-up pages, and indexes with made-up vectors."""

from __future__ import annotations

import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memu_fs.config import load_config
from memu_fs.index.base import Vector
from memu_fs.index.build import build, embedding_text, text_digest
from memu_fs.index.sidecar import Sidecar
from memu_fs.index.vector_cache import VectorCache
from memu_fs.local import sidecar_for
from memu_fs.store import Store

EXAMPLE_STORE = Path(__file__).parents[2] / "example-store"
_SYLLABLES = [a + b for a in "bdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "ar", "en", "is", "ol")]
_CHANCE = random.Random(2026)
WORDS = sorted({"".join(_CHANCE.choices(_SYLLABLES, k=_CHANCE.randint(1, 4))) for _ in range(8_000)})
#: Few words are common and most are rare, as in any text.
WEIGHTS = [1 / (place + 3) for place in range(len(WORDS))]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    measured: str
    target: str = ""
    is_met: bool | None = None  #: ``None`` where there is nothing to reach

    @property
    def verdict(self) -> str:
        """The judgement as a word."""
        return {True: "met", False: "MISSED", None: ""}[self.is_met]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    folder: Path  #: for the stores that are made
    files: int = 10_000
    segments: tuple[int, int] = (10_000, 100_000)
    copies: int = 14  #: of the example store, for a first index
    edits: int = 1_000
    rounds: int = 10


class Clock:
    """How long a block took, and how long processors worked for it, child processes that ended included."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), self._used()
        self.seconds = self.work = 0.0

    def stop(self) -> None:
        """Stand still."""
        self.seconds, self.work = time.perf_counter() - self._start[0], self._used() - self._start[1]

    @staticmethod
    def _used() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def timed() -> Iterator[Clock]:
    """Time a block."""
    clock = Clock()
    yield clock
    clock.stop()


def median(work: Callable[[], object], rounds: int) -> float:
    """Give the median time of some work in seconds, after one round that is not counted."""
    times = []
    for _ in range(rounds + 1):
        with timed() as clock:
            work()
        times.append(clock.seconds)
    return statistics.median(times[1:])


def text(words: int, chance: random.Random) -> str:
    """Make up a text."""
    return " ".join(chance.choices(WORDS, WEIGHTS, k=words)).capitalize() + "."


def vectors(number: int, dimension: int = 384) -> Vector:
    """Make up vectors of length one."""
    rows = np.random.default_rng(number).standard_normal((number, dimension), dtype=np.float32)
    made: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def make_pages(root: Path, number: int) -> Store:
    """Make a store of pages with one paragraph, dated long ago."""
    chance = random.Random(number)
    for page in range(number):
        path = root / "memory" / f"area-{page % 100}" / f"page-{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Page {page}\n\n{text(45, chance)}\n")
    return Store(root)


def open_indexed(store: Store) -> Sidecar:
    """Index a store with the model of the settings; the vectors are made up, so nothing is embedded."""
    sidecar = sidecar_for(store, load_config())
    built = (build(store.read(entry), store.id_of(entry.track, entry.name)) for entry in store.walk().entries)
    keys = [text_digest(embedding_text(segment)) for item in built for segment in item.segments]
    made = vectors(len(keys), sidecar.embedder.dimension)
    VectorCache(store.private / "cache" / "vectors.sqlite").put(
        sidecar.embedder.space, dict(zip(keys, made, strict=True))
    )
    report = sidecar.update()
    assert report.embedded == 0
    return sidecar
