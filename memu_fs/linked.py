"""The links around one file, as far as a reader may see."""

from __future__ import annotations

from typing import Any

from memu_fs.links import map_links
from memu_fs.recall_file import RecallFile
from memu_fs.scope import Scope, scope_of
from memu_fs.store import Store, UnreadableFileError


def all_files(store: Store, scope: Scope) -> list[RecallFile]:
    """Read every visible Markdown file of a store, parts of skills included; what cannot be read is left out."""
    files: list[RecallFile] = []
    for entry in store.walk().entries:
        if scope.sees(scope_of(entry.path)):
            try:
                page = store.read(entry)
            except UnreadableFileError:
                continue
            files += [page.file, *page.others]
    return files


def links_of(store: Store, path: str, scope: Scope) -> dict[str, list[dict[str, Any]]]:
    """Give the links, back-links and dangling links of one file: each with path, line and target."""
    found = map_links(all_files(store, scope))
    return {
        "links": [{"path": target, "line": link.line, "target": link.target} for link, target in found.links[path]],
        "back_links": [{"path": source} for source in found.back_links.get(path, ())],
        "dangling": [{"target": link.target, "line": link.line} for link in found.dangling.get(path, ())],
    }
