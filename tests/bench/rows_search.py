"""Searches in large indexes with made-up vectors, in one warm process."""

from __future__ import annotations

import random
from pathlib import Path

from measure import WEIGHTS, WORDS, Row, Size, median, vectors

from memu_fs.index.base import SCHEMA, FileState, Pass, Segment, Stamp, Where
from memu_fs.index.lance import LanceIndex

DIMENSION = 384
EVERYTHING = Where(None, ("memory", "skill", "workspace"))
_FILES_A_PASS = 10_000


def searches(size: Size) -> list[Row]:
    """Time the nearest and the matching segments at two sizes, and compare the two."""
    times = {number: _times(size, number) for number in size.segments}
    rows = [
        Row(f"nearest and matching, {number:,} segments", f"{near * 1000:.0f} ms and {match * 1000:.0f} ms")
        for number, (near, match) in times.items()
    ]
    small, large = (sum(both) for both in times.values())
    return [*rows, Row("the larger against the smaller", f"{large / small:.1f} x")]


def _times(size: Size, number: int) -> tuple[float, float]:
    index = _make(size.folder / f"search-{number}", number)
    asked, words = iter(vectors(997, DIMENSION)), random.Random(11)
    near = median(lambda: index.nearest(next(asked), EVERYTHING, 200), size.rounds * 2)
    match = median(lambda: index.matching(words.choices(WORDS, WEIGHTS, k=6), EVERYTHING, 200), size.rounds * 2)
    index.close()
    return near, match


def _make(folder: Path, number: int) -> LanceIndex:
    index = LanceIndex.create(folder, Stamp(SCHEMA, 1, "made-up", DIMENSION))
    chance, made = random.Random(number), vectors(number, DIMENSION)
    for start in range(0, number, _FILES_A_PASS):
        cut = [_segment(place, chance) for place in range(start, min(start + _FILES_A_PASS, number))]
        put = {segment.path: (_state(segment), [segment]) for segment in cut}
        index.apply(Pass(put, {segment.id: made[start + place] for place, segment in enumerate(cut)}))
    index.maintain()
    return index


def _segment(place: int, chance: random.Random) -> Segment:
    terms = " ".join(chance.choices(WORDS, WEIGHTS, k=45))
    path = f"memory/page-{place}.md"
    return Segment(
        id=f"{place:08}",
        file_id=path,
        track="memory",
        name=f"page-{place}",
        path=path,
        heading="Page",
        prefix="Page",
        text=terms,
        line_start=1,
        line_end=3,
        status="active",
        valid_from="",
        valid_until="",
        scope="",
        digest=path,
        terms=terms,
    )


def _state(segment: Segment) -> FileState:
    path = segment.path
    return FileState(path, path, path, "memory", segment.name, "", "active", "hints", 1, 1, None, None)
