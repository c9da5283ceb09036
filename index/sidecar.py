"""A store's index as a whole: open it, bring it level, rebuild it beside itself, publish."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memu_fs.errors import MemuError
from memu_fs.event_log import record
from memu_fs.index import folders
from memu_fs.index.base import SCHEMA, Index, IndexBusyError, IndexUnusableError, Stamp
from memu_fs.index.embedder import Embedder, EmbedderSettings, make_embedder
from memu_fs.index.lance import LanceIndex
from memu_fs.index.scan import Scan, scan
from memu_fs.index.slice import SLICER_VERSION
from memu_fs.index.sync import Embedding, Progress, Report, bring_level
from memu_fs.index.terms import TERMS_VERSION
from memu_fs.index.vector_cache import VectorCache
from memu_fs.marker import MarkerError, NewerFormatError
from memu_fs.store import Store, make_private

#: Slices and terms are one version to an index: either change needs a rebuild.
CUT_VERSION = SLICER_VERSION * 1000 + TERMS_VERSION


class NotWritableError(MemuError):
    """The index cannot be kept where it should be."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"The index folder {folder} cannot be written: {reason}. "
            "Move it with: memu-fs config set index_location FOLDER"
        )


@dataclass(frozen=True, slots=True)
class Level:
    """How level the index is before a retrieve."""

    scan: Scan
    behind: tuple[str, ...]  #: paths of the recall files that it is not level with
    reason: str | None  #: why it could not be brought level, or is searched by keywords alone


class Sidecar:
    """The index of one store on this device."""

    maintains_for_a_query = True  #: a daemon keeps that off the path of a query

    def __init__(self, store: Store, settings: EmbedderSettings, location: Path | None = None) -> None:
        self.store = store
        self.settings = settings
        self.location = location or store.private / "index"
        self._open: Index | None = None
        self._folder: Path | None = None

    @cached_property
    def _cut_version(self) -> int:
        """Ids depend on the store's own, and what is left out on the secrets it allows: all of it is one version."""
        marker = self.store.marker
        said = "\0".join([str(marker.id), *marker.allowed_secrets])
        return CUT_VERSION << 32 | zlib.crc32(said.encode("utf-8", "replace"))

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that the settings name; loading it may take a second."""
        return make_embedder(self.settings)

    @property
    def stamp(self) -> Stamp:
        """What an index made now would carry."""
        return Stamp(SCHEMA, self._cut_version, self.embedder.space, self.embedder.dimension)

    def index(self) -> Index | None:
        """Open the published index, or the one that replaced it since; ``None`` when there is none.

        Raises:
            IndexUnusableError: when it is damaged or of another version.
        """
        folder = folders.current_folder(self.location)
        if folder != self._folder or self._open is None:
            self.close()
            if folder is not None:
                self._open = self._hold(LanceIndex.open(folder, slicer=self._cut_version))
            self._folder = folder
        return self._open

    def _hold(self, index: LanceIndex) -> Index:
        """Give the index as it is kept open."""
        return index

    def close(self) -> None:
        """Let go of the open index."""
        if self._open is not None:
            self._open.close()
        self._open = self._folder = None

    def update(self, *, force: bool = False, progress: Progress | None = None) -> Report:
        """Bring the index level; make it anew where it is missing, unusable or of another embedding space.

        Raises:
            IndexBusyError: when another writer keeps the lock.
            EmbedderError: when texts cannot be embedded; what is published stays.
        """
        self._prepare()
        with folders.writer_lock(self.location, timeout=600):
            if not self._is_current():
                return self._rebuild(progress)
            return self._pass(None, force, progress)

    def rebuild(self, *, progress: Progress | None = None) -> Report:
        """Make the index anew beside the published one; publish it when it is complete."""
        self._prepare()
        with folders.writer_lock(self.location, timeout=600):
            return self._rebuild(progress)

    def level(self, seconds: float) -> Level:
        """Bring the index level as far as ``seconds`` allow, and say how far it is."""
        found, reason = self._scan()
        if not found.behind and not found.touched and reason is None:
            return Level(found, (), None)
        try:
            self._prepare()
            with folders.writer_lock(self.location, timeout=0):
                if not self._is_usable():
                    self._start_anew()
                elif not self._is_current():
                    return Level(found, found.behind, "the index holds another embedding space: run memu-fs index")
                report = self._pass(seconds, False, None)
                return Level(found, report.behind, None)
        except IndexBusyError:
            return Level(
                found, found.behind, "another process is writing the index" if found.behind or reason else None
            )
        except (MarkerError, NewerFormatError):
            raise
        except MemuError as error:  # whatever else it is, there is something to answer with
            return Level(found, found.behind, str(error) if found.behind or reason else None)

    def scan(self) -> Scan:
        """Compare the files with the index without changing anything."""
        return self._scan()[0]

    def _scan(self) -> tuple[Scan, str | None]:
        try:
            index = self.index()
            return scan(self.store, index.files() if index else {}, time.time_ns()), None
        except IndexUnusableError as error:
            return scan(self.store, {}, time.time_ns()), str(error)

    def _is_usable(self) -> bool:
        try:
            return self.index() is not None
        except IndexUnusableError:
            return False

    def _is_current(self) -> bool:
        return self._is_usable() and self._open is not None and self._open.stamp == self.stamp

    def _start_anew(self) -> None:
        """Publish an empty index, for a retrieve that can only fill a part of it in its time."""
        folders.remove_unfinished(self.location)
        folder = folders.new_folder(self.location)
        LanceIndex.create(folder, self.stamp).close()
        folders.publish(self.location, folder)

    def _embedding(self) -> Embedding:
        beside = self.store.private if self._is_private else self.location
        return Embedding(self.settings, self.embedder, VectorCache(beside / "cache" / "vectors.sqlite"))

    def _pass(self, seconds: float | None, force: bool, progress: Progress | None) -> Report:
        started = time.perf_counter()
        index = self.index()
        assert index is not None
        report = bring_level(self.store, index, self._embedding(), seconds=seconds, force=force, progress=progress)
        if report.changed and (seconds is None or self.maintains_for_a_query):
            index.maintain()
            folders.remove_old(self.location)
        if report.changed:
            self._log(report, started, is_rebuild=False)
        return report

    def _rebuild(self, progress: Progress | None) -> Report:
        self.close()
        folders.remove_unfinished(self.location)
        started = time.perf_counter()
        folder = folders.new_folder(self.location)
        embedding = self._embedding()
        index = LanceIndex.create(folder, self.stamp)
        try:
            report = bring_level(self.store, index, embedding, progress=progress)
            index.maintain()
        finally:
            index.close()
        folders.publish(self.location, folder)
        folders.remove_old(self.location)
        self._log(report, started, is_rebuild=True)
        return report

    def _log(self, report: Report, started: float, *, is_rebuild: bool) -> None:
        record(
            self.store.private,
            "pass",
            ms=(time.perf_counter() - started) * 1000,
            files=report.changed,
            removed=report.removed,
            segments=report.segments,
            embedded=report.embedded,
            problems=len(report.problems),
            rebuild=is_rebuild,
        )

    @property
    def _is_private(self) -> bool:
        return self.location.is_relative_to(self.store.private)

    def _prepare(self) -> None:
        """Make the folder: in the store it is private, and git never sees it."""
        try:
            if self._is_private:
                make_private(self.store.root)
            self.location.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritableError(self.location, error.strerror or str(error)) from None
