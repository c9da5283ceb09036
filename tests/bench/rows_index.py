"""Passes: the first, one that finds nothing, one that finds a paragraph, and a thousand of those."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import EXAMPLE_STORE, Clock, Row, Size, make_pages, median, text, timed

from memu_fs.config import load_config
from memu_fs.index.build import embedding_text
from memu_fs.index.embedder import EmbedderSettings
from memu_fs.index.minilm import find_minilm
from memu_fs.index.onnx import cores
from memu_fs.index.sidecar import Sidecar
from memu_fs.local import sidecar_for
from memu_fs.overview import folder_bytes
from memu_fs.store import Store

BATCHES = (1, 4, 8, 16)


def first_index(size: Size) -> Row:
    """Compare a first index with the embedder alone at its best, on the same texts."""
    store = _copies(size.folder / "first", size.copies)
    sidecar = sidecar_for(store, load_config())
    with timed() as clock:
        report = sidecar.update()
    index = sidecar.index()
    assert index is not None
    texts = [embedding_text(segment) for path in index.files() for segment in index.segments(path)]
    texts = sorted(set(texts), key=len)
    assert len(texts) == report.embedded
    alone = {batch: _embed_alone(texts, batch) for batch in BATCHES}
    best = min(alone, key=lambda batch: alone[batch].seconds)
    share, worked = alone[best].seconds / clock.seconds, alone[best].work / clock.work
    measured = (
        f"{share:.2f} x ({worked:.2f} x by work): {len(texts) / clock.seconds:.0f} a second, "
        f"alone {len(texts) / alone[best].seconds:.0f} (batches of {best}), {len(texts)} segments"
    )
    return Row("first index against the embedder alone", measured, "at least 0.9 x", share >= 0.9)


def start_up_scan(size: Size, sidecar: Sidecar) -> Row:
    """Time the scan of a store that has not changed, index opened anew."""

    def scan() -> None:
        sidecar.close()
        found = sidecar.scan()
        assert not found.behind

    sidecar.update()
    took = median(scan, size.rounds)
    return Row(f"start-up scan, {size.files:,} unchanged files", f"{took:.2f} s", "at most 1 s", took <= 1)


def one_paragraph(size: Size, sidecar: Sidecar) -> Row:
    """Time the pass after one paragraph of a large store changed, the model loaded."""
    chance = random.Random(3)
    sidecar.embedder.embed_query("warm")
    page = next((sidecar.store.root / "memory").rglob("page-7.md"))
    embedded = []

    def edit() -> None:
        page.write_text(f"# Page 7\n\n{text(45, chance)}\n")
        embedded.append(sidecar.update().embedded)

    took = median(edit, size.rounds)
    scanned = median(sidecar.scan, size.rounds)
    measured = f"{took * 1000:.0f} ms, of it {scanned * 1000:.0f} ms scan; embedded {max(embedded)}"
    met = took <= 0.15 and set(embedded) == {1}
    return Row(f"one paragraph of {size.files:,} files changed", measured, "at most 150 ms, 1 embedded", met)


def many_edits(size: Size) -> Row:
    """Compare the size of an index after many edits with a fresh one."""
    store = make_pages(size.folder / "edits", 200)
    sidecar = Sidecar(store, EmbedderSettings(embedder="hashing"))
    sidecar.update()
    chance = random.Random(5)
    pages = sorted(store.root.rglob("page-*.md"))
    for edit in range(size.edits):
        page = pages[edit % len(pages)]
        page.write_text(page.read_text().replace(".\n", f" {text(1, chance)}\n", 1))
        sidecar.update()
    after = folder_bytes(sidecar.location)
    fresh = Sidecar(store, sidecar.settings, size.folder / "fresh")
    fresh.update()
    anew = folder_bytes(fresh.location)
    measured = f"{after / anew:.2f} x: {after / 1e6:.2f} MB, fresh {anew / 1e6:.2f} MB"
    return Row(f"index size after {size.edits:,} edits", measured, "at most 2 x", after <= 2 * anew)


def _copies(root: Path, number: int) -> Store:
    """Make a store of the example store's pages, several times over, no two paragraphs the same."""
    for copy in range(number):
        for path in sorted(EXAMPLE_STORE.rglob("*.md")):
            track, _, rest = path.relative_to(EXAMPLE_STORE).as_posix().partition("/")
            if rest:
                target = root / track / f"copy-{copy}" / rest
                target.parent.mkdir(parents=True, exist_ok=True)
                body = path.read_text().replace(".\n", f" {copy}.\n").replace("# ", f"# {copy} ")
                target.write_text(body)
    return Store(root)


def _embed_alone(texts: list[str], batch: int) -> Clock:
    model = find_minilm().open()
    batches = [texts[start : start + batch] for start in range(0, len(texts), batch)]

    def embed(some: list[str]) -> int:
        return len(list(model.passage_embed(some, batch_size=batch)))

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(embed, batches[:4]))
        with timed() as clock:
            assert sum(pool.map(embed, batches)) == len(texts)
    return clock
