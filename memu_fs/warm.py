"""A memory that stays open: store, model, index and watcher in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from memu_fs.config import Config, load_config
from memu_fs.errors import MemuError
from memu_fs.index.base import Index
from memu_fs.index.embedder import EmbedderSettings
from memu_fs.index.held import HeldIndex
from memu_fs.index.lance import LanceIndex
from memu_fs.index.sidecar import Level, Sidecar
from memu_fs.index.sync import Progress, Report
from memu_fs.local import LocalMemory, embedder_settings, index_location
from memu_fs.store import Store
from memu_fs.watch import Watcher

#: How long a query may wait for the proof that no change is on its way, and for a pass that is running.
SETTLE_SECONDS = 0.1
TURN_SECONDS = 0.2
#: How much work a query may do by itself to be level; the pass of the watcher does the rest.
QUERY_SECONDS = 0.3


class WarmSidecar(Sidecar):
    """An index that a watcher keeps level: while nothing changed, a query looks at no file."""

    maintains_for_a_query = False

    def _hold(self, index: LanceIndex) -> Index:
        """Keep all of it in memory: a query through LanceDB costs more than everything else together."""
        return HeldIndex(index)

    def __init__(self, store: Store, settings: EmbedderSettings, location: Path | None, watcher: Watcher) -> None:
        super().__init__(store, settings, location)
        self.watcher = watcher
        self._turn = threading.RLock()
        self._opening = threading.RLock()
        self._known: Level | None = None
        self.last_pass: Report | None = None
        self.last_pass_at: float | None = None
        self.last_pass_ms = 0.0
        self.last_error: str | None = None

    def index(self) -> Index | None:
        """Give the published index; of several threads that find a new one, one opens it."""
        with self._opening:
            return super().index()

    def level(self, seconds: float) -> Level:
        """Say how level the index is; look at the files only when something may have changed."""
        settled = self.watcher.settle(SETTLE_SECONDS)
        if settled and self.watcher.is_quiet() and self._known is not None:
            return self._known
        if not self._turn.acquire(timeout=TURN_SECONDS):
            return self._behind()
        try:
            return self._look(min(seconds, QUERY_SECONDS))
        finally:
            self._turn.release()

    def update(self, *, force: bool = False, progress: Progress | None = None) -> Report:
        """Bring the index level as a whole."""
        started = time.perf_counter()
        with self._turn:
            self.watcher.take()
            self.last_pass = super().update(force=force, progress=progress)
            self.last_pass_at = time.time()
            self.last_pass_ms = round((time.perf_counter() - started) * 1000, 1)
            self._look(QUERY_SECONDS)
            return self.last_pass

    def run_pass(self) -> None:
        """Bring the index level after the watcher woke up; what goes wrong is kept for ``status``."""
        try:
            self.update()
            self.last_error = None
        except (MemuError, OSError) as error:
            self._known = None
            self.last_error = str(error)

    def close(self) -> None:
        """Let go of the open index once no pass is running."""
        with self._turn:
            super().close()

    def _look(self, seconds: float) -> Level:
        self.watcher.take()
        found = super().level(seconds)
        self._known = found if not found.behind and found.reason is None else None
        return found

    def _behind(self) -> Level:
        """Answer from what is published while a pass is running."""
        found = self.scan()
        return Level(found, found.behind, "the index is being brought level" if found.behind else None)


class WarmMemory(LocalMemory):
    """The memory of one store, held open."""

    warmth = "warm"

    def __init__(self, store: Store, config: Config, watcher: Watcher) -> None:
        super().__init__([store], config)
        sidecar = WarmSidecar(store, embedder_settings(config), index_location(config, store), watcher)
        self.sidecars = (sidecar,)
        self.sidecar = sidecar

    def load_model(self) -> None:
        """Load the model first: a question that comes during the first pass then waits for nothing else."""
        try:
            self.sidecar.embedder.embed_query("warm up")
        except MemuError as error:
            self.sidecar.last_error = str(error)

    def warm_up(self) -> None:
        """Ask once, so that model and index are loaded before the first real question."""
        try:
            self.progressive_retrieve("warm up", {"scope": "shared"})
        except MemuError as error:
            self.sidecar.last_error = str(error)

    def fits(self, stores: Sequence[Store], config: Config) -> bool:
        """Say whether a command means this store under the settings that this memory was opened with."""
        mine, theirs = self.sidecar, config
        return (
            [store.root for store in stores] == [mine.store.root]
            and embedder_settings(theirs) == mine.settings
            and (index_location(theirs, stores[0]) or stores[0].private / "index") == mine.location
            and stores[0].marker == mine.store.marker
        )

    def is_outdated(self) -> bool:
        """Say whether a daemon started now would be another one: its settings or the store's marker have changed."""
        try:
            return not self.fits([Store(self.sidecar.store.root)], load_config())
        except MemuError:
            return True
