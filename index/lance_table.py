"""The LanceDB table of an index: how it is opened, what its columns are, how it is asked."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memu_fs.index import lance_ivf
from memu_fs.index.base import Pass, Segment, Vector, Where
from memu_fs.index.catalog import Part

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "segments"
OWNER = "file_path"  #: of the recall file a row goes with; a segment of a skill's other file has its own path
VECTOR = "vector"
COLUMNS = tuple(field.name for field in fields(Segment))

_HINT = "latest_version_hint.json"  # the one file that LanceDB writes again; it does without
_MEGABYTE = 1 << 20
_BATCH = 500  # rows that are read at once; what more take stays with LanceDB
_NUMBERS = {"line_start", "line_end"}


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of the table."""

    owners: list[str]  #: path of the recall file that each goes with
    segments: list[Segment]
    vectors: NDArray[np.float32]  #: one a row


class TableError(Exception):
    """LanceDB could not do what it was asked."""


def connect(uri: str) -> Any:
    """Open a LanceDB database: a folder or any address that LanceDB knows."""
    # Both are read when the library is loaded: what it would print is raised as well.
    os.environ.setdefault("LANCE_LOG", "off")
    os.environ.setdefault("LANCEDB_LOG", "off")
    import lancedb

    # Its own limits are gigabytes.
    session = lancedb.Session(index_cache_size_bytes=256 * _MEGABYTE, metadata_cache_size_bytes=64 * _MEGABYTE)
    return lancedb.connect(uri, session=session)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn everything that LanceDB raises into a TableError; its panics are no ``Exception``."""
    import pyarrow as pa

    try:
        yield
    except (RuntimeError, OSError, ValueError, pa.ArrowException) as error:
        raise TableError(_sentence(error)) from error
    except BaseException as error:
        if type(error).__name__ not in {"PanicException", "RustPanic"}:
            raise
        raise TableError("LanceDB panicked") from error


def _sentence(error: Exception) -> str:
    """Give what an error says, without the place in LanceDB's own source."""
    return str(error).split("\n", 1)[0].partition(", /")[0] or type(error).__name__


def schema(dimension: int) -> pa.Schema:
    """Give the columns of the table; no vectors where ``dimension`` is 0."""
    import pyarrow as pa

    columns = [pa.field(name, pa.int32() if name in _NUMBERS else pa.string()) for name in COLUMNS]
    columns.append(pa.field(OWNER, pa.string()))
    if dimension:
        columns.append(pa.field(VECTOR, pa.list_(pa.float32(), dimension)))
    return pa.schema(columns)


def create(database: Any, dimension: int) -> Any:
    """Make an empty table whose ``terms`` are searched word by word, as they were analysed."""
    from lancedb.index import FTS

    table = database.create_table(NAME, schema=schema(dimension))
    words = FTS(
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        with_position=False,
    )
    table.create_index("terms", config=words)
    return table


def check(table: Any, dimension: int, segments: int) -> None:
    """Refuse a table with other columns or types, another number of rows, or no index of words."""
    with reported():
        found, count, indices = table.schema, table.count_rows(), table.list_indices()
    if not found.equals(schema(dimension)):
        raise TableError("its columns are of another version")
    if count != segments:
        raise TableError(f"it has {count} rows and should have {segments}")
    if not any(index.columns == ["terms"] and index.index_type == "FTS" for index in indices):
        raise TableError("its words are not indexed")


def nearest(table: Any, vector: Vector, where: Where, size: int) -> pa.Table:
    """Give the visible rows nearest to a vector, nearest first; none is missed."""
    with reported():
        query = lance_ivf.ask(table.search(vector, vector_column_name=VECTOR, query_type="vector"))
        query = query.distance_type("cosine").where(visible(where), prefilter=True)
        return query.select([*COLUMNS, VECTOR, "_distance"]).limit(size).to_arrow()


def matching(table: Any, words: Sequence[str], where: Where, size: int) -> pa.Table:
    """Give the rows that hold one of the words at least, best first by LanceDB's own score."""
    from lancedb.query import MatchQuery

    asked = MatchQuery(" ".join(words), "terms")  # type: ignore[call-arg]  # it hides its defaults
    with reported():
        query = table.search(asked, query_type="fts")
        query = query.where(visible(where), prefilter=True)
        return query.select([*COLUMNS, "_score"]).limit(size).to_arrow()


def of_files(table: Any, paths: Iterable[str], columns: Sequence[str], size: int) -> pa.Table:
    """Give the rows that go with some files, at most ``size``."""
    with reported():
        query = table.search().where(one_of(OWNER, paths))
        return query.select(list(columns)).limit(max(size, 1)).to_arrow()


def batches(table: Any, dimension: int, size: int, paths: Sequence[str] | None) -> Iterator[Rows]:
    """Give all ``size`` rows, or those that go with some files, a batch at a time.

    Every batch is a query of its own: one query would read far ahead, and hold as much again.
    """
    wanted = [*COLUMNS, OWNER, *([VECTOR] if dimension else [])]
    with reported():
        query = table.search().select(wanted)
        if paths is not None:
            yield _rows(query.where(one_of(OWNER, paths)).limit(max(size, 1)).to_arrow(), dimension)
            return
        for start in range(0, size, _BATCH):
            yield _rows(query.offset(start).limit(_BATCH).to_arrow(), dimension)


def _rows(found: pa.Table, dimension: int) -> Rows:
    given = vectors(found, dimension) if dimension else np.zeros((found.num_rows, 0), np.float32)
    return Rows(found[OWNER].to_pylist(), segments(found), given)


def bytes_in_use(table: Any) -> int:
    """Give the size of what the newest version of the table needs, by and large."""
    with reported():
        return int(table.stats()["total_bytes"])


def rows(changes: Pass, given: Mapping[str, Vector], dimension: int) -> pa.Table:
    """Give the rows of a pass."""
    import pyarrow as pa

    owned = [(path, segment) for path, (_, segments) in changes.put.items() for segment in segments]
    layout = schema(dimension)
    arrays = [pa.array([getattr(s, name) for _, s in owned], layout.field(name).type) for name in COLUMNS]
    arrays.append(pa.array([path for path, _ in owned], pa.string()))
    if dimension:
        flat = np.concatenate([given[s.id] for _, s in owned])
        arrays.append(pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimension))
    return pa.Table.from_arrays(arrays, schema=layout)


def segments(found: pa.Table, rows: Sequence[int] | None = None) -> list[Segment]:
    """Give the segments in some rows of an answer, or in all."""
    import pyarrow as pa

    chosen = found if rows is None else found.take(pa.array(rows, pa.int64()))
    return [Segment(**row) for row in chosen.select(list(COLUMNS)).to_pylist()]


def vectors(found: pa.Table, dimension: int) -> NDArray[np.float32]:
    """Give the vectors in some rows, one a row."""
    chunks = [np.asarray(chunk.flatten(), dtype=np.float32) for chunk in found[VECTOR].chunks]
    return np.concatenate([np.zeros(0, np.float32), *chunks]).reshape(-1, dimension)


def visible(where: Where) -> str:
    """Give the SQL condition for what a search may see."""
    conditions = [one_of("track", where.tracks)]
    if where.scopes is not None:
        conditions.append(one_of("scope", where.scopes))
    if where.statuses is not None:
        conditions.append(one_of("status", where.statuses))
    if where.today is not None:
        today = quoted(where.today)
        conditions.append(f"valid_from <= {today} AND (valid_until = '' OR valid_until >= {today})")
    return " AND ".join(conditions)


def one_of(column: str, values: Iterable[str]) -> str:
    """Give the SQL condition that a column has one of some values."""
    listed = ", ".join(map(quoted, values))
    return f"{column} IN ({listed})" if listed else "false"


def quoted(value: str) -> str:
    """Give a text as SQL."""
    return "'" + value.replace("'", "''") + "'"


def parts(folder: Path, known: Mapping[str, Part]) -> dict[str, Part]:
    """Give every file of the table, reading those that are not known."""
    found = {}
    for where, _, names in os.walk(folder / f"{NAME}.lance"):
        inside = Path(where).relative_to(folder).as_posix()
        for name in names:
            if name != _HINT:
                part = f"{inside}/{name}"
                found[part] = known.get(part) or read_part(folder / part)
    return found


def read_part(path: Path) -> Part:
    """Give the size and the checksum of a file."""
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(_MEGABYTE):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return Part(size, crc)
