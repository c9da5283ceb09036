"""The memory on this machine: files, git and index put together behind the three-method protocol."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memu_fs import git
from memu_fs.backend import (
    DEFAULT_FILES,
    DEFAULT_PAGE,
    MAX_FILES,
    MAX_PAGE,
    Committed,
    FilePage,
    Filter,
    ListedFile,
    Mode,
    Retrieval,
    check_limit,
    check_query,
    decode_cursor,
    encode_cursor,
    read_filter,
)
from memu_fs.commit import commit_payload
from memu_fs.config import Config, expanded, load_config
from memu_fs.digests import digest_bytes
from memu_fs.event_log import record
from memu_fs.git import Times
from memu_fs.listing import listed
from memu_fs.scope import scope_of
from memu_fs.store import Store, UnreadableFileError
from memu_fs.trust import is_recalled
from memu_fs.walk import Entry

if TYPE_CHECKING:
    from memu_fs.index.embedder import EmbedderSettings
    from memu_fs.index.sidecar import Sidecar


class LocalMemory:
    """One or several stores of this machine; all but the first are only read."""

    warmth = "cold"  #: for the local log: whether the index was open before the query came

    def __init__(self, stores: Sequence[Store], config: Config | None = None) -> None:
        self.stores = tuple(stores)
        self.config = config if config is not None else load_config()
        self.sidecars = tuple(sidecar_for(store, self.config) for store in self.stores)
        self._times: dict[tuple[Path, str], dict[str, Times]] = {}

    @classmethod
    def open(cls, *roots: Path | str, config: Config | None = None) -> LocalMemory:
        """Open stores by their folders."""
        return cls([Store(Path(root)) for root in roots], config)

    def close(self) -> None:
        """Let go of the indexes."""
        for sidecar in self.sidecars:
            sidecar.close()

    def list_all_recall_files(
        self,
        where: Mapping[str, object],
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
        *,
        content: bool = False,
    ) -> FilePage:
        """Give one page of the first store's recall files in the order of (track, name, id).

        Raises:
            UsageError: for an unknown filter field, a missing scope, a cursor that no page gave.
        """
        wanted, store = read_filter(where), self.stores[0]
        check_limit(limit, MAX_PAGE)
        after = decode_cursor(cursor) if cursor else None
        times = self.git_times(store)
        today = datetime.date.today().isoformat()
        forgotten = store.tombstones()
        found: list[ListedFile] = []
        for entry in store.walk().entries:
            key = (entry.track, entry.name, store.id_of(entry.track, entry.name))
            if (after and key <= after) or not _is_visible(entry, wanted):
                continue
            try:
                file = store.read(entry).file
            except UnreadableFileError:
                continue
            recalled = is_recalled(file.status, file.valid_from, file.valid_until, today)
            if not wanted.include_inactive and (not recalled or (entry.track, entry.name) in forgotten):
                continue
            if len(found) == limit:
                last = found[-1]
                return FilePage(
                    recall_files=found, next_cursor=encode_cursor((last["track"], last["name"], last["id"]))
                )
            found.append(listed(store, file, times.get(entry.path), content=content))
        return FilePage(recall_files=found, next_cursor=None)

    def progressive_retrieve(
        self,
        query: str,
        where: Mapping[str, object],
        *,
        limit: int = DEFAULT_FILES,
        content: bool = False,
        explain: bool = False,
        mode: Mode | None = None,
    ) -> Retrieval:
        """Rank segments and return files.

        Raises:
            UsageError: for an empty query, an unknown filter field or a missing scope.
        """
        from memu_fs.answer import Question, answer

        wanted = read_filter(where)
        question = Question(check_query(query), wanted, check_limit(limit, MAX_FILES), content, explain, mode)
        started = time.perf_counter()
        found = answer(self.sidecars, question, self.config.number("freshness_seconds"))
        self._log(found, (time.perf_counter() - started) * 1000)
        return found

    def _log(self, found: Retrieval, spent: float) -> None:
        record(
            self.stores[0].private,
            "retrieval",
            ms=spent,
            mode=found["mode"],
            warmth=self.warmth,
            files=len(found["files"]),
            segments=len(found["segments"]),
            resources=len(found["resources"]),
            stale=found["stale"],
        )

    def commit_results(
        self,
        recall_files: Sequence[Mapping[str, object]],
        resource: Sequence[Mapping[str, object]] = (),
        user: Mapping[str, object] | None = None,  # noqa: ARG002 - memU's clients send it; a store has one user
    ) -> Committed:
        """Write recall files and resources into the first store, all or none, and commit them to git.

        Raises:
            UsageError: for a payload that does not fit.
            MemuError: when a file changed since its ``base``, holds a secret, or cannot be written.
        """
        return commit_payload(self.stores[0], recall_files, resource)

    def git_times(self, store: Store) -> dict[str, Times]:
        """Give git's times of a store's files, read once for each commit."""
        repository = git.repository(store.root)
        key = (store.root, repository.head if repository else "")
        if key not in self._times:
            self._times = {key: git.file_times(store.root) or {} if key[1] else {}}
        return self._times[key]


def sidecar_for(store: Store, config: Config) -> Sidecar:
    """Give the index of a store as the configuration wants it."""
    from memu_fs.index.sidecar import Sidecar

    return Sidecar(store, embedder_settings(config), index_location(config, store))


def embedder_settings(config: Config) -> EmbedderSettings:
    """Give the embedder's settings as the configuration resolves them."""
    from memu_fs.index.embedder import EmbedderSettings

    dimension = config.get("embedder_dimension")
    return EmbedderSettings(
        embedder=config.text("embedder") or "minilm",
        url=config.text("embedder_url"),
        key=config.text("embedder_key"),
        dimension=dimension if isinstance(dimension, int) else None,
        timeout=config.number("embedder_timeout"),
        path=config.text("embedder_path"),
    )


def index_location(config: Config, store: Store) -> Path | None:
    """Give the folder for a store's index when it is set to lie outside the store; one folder for each store."""
    chosen = config.text("index_location")
    name = digest_bytes(os.fsencode(store.root))[:16]
    return expanded(Path(chosen)).absolute() / name if chosen else None


def _is_visible(entry: Entry, wanted: Filter) -> bool:
    return entry.track in wanted.tracks and wanted.scope.sees(scope_of(entry.path))
