"""Measure memu-fs against what it must reach: ``python tests/bench/run.py [--json] [--quick]``.

Ratios are taken in one run on one machine. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import rows_index
import rows_process
import rows_search
from measure import Row, Size, make_pages, open_indexed


def rows(size: Size) -> Iterator[Row]:
    """Measure one row after the other."""
    yield rows_process.floor(size)
    yield rows_process.retrieve_example(size)
    large = open_indexed(make_pages(size.folder / "large", size.files))
    yield rows_process.retrieve_large(size, large)
    yield rows_index.start_up_scan(size, large)
    yield rows_index.one_paragraph(size, large)
    large.close()
    yield rows_index.many_edits(size)
    yield rows_index.first_index(size)
    yield from rows_search.searches(size)


def main() -> int:
    """Print the table; exit status 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each row")
    parser.add_argument("--quick", action="store_true", help="smaller stores: does it run, not how fast is it")
    wanted = parser.parse_args()
    done = []
    with tempfile.TemporaryDirectory() as folder:
        size = Size(Path(folder))
        if wanted.quick:
            size = Size(Path(folder), files=500, segments=(500, 2_000), copies=1, edits=50, rounds=3)
        for row in rows(size):
            done.append(row)
            print(_as_json(row) if wanted.json else _as_text(row), flush=True)
    return int(any(row.is_met is False for row in done))


def _as_json(row: Row) -> str:
    return json.dumps(asdict(row) | {"verdict": row.verdict})


def _as_text(row: Row) -> str:
    return f"{row.name:<46} {row.measured:<70} {row.target:<28} {row.verdict}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
