"""The vector index of the table: made where exact search gets slow, and asked so that it misses nothing.

It keeps the vectors together, by partition, and in memory. That alone makes it several times as fast as
exact search through the table, so every partition is asked: nothing is missed, however few rows are visible.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

MANY = 30_000  #: rows; with more, the index is made
FEW = 15_000  #: rows; with fewer, it is dropped again

_EVERY = 1 << 20  # partitions; more than any index has
_PARTITION = 4096  # rows; smaller ones take longer to make, and all are asked anyway
_PARTS = 8  # each maintenance adds one, with partitions of its own; with more, the index is made anew


def level(table: Any, column: str, rows: int) -> None:
    """Make the index, make it anew or drop it, if that is due. It is found by column and type, never by name."""
    found = [index for index in table.list_indices() if index.columns == [column]]
    wanted = rows > MANY or (bool(found) and rows >= FEW)
    if wanted and len(found) == 1 and _is_fit(found[0]):
        return
    for index in found:
        table.drop_index(index.name)
    if wanted:
        _make(table, column)


def ask(query: Any) -> Any:
    """Let a query by vector look into every partition; without an index it looks at every row anyway."""
    return query.maximum_nprobes(0).minimum_nprobes(_EVERY)


def _is_fit(index: Any) -> bool:
    return index.index_type == "IvfFlat" and (index.num_segments or 0) <= _PARTS


def _make(table: Any, column: str) -> None:
    from lancedb.index import IvfFlat

    table.create_index(column, config=IvfFlat(distance_type="cosine", target_partition_size=_PARTITION))
    _give_back()


def _give_back() -> None:
    """Return freed memory to the system: glibc keeps twice what the vectors take, in a process that lives on."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)
