"""The links around one file, as far as a reader may see."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from memu_fs.links import map_links
from memu_fs.scope import Scope, scope_of
from memu_fs.store import Page, Store, UnreadableFileError


def all_pages(store: Store, scope: Scope) -> list[Page]:
    """Read every visible recall file of a store; what cannot be read is left out."""
    pages: list[Page] = []
    for entry in store.walk().entries:
        if scope.sees(scope_of(entry.path)):
            with suppress(UnreadableFileError):
                pages.append(store.read(entry))
    return pages


def links_of(store: Store, path: str, scope: Scope) -> dict[str, list[dict[str, Any]]]:
    """Give the links, back-links and dangling links of one file: each with path, line and target."""
    found = map_links(part for page in all_pages(store, scope) for part in (page.file, *page.others))
    return {
        "links": [{"path": target, "line": link.line, "target": link.target} for link, target in found.links[path]],
        "back_links": [{"path": source} for source in found.back_links.get(path, ())],
        "dangling": [{"target": link.target, "line": link.line} for link in found.dangling.get(path, ())],
    }
