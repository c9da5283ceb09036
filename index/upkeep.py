"""Maintain a large index in a process of its own, so that its memory goes back when it ends.

Making a vector index over 100,000 segments takes half a gigabyte that a long-lived process would keep.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from memu_fs.errors import MemuError
from memu_fs.index.lance import LanceIndex
from memu_fs.index.lance_pass import IndexMaintenanceError

#: Smaller indexes are maintained where they are: a process start costs more than it saves.
LARGE = 20_000


def maintain_apart(folder: Path, keep: timedelta) -> None:
    """Maintain the index in ``folder`` in a child process and wait for its end. For the writer, under its lock.

    Raises:
        IndexMaintenanceError: when it did not succeed; what is published stays.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memu_fs.index.upkeep", str(folder), str(keep.total_seconds())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )
    if done.returncode:
        raise IndexMaintenanceError(folder, done.stderr.strip()[-500:] or f"the process ended with {done.returncode}")


def main(folder: str, keep: str) -> int:
    """Maintain one index; the reason of a failure goes to standard error."""
    try:
        index = LanceIndex.open(Path(folder))
        try:
            index.maintain(timedelta(seconds=float(keep)))
        finally:
            index.close()
    except MemuError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
