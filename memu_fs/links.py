"""Links between recall files: ``[[wikilinks]]``, embeds and relative Markdown links."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from markdown_it import MarkdownIt

from memu_fs.recall_file import RecallFile

_WIKI = re.compile(
    r"(?<!\\)(?P<embed>!?)\[\[(?P<target>[^\[\]|#^\n]*)(?P<anchor>[#^][^\[\]|\n]*)?(?:\|(?P<text>[^\[\]\n]*))?\]\]"
)
_INLINE = re.compile(r"(?<!\\)\[[^\[\]\n]*\]\((?P<target>[^()\s#]+\.md)(?P<anchor>#[^()\s]*)?(?:\s+\"[^\"]*\")?\)")
#: Files that a wikilink may embed or name and that are no recall files.
_ATTACHMENT = re.compile(
    r"(?i)\.(avif|bmp|gif|jpe?g|png|svg|webp|pdf|mp3|m4a|ogg|wav|mov|mp4|webm|canvas|base|csv|zip)$"
)
_BACKTICKS = re.compile("(`+)")
_BLOCKS = MarkdownIt("commonmark").enable("table")
_BLOCKS.core.ruler.enableOnly(["normalize", "block"])


@dataclass(frozen=True, slots=True)
class Link:
    """One link as it is written."""

    line: int  #: 1-based, in the file
    target: str  #: what it names; "" for a heading of its own file
    anchor: str  #: ``#heading`` or ``^block``, or ""
    text: str  #: what a reader sees
    is_embed: bool
    is_path: bool  #: a relative Markdown link, resolved from the file's own folder


@dataclass(frozen=True, slots=True)
class LinkMap:
    """Who links to whom, by path."""

    links: Mapping[str, tuple[tuple[Link, str], ...]]  #: source to (link, path of its target)
    back_links: Mapping[str, tuple[str, ...]]  #: target to the sources
    dangling: Mapping[str, tuple[Link, ...]]  #: source to the links that lead nowhere


def find_links(file: RecallFile) -> list[Link]:
    """Find the links of a file, in order; code is left out."""
    lines = file.body.replace("\r\n", "\n").replace("\r", " ").split("\n")
    for token in _BLOCKS.parse("\n".join(lines)):
        if token.type in {"fence", "code_block"} and token.map:
            lines[token.map[0] : token.map[1]] = [""] * (token.map[1] - token.map[0])
    found: list[Link] = []
    for number, line in enumerate(lines, file.body_line):
        if "[" in line:
            found += _links_of_line(number, _without_code(line))
    return found


def map_links(files: Iterable[RecallFile]) -> LinkMap:
    """Resolve the links between files. A link finds a name of the same track, then of any, then an alias or title."""
    listed = list(files)
    names = _Names(listed)
    links: dict[str, tuple[tuple[Link, str], ...]] = {}
    dangling: dict[str, tuple[Link, ...]] = {}
    back: dict[str, list[str]] = {}
    for file in listed:
        found = [(link, names.resolve(file, link)) for link in find_links(file)]
        links[file.path] = tuple((link, path) for link, path in found if path)
        if lost := tuple(link for link, path in found if not path):
            dangling[file.path] = lost
        for path in dict.fromkeys(path for _, path in found if path and path != file.path):
            back.setdefault(path, []).append(file.path)
    return LinkMap(links, {path: tuple(sources) for path, sources in back.items()}, dangling)


def _links_of_line(number: int, line: str) -> Iterable[Link]:
    for match in _WIKI.finditer(line):
        target, anchor = match["target"], match["anchor"] or ""
        if match["text"] is not None:  # in a table the bar is escaped
            target, anchor = target.removesuffix("\\"), anchor.removesuffix("\\")
        target = target.strip()
        if (target or anchor) and not _ATTACHMENT.search(target):
            text = (match["text"] or target or anchor).strip()
            yield Link(number, target, anchor, text, bool(match["embed"]), False)
    for match in _INLINE.finditer(line):
        if "://" not in match["target"]:
            yield Link(number, unquote(match["target"]), match["anchor"] or "", match["target"], False, True)


def _without_code(line: str) -> str:
    """Leave out code spans: from a run of backticks to the next run of the same length."""
    pieces = _BACKTICKS.split(line)
    closing = {mark: at for at, mark in enumerate(pieces) if at % 2}
    kept, at = [], 0
    while at < len(pieces):
        if at % 2 and closing[pieces[at]] > at:
            at = next(later for later in range(at + 2, len(pieces), 2) if pieces[later] == pieces[at])
        elif not at % 2:
            kept.append(pieces[at])
        at += 1
    return " ".join(kept)


class _Names:
    """Every word that a link may use for a file; a word that two files share in one track finds the shorter path."""

    def __init__(self, files: list[RecallFile]) -> None:
        self._exact: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._others: dict[tuple[str, str], str] = {}
        for file in sorted(files, key=lambda file: (len(file.path), file.path)):
            for word in (file.path, file.path.removesuffix(".md"), f"{file.track}/{file.name}"):
                self._exact.setdefault(_folded(word), file.path)
            for word in (file.name, file.name.rsplit("/", 1)[-1]):
                self._names.setdefault((file.track, _folded(word)), file.path)
            for word in (*file.aliases, file.title):
                self._others.setdefault((file.track, _folded(word)), file.path)

    def resolve(self, source: RecallFile, link: Link) -> str | None:
        if not link.target:
            return source.path
        if link.is_path:
            return self._exact.get(
                _folded(posixpath.normpath(posixpath.join(posixpath.dirname(source.path), link.target)))
            )
        word = _folded(link.target.removesuffix(".md"))
        if word in self._exact:
            return self._exact[word]
        tracks = (source.track, *(track for track in ("memory", "skill", "workspace") if track != source.track))
        found = (
            words[track, word] for words in (self._names, self._others) for track in tracks if (track, word) in words
        )
        return next(found, None)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
