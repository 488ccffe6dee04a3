"""Cuts Markdown into blocks: headings and the smallest pieces that should not be torn."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_CHUNK = 600
"""No chunk is longer where the text allows; pairs join below it, so the mean is about 400."""

SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？；])\s*|\n+")
WORD = re.compile(r"\s+")
LINE = re.compile(r"\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the text. `level` is a heading's level, 0 for everything else."""

    start: int
    end: int
    level: int = 0
    title: str = ""
    prose: bool = True
    cut_from: int = -1
    """Where the block began that was too long and of which this is a piece."""


class LineOffsets:
    """Turns offsets into line numbers and back; only a line feed ends a line."""

    def __init__(self, text: str) -> None:
        self.starts = [0] + [at.end() for at in LINE.finditer(text)]
        self.length = len(text)

    def offset(self, line: int) -> int:
        """Where a line (counted from 0) begins."""
        return self.starts[line] if line < len(self.starts) else self.length

    def number(self, offset: int) -> int:
        """The line (counted from 1) that an offset stands in."""
        return bisect_right(self.starts, offset)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported at the first note: the daemon answers before it has read one.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table")
    # Blocks are all that is wanted: inline parsing is most of the time and all of the risk.
    parser.core.ruler.disable(["inline"])
    # A link's definition is a line like others: where `[x]: url` is not shown, it is still looked for.
    parser.block.ruler.disable(["reference"])
    return parser


def blocks_of(text: str, lines: LineOffsets, start: int = 0) -> list[Block]:
    """The blocks of `text` from offset `start`, in order, without the blank lines between them."""
    # Same length, so that offsets hold; a lone carriage return is no line end for an editor.
    plain = text[start:].replace("\r", " ").replace("\0", " ")
    tokens = _parser().parse(plain)
    first = lines.number(start) - 1
    return [block for block in _walk(tokens, text, lines, first) if block.end > block.start]


def _walk(tokens: list[Token], text: str, lines: LineOffsets, first: int) -> Iterator[Block]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        closing = _closing(tokens, index)
        if token.map is not None:
            span = _span(token, text, lines, first)
            if token.type == "heading_open":
                yield Block(*span, level=int(token.tag[1]), title=tokens[index + 1].content.strip())
            elif token.type in ("bullet_list_open", "ordered_list_open"):
                yield from _items(tokens[index + 1 : closing], text, lines, first)
            else:
                yield from _pieces(token, span, text)
        index = closing + 1


def _items(tokens: list[Token], text: str, lines: LineOffsets, first: int) -> Iterator[Block]:
    """The items of one list; an item that is too long gives up its own blocks."""
    index = 0
    while index < len(tokens):
        closing = _closing(tokens, index)
        start, end = _span(tokens[index], text, lines, first)
        if end - start <= MAX_CHUNK:
            yield Block(start, end)
        else:
            yield from _opened(list(_walk(tokens[index + 1 : closing], text, lines, first)), start, end)
        index = closing + 1


def _opened(inner: list[Block], start: int, end: int) -> Iterator[Block]:
    """The blocks inside an item, with the item's own marker kept on the first."""
    if not inner:
        yield Block(start, end)
        return
    for nth, block in enumerate(inner):
        yield Block(start if nth == 0 else block.start, block.end, 0, "", block.prose, block.cut_from)


def _closing(tokens: list[Token], index: int) -> int:
    """Where the block opened at `index` closes (a token without children closes itself)."""
    if tokens[index].nesting != 1:
        return index
    level = tokens[index].level
    for at in range(index + 1, len(tokens)):
        if tokens[at].nesting == -1 and tokens[at].level == level:
            return at
    return len(tokens) - 1


def _span(token: Token, text: str, lines: LineOffsets, first: int) -> tuple[int, int]:
    assert token.map is not None
    start, end = lines.offset(first + token.map[0]), lines.offset(first + token.map[1])
    return start, start + len(text[start:end].rstrip())


def _pieces(token: Token, span: tuple[int, int], text: str) -> Iterator[Block]:
    """A block as it is when it fits, else cut at its natural borders."""
    start, end = span
    code = token.type in ("fence", "code_block")
    if end - start <= MAX_CHUNK:
        yield Block(start, end, prose=not code)
        return
    border = LINE if code or token.type in ("table_open", "html_block") else SENTENCE
    for piece_start, piece_end in _cut(text, start, end, border):
        yield Block(piece_start, piece_end, prose=not code, cut_from=start)


def _cut(text: str, start: int, end: int, border: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Spans between borders; one that is still too long is cut at words, then anywhere."""
    at = start
    for found in border.finditer(text, start, end):
        if found.start() > at:
            yield from _fit(text, at, found.start())
        at = max(at, found.end())
    if at < end:
        yield from _fit(text, at, end)


def _fit(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_CHUNK:
        gaps = list(WORD.finditer(text, start + MAX_CHUNK // 2, start + MAX_CHUNK))
        cut, onward = gaps[-1].span() if gaps else (start + MAX_CHUNK, start + MAX_CHUNK)
        yield start, cut
        start = onward
    if start < end:
        yield start, end
