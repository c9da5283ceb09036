"""Kill ``memu-fs index`` again and again, at random moments and with edits in between; compare with a rebuild.

Run as ``python tests/soak/kill_index.py [KILLS]``: it prints one line. The tests use its functions.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from memu_fs.index.base import Index, IndexBusyError, Where
from memu_fs.index.embedder import EmbedderSettings
from memu_fs.index.folders import writer_lock
from memu_fs.index.sidecar import Sidecar
from memu_fs.index.terms import analyse
from memu_fs.store import Store

FILES = 60
EVERYTHING = Where(None, ("memory", "skill", "workspace"))
QUERIES = ("the lantern keeper", "salt on the northern mole", "boat 7", "kettle rope")
_WORDS = ("lantern", "keeper", "mole", "salt", "boat", "gull", "rope", "northern", "kettle", "fog", "bell", "tide")


def make_store(root: Path, chance: random.Random) -> Path:
    """Make a store of small files; every one of them holds the word lantern."""
    (root / "memory").mkdir(parents=True)
    for number in range(FILES):
        _page(root, number).write_text(_text(chance))
    return root


def edit(root: Path, chance: random.Random) -> None:
    """Write, remove and add a few files."""
    for number in chance.sample(range(FILES), 6):
        page = _page(root, number)
        if page.exists() and chance.random() < 0.3:
            page.unlink()
        else:
            page.write_text(_text(chance))


def kill_often(root: Path, settings: EmbedderSettings, kills: int, seed: int) -> int:
    """Start a pass after every edit and kill it somewhere on its way; say how many were still at it.

    After each kill, readers find a published pass or none, and never an error.
    """
    chance = random.Random(seed)
    environment = {**os.environ, "MEMU_FS_EMBEDDER": settings.embedder}
    longest = _run(root, environment) / 2
    hit = 0
    for number in range(kills):
        edit(root, chance)
        options = ["--rebuild"] if number % 4 == 3 else []
        child = _start(root, environment, options)
        _await_writer(root, child)
        time.sleep(chance.uniform(0, longest))
        is_at_it = child.poll() is None
        child.kill()
        child.communicate()
        hit += is_at_it
        longest *= 1.15 if is_at_it else 0.6  # machines are faster and slower from one moment to the next
        sidecar = Sidecar(Store(root), settings)
        index = sidecar.index()
        assert index is None or sum(state.segments for state in index.files().values()) == index.count()
        sidecar.close()
    _run(root, environment)
    return hit


def check_equals_rebuild(root: Path, settings: EmbedderSettings) -> None:
    """Hold the published index to one that is made from nothing."""
    store = Store(root)
    here = Sidecar(store, settings)
    assert here.update().changed == 0
    with tempfile.TemporaryDirectory() as folder:
        anew = Sidecar(store, settings, Path(folder))
        anew.update()
        one, other = here.index(), anew.index()
        assert one is not None
        assert other is not None
        assert _known(one) == _known(other)
        for query in QUERIES:
            vector = here.embedder.embed_query(query)
            assert one.nearest(vector, EVERYTHING, 10) == other.nearest(vector, EVERYTHING, 10)
            assert one.matching(analyse(query), EVERYTHING, 10) == other.matching(analyse(query), EVERYTHING, 10)
        anew.close()
    here.close()


def _known(index: Index) -> dict[str, object]:
    return {path: (replace(state, hints="", read_at=0), index.segments(path)) for path, state in index.files().items()}


def _page(root: Path, number: int) -> Path:
    return root / "memory" / f"page-{number}.md"


def _text(chance: random.Random) -> str:
    lines = (" ".join(chance.choices(_WORDS, k=12)).capitalize() + f" {chance.randrange(100)}." for _ in range(4))
    return f"# Lantern {chance.randrange(1000)}\n\n" + "\n\n".join(lines) + "\n"


def _start(root: Path, environment: dict[str, str], options: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "memu_fs", "index", "--store", str(root), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _await_writer(root: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait until a pass has the writer lock, or has ended."""
    while child.poll() is None:
        try:
            with writer_lock(root / ".memu" / "index", timeout=0):
                time.sleep(0.005)
        except IndexBusyError:
            return
        time.sleep(0.02)


def _run(root: Path, environment: dict[str, str]) -> float:
    """Run a whole pass; say how long it took."""
    started = time.monotonic()
    child = _start(root, environment, [])
    _, said = child.communicate()
    assert child.returncode == 0, said.decode()
    return time.monotonic() - started


def main() -> None:
    """Kill with the model that is shipped, and say how it went."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        root = make_store(Path(folder) / "store", random.Random(1))
        settings = EmbedderSettings()
        started = time.monotonic()
        hit = kill_often(root, settings, kills, seed=kills)
        check_equals_rebuild(root, settings)
    took = time.monotonic() - started
    print(f"ok: {kills} kills, {hit} of them before the pass had ended, in {took:.0f} s; the index is as a rebuild")


if __name__ == "__main__":
    main()
