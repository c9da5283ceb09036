"""Exact search against the vector index: recall at 20, times, and the time to make it.

Run as ``python tests/bench/ivf.py [--segments N] [--vectors FILE.npy] [--probes N]``. Without a file the vectors
are a mixture of Gaussians; with one, its last 40 rows are what is asked. ``--probes`` asks some partitions only.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memu_fs.index import lance_ivf
from memu_fs.index.base import SCHEMA, FileState, Pass, Segment, Stamp, Where
from memu_fs.index.catalog import Changes
from memu_fs.index.lance import LanceIndex

QUERIES, LIMIT, BATCH = 40, 20, 5_000
SHARES = {"": 0.5, "projects/a": 0.4485, "projects/b": 0.05, "projects/c": 0.0015}
FEW_ROWS = 10

Vectors = NDArray[np.float32]


def mixture(rows: int, dimension: int = 384) -> Vectors:
    """Make vectors in a thousand clusters of unequal size, with as much noise as there is between clusters."""
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(1000, dimension)).astype(np.float32)
    chosen = chance.choice(1000, rows, p=chance.dirichlet(np.full(1000, 0.5)))
    found = np.empty((rows, dimension), np.float32)
    for start in range(0, rows, BATCH):
        noise = chance.normal(size=(len(chosen[start : start + BATCH]), dimension))
        found[start : start + BATCH] = centres[chosen[start : start + BATCH]] + noise
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def scopes(rows: int) -> list[str]:
    """Give each row a scope; ten of them have one of their own."""
    chosen = np.random.default_rng(1).choice(len(SHARES), rows - FEW_ROWS, p=list(SHARES.values()))
    return ["agents/few"] * FEW_ROWS + [list(SHARES)[number] for number in chosen]


def written(start: int, vectors: Vectors, scoped: list[str]) -> Pass:
    """Make the pass that puts some rows, one file each."""
    put, given = {}, {}
    for row, (vector, scope) in enumerate(zip(vectors, scoped, strict=True), start):
        path, text = f"memory/{row}.md", f"word{row % 5000} " * 40
        cut = Segment(
            *(str(row), path, "memory", path, path, "", "", text, 1, 9, "active", "", "", scope, "digest", text)
        )
        put[path] = (FileState(path, "digest", path, "memory", path, scope, "active", "", 1, 1, None, None), [cut])
        given[cut.id] = vector
    return Pass(put, given)


def best(vectors: Vectors, scoped: list[str], where: Where, asked: Vectors) -> set[str]:
    """Give what must be found, by looking at every vector."""
    scores = vectors @ asked
    if where.scopes is not None:
        scores[[scope not in where.scopes for scope in scoped]] = -2
    size = min(LIMIT, int((scores > -2).sum()))
    return {str(row) for row in np.argsort(-scores)[:size]}


def measure(index: LanceIndex, where: Where, asked: Vectors, expected: list[set[str]]) -> str:
    """Give the times and the recall of some queries."""
    times, shares = [], []
    for vector, wanted in zip(asked, expected, strict=True):
        start = time.perf_counter()
        hits = index.nearest(vector, where, LIMIT)
        times.append((time.perf_counter() - start) * 1000)
        shares.append(len(wanted & {hit.segment.id for hit in hits}) / len(wanted))
    return f"{statistics.median(times):6.0f} ms, fastest {min(times):4.0f}, recall {statistics.mean(shares):.4f}"


def maintained(index: LanceIndex, many: int) -> float:
    """Do the maintenance, with the vector index made beyond some rows; give the seconds that took."""
    lance_ivf.MANY, lance_ivf.FEW = many, many
    index._catalog.publish(replace(index._catalog.state(), passes=1_000_000), Changes())
    start = time.perf_counter()
    index.maintain(timedelta(milliseconds=1))
    return time.perf_counter() - start


def compare(folder: Path, vectors: Vectors, asked: Vectors) -> None:
    """Print what each kind of search finds, and how fast."""
    scoped = scopes(len(vectors))
    index = LanceIndex.create(folder, Stamp(SCHEMA, 1, "made up", vectors.shape[1]))
    for start in range(0, len(vectors), BATCH):
        index.apply(written(start, vectors[start : start + BATCH], scoped[start : start + BATCH]))
    wheres = {"everything": Where(None, ("memory",))}
    for scope in (*SHARES, "agents/few"):
        wheres[f"{scoped.count(scope)} rows"] = Where((scope,), ("memory",), ("active",), "2026-01-01")
    expected = {name: [best(vectors, scoped, where, one) for one in asked] for name, where in wheres.items()}
    for kind, many in (("exact", len(vectors)), ("ivf", 0)):
        print(f"{len(vectors)} rows, {kind}: maintenance took {maintained(index, many):.1f} s")
        index.nearest(asked[0], wheres["everything"], LIMIT)
        for name, where in wheres.items():
            print(f"  {name:>12}: {measure(index, where, asked, expected[name])}", flush=True)
    index.close()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=100_000)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--probes", type=int, default=lance_ivf._EVERY)
    given = parser.parse_args()
    lance_ivf._EVERY = given.probes
    every = np.load(given.vectors) if given.vectors else mixture(given.segments + QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder) / "1", every[:-QUERIES], every[-QUERIES:])


if __name__ == "__main__":
    main()
