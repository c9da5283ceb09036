"""Cut a Markdown body into the slices that are embedded and ranked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from memu_fs.index.blocks import Block, Lines, cover, read_blocks
from memu_fs.index.cost import (
    LINES,
    SENTENCES,
    WORDS,
    Span,
    cost,
    estimate_tokens,
    gather,
    keep_last,
    shorten,
    split,
)

__all__ = ["LIMIT", "SLICER_VERSION", "TARGET", "Slice", "estimate_tokens", "slice_markdown"]

SLICER_VERSION = 1

#: Estimated tokens up to which small neighbours are joined.
TARGET = 100
#: Estimated tokens that a prefix and its text may have together.
LIMIT = 250
#: Estimated tokens of each part of a prefix: title, heading path, what is repeated.
REPEATED = 60


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a body. The slices of a body are disjoint, in order, and cover all but its white space."""

    text: str  #: the span, with CRLF shown as LF
    prefix: str  #: title, headings, a table's head, a fence's opening: embedded and searched, not in ``text``
    heading: str  #: heading path, joined by " > "
    start: int  #: in the body, in characters
    end: int
    lines: tuple[int, int]  #: 1-based, inclusive; one line per "\n"


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """What stands under one heading, up to the next."""

    path: tuple[_Heading, ...] = ()

    def under(self, heading: _Heading) -> _Section:
        """Give the section that a heading opens."""
        return _Section((*(above for above in self.path if above.level < heading.level), heading))


@dataclass(frozen=True, slots=True)
class _Opening:
    """What introduces several pieces: a parent item's text, a table's head, a fence's first line."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span that is not cut further, and what must be repeated to understand it."""

    span: Span
    cost: float
    section: _Section
    context: tuple[_Opening, ...] = ()
    is_rule: bool = False


def slice_markdown(body: str, *, first_line: int = 1, title: str = "") -> tuple[Slice, ...]:
    """Cut a body, which follows the front matter, into slices that fit a model's window."""
    cutter = _Cutter(body, title)
    return tuple(cutter.make_slice(piece, first_line) for piece in _join(cutter, cutter.pieces()))


def _join(cutter: _Cutter, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Join neighbours greedily, starting anew at each heading, so that an edit moves few boundaries."""
    held: _Piece | None = None
    for piece in pieces:
        joined = held and cutter.joined(held, piece)
        if held and not joined:
            yield held
        held = joined or piece
    if held:
        yield held


class _Cutter:
    """One body on its way into slices."""

    def __init__(self, body: str, title: str) -> None:
        self.body = body
        self.title = shorten(_flat(title), REPEATED)
        self.lines = Lines(body)
        self.rooms: dict[tuple[_Section, tuple[_Opening, ...]], int] = {}

    def pieces(self) -> Iterator[_Piece]:
        """Give the pieces of the body in order. A heading is in the piece of what follows it."""
        section = _Section()
        lead: int | None = None
        seen = False
        for block in read_blocks(self.body):
            if block.kind == "heading":
                if lead is not None and section.path and section.path[-1].level >= block.level:
                    yield from self.cut(Block("prose", lead, block.first), section)
                    lead = None
                section = section.under(self.heading(block))
                lead = block.first if lead is None else lead
            elif block.kind == "rule" and (lead is not None or not seen):
                lead = block.first if lead is None else lead
            elif self.lines.span(block):
                yield from self.cut(block, section, lead=lead)
                lead = None
            seen = True
        if lead is not None:
            yield from self.cut(Block("prose", lead, self.lines.count), section)

    def heading(self, block: Block) -> _Heading:
        """Describe a heading, shortened where it is very long, because every slice under it repeats it."""
        return _Heading(block.level, shorten(_flat(block.text), REPEATED), self.lines.span(block) or (0, 0))

    def cut(
        self, block: Block, section: _Section, context: tuple[_Opening, ...] = (), lead: int | None = None
    ) -> Iterator[_Piece]:
        """Cut a block into pieces that fit. ``lead`` is the line from which what precedes belongs to it."""
        whole = self.lines.span(block if lead is None else replace(block, first=lead))
        if whole is None:
            return
        room = self.room(section, context)
        weight = cost(self.body[slice(*whole)])
        if weight <= room and block.kind != "list":
            yield _Piece(whole, weight, section, context, block.kind == "rule")
        elif block.children:
            yield from self.cut_container(block, section, context, lead)
        else:
            yield from self.cut_leaf(block, whole, section, context)

    def cut_container(
        self, block: Block, section: _Section, context: tuple[_Opening, ...], lead: int | None
    ) -> Iterator[_Piece]:
        """Cut a list, an item or a quote between its children; what introduces them is repeated."""
        opening = _introduction(block)
        below = (*context, self.opened(block, opening)) if opening else context
        for child in cover(block.children, block.first, block.last):
            if self.lines.span(child):
                yield from self.cut(child, section, context, lead)
                context, lead = below, None

    def cut_leaf(self, block: Block, whole: Span, section: _Section, context: tuple[_Opening, ...]) -> Iterator[_Piece]:
        """Cut a fence or table at line ends, repeating its opening, and everything else at sentence ends."""
        repeated = (*context, *self.opening(block))
        room = self.room(section, repeated)
        by_line = block.kind in ("fence", "table", "code", "html")
        cuts = (LINES, WORDS) if by_line else (SENTENCES, LINES, WORDS)
        units = split(self.body, whole, room, cuts)
        for part, weight in gather(units, room if by_line else min(room, TARGET)):
            span = self.lines.trimmed(*part)
            if span:
                yield _Piece(span, weight, section, context if span[0] == whole[0] else repeated)

    def opening(self, block: Block) -> tuple[_Opening, ...]:
        """Give what the pieces of a block repeat: the head of a table or the first line of a fence."""
        head = shorten(self.lines.text(block.first), REPEATED)
        if block.kind == "fence":
            return (self.opened(block, head),)
        if block.kind != "table":
            return ()
        delimiter = re.sub("-+", "-", self.lines.text(block.first + 1))
        both = f"{head}\n{delimiter}"
        return (self.opened(block, both if cost(both) <= REPEATED else head),)

    def opened(self, block: Block, text: str) -> _Opening:
        """Place what opens a block at its start."""
        start, _ = self.lines.span(block) or (0, 0)
        return _Opening(text, start)

    def joined(self, one: _Piece, two: _Piece) -> _Piece | None:
        """Join two neighbours if they are small, or if one of them is nothing but a thematic break."""
        total = one.cost + two.cost
        has_rule = one.is_rule or two.is_rule
        if one.section is not two.section or not (has_rule or (total <= TARGET and _introduces(one, two))):
            return None
        context = two.context if one.is_rule else one.context
        if total > self.room(one.section, context):
            return None
        span, is_rule = (one.span[0], two.span[1]), one.is_rule and two.is_rule
        return _Piece(span, total, one.section, context, is_rule)

    def make_slice(self, piece: _Piece, first_line: int) -> Slice:
        """Give a piece its text, its lines and its prefix, which omits headings that the text shows."""
        start, end = piece.span
        text = self.body[start:end].replace("\r\n", "\n")
        path = piece.section.path
        above = tuple(h for h in path if h.span[0] < start or h.span[1] > end)
        prefix = self.prefix(above, piece.context)
        heading = " > ".join(h.text for h in path if h.text)
        lines = (first_line + self.lines.number(start), first_line + self.lines.number(end - 1))
        return Slice(text, prefix, heading, start, end, lines)

    def prefix(self, path: tuple[_Heading, ...], context: tuple[_Opening, ...]) -> str:
        """Write a prefix; the outermost headings and openings give way where it gets long."""
        title = self.title.casefold()
        headings = [h.text for h in path if h.level > 1 or h.text.casefold() != title]
        shown = (
            self.title,
            " > ".join(keep_last(headings, REPEATED)),
            *keep_last((o.text for o in context), REPEATED),
        )
        return "\n".join(part for part in shown if part)

    def room(self, section: _Section, context: tuple[_Opening, ...]) -> int:
        """Say what a text may cost beside its prefix."""
        key = (section, context)
        if key not in self.rooms:
            self.rooms[key] = LIMIT - estimate_tokens(self.prefix(section.path, context))
        return self.rooms[key]


def _introduces(one: _Piece, two: _Piece) -> bool:
    """Say whether one piece has or holds whatever must be repeated for the next."""
    shared = len(one.context)
    held = all(opening.start >= one.span[0] for opening in two.context[shared:])
    return two.context[:shared] == one.context and held


def _introduction(block: Block) -> str:
    """Give what an item's children or a callout's paragraphs are about."""
    opening = block.children[0].text if block.children[0].kind == "prose" else ""
    if block.kind == "quote":
        opening = opening.split("\n", 1)[0] if opening.startswith("[!") else ""
    return shorten(_flat(opening), REPEATED) if block.kind in ("item", "quote") else ""


def _flat(text: str) -> str:
    return " ".join(text.split())
