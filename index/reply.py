"""Reads what an embeddings server answered; whatever is wrong with it is a ValueError that says what."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_vectors(content: bytes, count: int, dimension: int | None) -> NDArray[np.float64]:
    """Read ``count`` vectors, in the order of the texts they answer."""
    items = _items(content)
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors for {count} texts")
    rows = [_row(item) for item in _ordered(items)]
    sizes = {len(row) for row in rows}
    if len(sizes) > 1:
        raise ValueError(f"vectors of different lengths: {sorted(sizes)}")
    if dimension is not None and sizes != {dimension}:
        raise ValueError(f"vectors of {sizes.pop()} numbers where {dimension} were expected")
    return np.stack(rows)


def _items(content: bytes) -> list[dict[str, Any]]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("it has no list of embeddings")
    return items


def _ordered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Order by ``index``; a server that gives none at all answers in order."""
    places = [item.get("index") for item in items]
    if all(place is None for place in places):
        return items
    numbers = [place for place in places if isinstance(place, int)]
    if sorted(numbers) != list(range(len(items))):
        raise ValueError("its indexes do not match the texts")
    return [item for _, item in sorted(zip(numbers, items, strict=True), key=lambda pair: pair[0])]


def _row(item: dict[str, Any]) -> NDArray[np.float64]:
    try:
        row = np.array(item.get("embedding"))
    except ValueError as error:
        raise ValueError("a vector is not a list of numbers") from error
    if row.ndim != 1 or not len(row) or row.dtype.kind not in "fiu":
        raise ValueError("a vector is not a list of numbers")
    if not np.isfinite(row).all():
        raise ValueError("a vector holds a number that is not finite")
    return row.astype(np.float64)
