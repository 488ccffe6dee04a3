"""Joins blocks into chunks: the smallest neighbours first, so that an edit moves only what is near it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from zlib import crc32

from memd.notes.blocks import MAX_CHUNK, Block


def spans(text: str, blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """The chunks of a run of blocks below one heading, as spans of the text.

    Packing from the top would move every border behind an inserted line. Here the pair of neighbours that is
    shortest together joins first, as long as it fits; equal pairs are told apart by their text. Whether two
    blocks join depends on what stands near them and on nothing else, so the other chunks keep their vectors.
    A piece of a block that was cut joins only other pieces of it: a hit shows whole lines, and one that began at
    the end of a long line and went on in the next would show both.
    """
    starts = [block.start for block in blocks]
    ends = [block.end for block in blocks]
    after = list(range(1, len(blocks) + 1))
    before = list(range(-1, len(blocks) - 1))
    cut = [block.cut_from for block in blocks]
    heap = [
        pair
        for left in range(len(blocks) - 1)
        if cut[left] == cut[left + 1] and (pair := _pair(text, starts[left], ends[left + 1], left))
    ]
    heapq.heapify(heap)
    alive = [True] * len(blocks)
    while heap:
        length, _, left, end = heapq.heappop(heap)
        right = after[left] if alive[left] else len(blocks)
        if right >= len(blocks) or ends[right] != end or end - starts[left] != length:
            continue
        ends[left], after[left], alive[right] = end, after[right], False
        if after[left] < len(blocks):
            before[after[left]] = left
        for one, other in ((before[left], left), (left, after[left])):
            if one >= 0 and other < len(blocks) and cut[one] == cut[other]:
                _renew(heap, text, starts, ends, one, other)
    return [(starts[at], ends[at]) for at in range(len(blocks)) if alive[at]]


Pair = tuple[int, int, int, int]


def _pair(text: str, start: int, end: int, left: int) -> Pair | None:
    length = end - start
    if length > MAX_CHUNK:
        return None
    return length, crc32(text[start:end].encode("utf-8", "surrogatepass")), left, end


def _renew(heap: list[Pair], text: str, starts: list[int], ends: list[int], left: int, right: int) -> None:
    pair = _pair(text, starts[left], ends[right], left)
    if pair:
        heapq.heappush(heap, pair)


def below_headings(blocks: Sequence[Block]) -> Iterator[tuple[list[Block], list[Block]]]:
    """Runs of blocks with the headings that open them; a heading stays with what follows it."""
    headings: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if block.level and body:
            yield headings, body
            headings, body = [], []
        (headings if block.level else body).append(block)
    if headings or body:
        yield headings, body
