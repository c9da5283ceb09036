"""The block structure of a Markdown body, as line ranges that cover it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memu_fs.index.cost import Span

Kind = Literal["heading", "rule", "list", "item", "quote", "table", "fence", "code", "html", "prose"]

_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "hr": "rule",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "blockquote_open": "quote",
    "table_open": "table",
    "fence": "fence",
    "code_block": "code",
    "html_block": "html",
    "paragraph_open": "prose",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a Markdown body. Siblings are disjoint and in order."""

    kind: Kind
    first: int  #: line, counted from 0
    last: int  #: the line after it
    level: int = 0  #: of a heading
    text: str = ""  #: of a heading or paragraph, without its markers
    children: tuple[Block, ...] = ()


class Lines:
    """The lines of a body by offset. Only "\\n" ends a line."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._starts = [0, *accumulate(len(line) + 1 for line in body.split("\n"))]
        self._starts[-1] = len(body)
        self.count = len(self._starts) - 1

    def number(self, offset: int) -> int:
        """Give the line that holds an offset, counted from 0."""
        return bisect_right(self._starts, offset, hi=self.count) - 1

    def text(self, number: int) -> str:
        """Give a line without the white space around it."""
        return self._body[self._starts[number] : self._starts[number + 1]].strip()

    def span(self, block: Block) -> Span | None:
        """Give the span of a block without the white space around it, or none if that is all it has."""
        return self.trimmed(self._starts[block.first], self._starts[block.last])

    def trimmed(self, start: int, end: int) -> Span | None:
        """Narrow a span to what is not white space."""
        text = self._body[start:end]
        left = len(text) - len(text.lstrip())
        return (start + left, start + len(text.rstrip())) if left < len(text) else None


def read_blocks(body: str) -> tuple[Block, ...]:
    """Read the blocks of a body, which together cover all its lines. Only "\\n" ends a line."""
    found = _collect(iter(_parser().parse(_plain_lines(body))))
    return tuple(cover(found, 0, body.count("\n") + 1))


def cover(blocks: Iterable[Block], first: int, last: int) -> Iterator[Block]:
    """Give the blocks of a range of lines and, for lines that no block claims, prose in between."""
    for block in blocks:
        if first < block.first:
            yield Block("prose", first, block.first)
        yield block
        first = block.last
    if first < last:
        yield Block("prose", first, last)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    # Only block structure counts here, and a link's definition is text like any other.
    parser.core.ruler.enableOnly(["block"])
    parser.disable("reference")
    return parser


def _plain_lines(body: str) -> str:
    """Replace what the parser takes for line ends or drops, character by character: offsets stay."""
    return body.replace("\r\n", " \n").replace("\r", " ").replace("\0", "\ufffd")


def _collect(tokens: Iterator[Token]) -> tuple[Block, ...]:
    """Take blocks from a token stream until the end of the block that is open."""
    blocks: list[Block] = []
    for token in tokens:
        if token.nesting < 0:
            break
        kind = _KINDS.get(token.type)
        if kind in ("heading", "prose"):
            blocks.append(_leaf(token, kind, next(tokens).content))
            next(tokens)
        elif token.nesting > 0:
            children = _collect(tokens)
            if kind is not None and token.map is not None:
                blocks.append(_container(token, kind, children))
        elif kind is not None:
            blocks.append(_leaf(token, kind, ""))
    return tuple(blocks)


def _leaf(token: Token, kind: Kind, content: str) -> Block:
    first, last = token.map or (0, 0)
    level = int(token.tag[1]) if kind == "heading" else 0
    return Block(kind, first, last, level, content)


def _container(token: Token, kind: Kind, children: tuple[Block, ...]) -> Block:
    first, last = token.map or (0, 0)
    return Block(kind, first, last, children=children)
