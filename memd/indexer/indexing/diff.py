"""Finds out which memories and chunks are the ones that were there before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memd.indexer.store.catalog import ChunkRow, MemoryRow, digest_of_body, digest_of_chunk, digest_of_memory
from memd.models import Memory

ALIKE = 0.5
"""A memory under a new heading is the old one when this share of its chunks is."""


@dataclass(frozen=True, slots=True)
class ParsedMemory:
    """A memory as it now stands in a file."""

    file: int
    role: str
    memory: Memory
    digest: str
    body: str
    chunks: tuple[str, ...]
    """The digests of its chunks, in order."""


def incoming(file: int, role: str, memory: Memory) -> ParsedMemory:
    chunks = tuple(map(digest_of_chunk, memory.chunks))
    return ParsedMemory(file, role, memory, digest_of_memory(memory), digest_of_body(memory), chunks)


def match_memories(
    old: Sequence[MemoryRow], old_chunks: Iterable[ChunkRow], new: Sequence[ParsedMemory]
) -> dict[int, int]:
    """Which new memory (by its place in `new`) goes on with which old one's life.

    Content decides before headings, and the same file before another: so a life follows an edit, a move
    within the file, a new heading, and a renamed file, in that order.
    """
    chunks: dict[int, set[str]] = defaultdict(set)
    for chunk in old_chunks:
        chunks[chunk.memory].add(chunk.digest)

    def alike(before: MemoryRow, now: ParsedMemory) -> bool:
        both = len(chunks[before.id] & set(now.chunks))
        return both > 0 and both >= ALIKE * min(len(chunks[before.id]), len(now.chunks))

    matching = _Matching(old, new)
    matching.by(lambda row: (row.file, row.digest, row.slug), lambda now: (now.file, now.digest, now.memory.slug))
    matching.by(lambda row: (row.file, row.digest), lambda now: (now.file, now.digest))
    matching.by(lambda row: (row.file, row.slug), lambda now: (now.file, now.memory.slug))
    matching.by(lambda row: (row.file, row.body), lambda now: (now.file, now.body))
    matching.by(lambda row: (row.file,), lambda now: (now.file,), alike)
    matching.by(lambda row: (row.digest,), lambda now: (now.digest,))
    matching.by(lambda row: (row.slug,), lambda now: (now.memory.slug,), alike)
    return matching.found


Key = tuple[int | str | None, ...]


class _Matching:
    """Pairs what is left on both sides, one rule after the other."""

    def __init__(self, old: Sequence[MemoryRow], new: Sequence[ParsedMemory]) -> None:
        self.old = list(old)
        self.new = new
        self.found: dict[int, int] = {}

    def by(
        self,
        old_key: Callable[[MemoryRow], Key],
        new_key: Callable[[ParsedMemory], Key],
        alike: Callable[[MemoryRow, ParsedMemory], bool] = lambda row, now: True,
    ) -> None:
        waiting: dict[Key, list[MemoryRow]] = defaultdict(list)
        for row in self.old:
            waiting[old_key(row)].append(row)
        for place, now in enumerate(self.new):
            rows = waiting.get(new_key(now), [])
            same = None if place in self.found else next((row for row in rows if alike(row, now)), None)
            if same is not None:
                self.found[place] = same.id
                rows.remove(same)
        self.old = [row for rows in waiting.values() for row in rows]


class ChunkPool:
    """The chunks that were there before; what nobody takes is dropped."""

    def __init__(self, rows: Iterable[ChunkRow]) -> None:
        self._by_digest: dict[str, list[ChunkRow]] = defaultdict(list)
        for row in rows:
            self._by_digest[row.digest].append(row)

    def take(self, digest: str, memory: int) -> int | None:
        """A chunk with this very text, from the same memory if it has one."""
        rows = self._by_digest.get(digest)
        if not rows:
            return None
        row = next((row for row in rows if row.memory == memory), rows[0])
        rows.remove(row)
        return row.id

    def left(self) -> list[int]:
        return [row.id for rows in self._by_digest.values() for row in rows]
