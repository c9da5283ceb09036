"""Whole processes, as a person or a hook starts them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from measure import EXAMPLE_STORE, Row, Size, median, timed

from memu_fs.index.sidecar import Sidecar


def floor(size: Size) -> Row:
    """Time what no Python program can be faster than."""
    command = [sys.executable, "-I", "-S", "-c", "import socket, json"]
    took = median(lambda: subprocess.run(command, check=True), size.rounds * 2)
    return Row("Python floor: socket and json imported", f"{took * 1000:.0f} ms")


def retrieve_example(size: Size) -> Row:
    """Time a question to the example store with no daemon running."""
    root = size.folder / "example"
    shutil.copytree(EXAMPLE_STORE, root)
    _run("index", "--store", str(root))
    return _retrieve("retrieve, no daemon, example store", root, "rotate the probe certificates", size)


def retrieve_large(size: Size, sidecar: Sidecar) -> Row:
    """Time a question to a large store with no daemon running."""
    return _retrieve(
        f"retrieve, no daemon, {size.files:,} segments", sidecar.store.root, "where was the page about that", size
    )


def _retrieve(name: str, root: Path, query: str, size: Size) -> Row:
    with timed() as clock:
        took = median(lambda: _run("retrieve", "--store", str(root), "--scope", "all", "--json", query), size.rounds)
    work = clock.work / (size.rounds + 1)
    return Row(name, f"{took:.2f} s, of it {work:.2f} s at work", "at most 2.5 s", took <= 2.5)


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "memu_fs", *arguments], check=True, stdout=subprocess.DEVNULL)
