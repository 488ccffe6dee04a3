"""Splits Markdown, a piece at a time, into blocks (headings, and what stays whole); joins neighbours into chunks."""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zlib import crc32

from memd.prose import SENTENCE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""Work that is done a piece at a time, so that whoever does it can look after something else in between.

Yields after each piece; returns the result.
"""


def in_one_go(pieces: Pieces[T]) -> T:
    """Do all of it; returns the result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


MAX_CHUNK = 600
"""Characters; only a single unbreakable line may be longer. Pairs join below it, so the mean is about 400."""
FLAT_LIST = 250
"""The same for a list without a telling heading: its items are about many things."""

PIECE = 32_768
"""Characters that are parsed in one go where the text allows."""

WORD = re.compile(r"\s+")
LINE = re.compile(r"\n")
PAGE = re.compile(r"[^\n]+")
RESUMES = ("heading_open", "paragraph_open")


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the text. `level` is a heading's level, 0 for everything else."""

    start: int
    end: int
    level: int = 0
    title: str = ""
    prose: bool = True
    cut_from: int = -1
    """For a piece of a block that was too long: the start of that block."""
    item: bool = False
    """Whether it is an item of a list, or a piece of one."""


class LineOffsets:
    """Converts between offsets and line numbers; only a line feed ends a line."""

    def __init__(self, text: str) -> None:
        self.starts = [0] + [at.end() for at in LINE.finditer(text)]
        self.length = len(text)

    def offset(self, line: int) -> int:
        """Where a line (counted from 0) begins."""
        return self.starts[line] if line < len(self.starts) else self.length

    def number(self, offset: int) -> int:
        """The line (counted from 1) that contains an offset."""
        return bisect_right(self.starts, offset)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported with the first note: the daemon must answer before that.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table")
    # Only blocks are needed: inline parsing takes most of the time and carries all of the risk.
    parser.core.ruler.disable(["inline"])
    # Keep `[x]: url` lines as text: people search for them.
    parser.block.ruler.disable(["reference"])
    return parser


def blocks_of(text: str, start: int = 0) -> list[Block]:
    """The blocks of `text` from offset `start`, in order, without the blank lines between them."""
    return in_one_go(blocks_in_pieces(text, LineOffsets(text), start))


def blocks_in_pieces(text: str, lines: LineOffsets, start: int, pages: bool = False) -> Pieces[list[Block]]:
    """The same, a piece of the text at a time; a piece ends where parsing can resume without what came before."""
    if pages:
        return _page_blocks(text)
    blocks: list[Block] = []
    size = PIECE
    while (end := text.find("\n", start + size) + 1) > 0:
        tokens = _tokens(text[start:end])
        if line := _resume(tokens):
            resume = lines.offset(lines.number(start) - 1 + line)
            blocks += (block for block in _found(tokens, text, lines, start) if block.start < resume)
            start, size = resume, PIECE
        else:
            size *= 2
        yield
    return blocks + list(_found(_tokens(text[start:]), text, lines, start))


def _page_blocks(text: str) -> list[Block]:
    """The sentences of a text that has a line a page; those of two pages do not join."""
    pages = (page.span() for page in PAGE.finditer(text))
    return [Block(*span, cut_from=start) for start, end in pages for span in _cut(text, start, end, SENTENCE)]


def _tokens(text: str) -> list[Token]:
    # Same length, so offsets stay valid; to an editor, a lone carriage return is no line end.
    return _parser().parse(text.replace("\r", " ").replace("\0", " "))


def _resume(tokens: list[Token]) -> int:
    """The line of the last heading or paragraph at the outermost level: it closes everything before it. 0: none."""
    lines = (token.map[0] for token in reversed(tokens) if token.map and not token.level and token.type in RESUMES)
    return next(lines, 0)


def _found(tokens: list[Token], text: str, lines: LineOffsets, start: int) -> Iterator[Block]:
    found = _walk(_nodes(tokens, 0, len(tokens)), text, lines, lines.number(start) - 1)
    return (block for block in found if block.end > block.start)


class _Node(NamedTuple):
    """A block of Markdown, and which tokens stand inside it."""

    token: Token
    tokens: list[Token]
    inside: int
    end: int

    @property
    def type(self) -> str:
        return self.token.type.removesuffix("_open")

    @property
    def children(self) -> Iterator[_Node]:
        return _nodes(self.tokens, self.inside, self.end)


def _nodes(tokens: list[Token], at: int, end: int) -> Iterator[_Node]:
    """The blocks between two tokens; markdown-it's own tree of them takes a fifth of the time of a parse."""
    while at < end:
        token, inside = tokens[at], at + 1
        at = inside
        while token.nesting > 0 and (tokens[at].level > token.level or tokens[at].nesting >= 0):
            at += 1
        yield _Node(token, tokens, inside, at)
        at += token.nesting > 0


def headings_of(text: str, start: int = 0) -> list[Block]:
    return [block for block in blocks_of(text, start) if block.level]


def with_line_ends(new: str, text: str) -> str:
    """New lines with the line ends that a text already has."""
    plain = new.replace("\r\n", "\n")
    first = text.find("\n")
    return plain.replace("\n", "\r\n") if first > 0 and text[first - 1] == "\r" else plain


def _walk(nodes: Iterable[_Node], text: str, lines: LineOffsets, first: int) -> Iterator[Block]:
    for node in nodes:
        if node.token.map is None:
            continue
        start, end = _span(node, text, lines, first)
        if node.type == "heading":
            yield Block(start, end, level=int(node.token.tag[1]), title=node.tokens[node.inside].content.strip())
        elif node.type in ("bullet_list", "ordered_list"):
            for item in node.children:
                yield from _item(item, text, lines, first)
        else:
            yield from _pieces(node, start, end, text)


def _item(item: _Node, text: str, lines: LineOffsets, first: int) -> Iterator[Block]:
    """One item of a list; if it is too long, the blocks inside it, the first of which starts at the item's marker."""
    start, end = _span(item, text, lines, first)
    inner = list(_walk(item.children, text, lines, first)) if end - start > MAX_CHUNK else []
    if not inner:
        yield Block(start, end, item=True)
    for nth, block in enumerate(inner):
        yield Block(start if nth == 0 else block.start, block.end, 0, "", block.prose, block.cut_from, item=True)


def _span(node: _Node, text: str, lines: LineOffsets, first: int) -> tuple[int, int]:
    assert node.token.map is not None
    start, end = (lines.offset(first + line) for line in node.token.map)
    return start, start + len(text[start:end].rstrip())


def _pieces(node: _Node, start: int, end: int, text: str) -> Iterator[Block]:
    """The whole block if it fits, else its pieces: lines of code and tables, sentences of prose."""
    code = node.type in ("fence", "code_block")
    if end - start <= MAX_CHUNK:
        yield Block(start, end, prose=not code)
        return
    border = LINE if code or node.type in ("table", "html_block") else SENTENCE
    for piece_start, piece_end in _cut(text, start, end, border):
        yield Block(piece_start, piece_end, prose=not code, cut_from=start)


def _cut(text: str, start: int, end: int, border: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Spans between borders; one that is still too long is cut between words, then anywhere."""
    at = start
    for match in border.finditer(text, start, end):
        yield from _fit(text, at, match.start())
        at = max(at, match.end())
    yield from _fit(text, at, end)


def _fit(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_CHUNK:
        gaps = list(WORD.finditer(text, start + MAX_CHUNK // 2, start + MAX_CHUNK))
        cut, onward = gaps[-1].span() if gaps else (start + MAX_CHUNK, start + MAX_CHUNK)
        yield start, cut
        start = onward
    if start < end:
        yield start, end


# --- chunks -------------------------------------------------------------------------------------------------


def chunk_spans(text: str, blocks: Sequence[Block], flat: bool = False) -> list[tuple[int, int]]:
    """The chunks of the blocks below one heading, as spans of the text.

    Packing from the top would move every border behind an inserted line. Instead the shortest pair of neighbours
    joins first, as long as it fits; the text breaks ties. Whether two blocks join depends only on their
    surroundings, so an edit leaves distant chunks, and their vectors, alone. A piece of a split block joins only
    other pieces of that block: a hit shows whole lines, and a chunk across two long lines would show both. A `flat`
    list has no heading that tells what its items are about.
    """
    starts = [block.start for block in blocks]
    ends = [block.end for block in blocks]
    after = list(range(1, len(blocks) + 1))
    before = list(range(-1, len(blocks) - 1))
    alive = [True] * len(blocks)
    heap: list[tuple[int, int, int, int]] = []

    def consider(left: int, right: int) -> None:
        """Put a pair on the heap if it may join: its length, what breaks ties, its left block and its end."""
        if left < 0 or right >= len(blocks) or blocks[left].cut_from != blocks[right].cut_from:
            return
        start, end = starts[left], ends[right]
        if end - start <= (FLAT_LIST if flat and blocks[left].cut_from < 0 else MAX_CHUNK):
            heapq.heappush(heap, (end - start, crc32(text[start:end].encode("utf-8", "surrogatepass")), left, end))

    for right in range(1, len(blocks)):
        consider(right - 1, right)
    while heap:
        length, _, left, end = heapq.heappop(heap)
        right = after[left] if alive[left] else len(blocks)
        if right >= len(blocks) or ends[right] != end or end - starts[left] != length:
            continue
        ends[left], after[left], alive[right] = end, after[right], False
        if after[left] < len(blocks):
            before[after[left]] = left
        consider(before[left], left)
        consider(left, after[left])
    return [(starts[at], ends[at]) for at in range(len(blocks)) if alive[at]]


def below_headings(blocks: Sequence[Block]) -> Iterator[tuple[list[Block], list[Block]]]:
    """Runs of blocks, each with the headings above it."""
    headings: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if block.level and body:
            yield headings, body
            headings, body = [], []
        (headings if block.level else body).append(block)
    if headings or body:
        yield headings, body
