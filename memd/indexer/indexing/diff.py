"""Matches the memories and chunks of a file with those that were there before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memd.indexer.store import catalog
from memd.indexer.store.catalog import ChunkRow, FileRow, MemoryRow
from memd.models import Memory

SIMILAR = 0.5
"""A memory under a new heading is the old one when it shares this part of its chunks."""


@dataclass(frozen=True, slots=True)
class ParsedMemory:
    """A memory as a file has it now."""

    file: FileRow
    role: str
    memory: Memory
    digest: str
    body: str
    chunks: tuple[str, ...]
    """The digests of its chunks, in order."""

    @classmethod
    def of(cls, file: FileRow, role: str, memory: Memory) -> ParsedMemory:
        chunks = tuple(map(catalog.digest_of_chunk, memory.chunks))
        return cls(file, role, memory, catalog.digest_of_memory(memory), catalog.digest_of_body(memory), chunks)


def match_memories(
    old: Sequence[MemoryRow], old_chunks: Iterable[ChunkRow], new: Sequence[ParsedMemory]
) -> dict[int, int]:
    """Which old memory each new one (by its place in `new`) continues.

    Content counts before headings, the same file before another: so a life follows an edit, a move within the
    file, a new heading and into another file, in that order.
    """
    chunks: dict[int, set[str]] = defaultdict(set)
    for chunk in old_chunks:
        chunks[chunk.memory].add(chunk.digest)

    def similar(before: MemoryRow, now: ParsedMemory) -> bool:
        both = len(chunks[before.id] & set(now.chunks))
        return both > 0 and both >= SIMILAR * min(len(chunks[before.id]), len(now.chunks))

    matching = _Matching(old, new)
    matching.by(lambda row: (row.file, row.digest, row.slug), lambda now: (now.file.id, now.digest, now.memory.slug))
    matching.by(lambda row: (row.file, row.digest), lambda now: (now.file.id, now.digest))
    matching.by(lambda row: (row.file, row.slug), lambda now: (now.file.id, now.memory.slug))
    matching.by(lambda row: (row.file, row.body), lambda now: (now.file.id, now.body))
    matching.by(lambda row: (row.file,), lambda now: (now.file.id,), similar)
    matching.by(lambda row: (row.digest,), lambda now: (now.digest,))
    matching.by(lambda row: (row.slug,), lambda now: (now.memory.slug,), similar)
    return matching.matches


Key = tuple[int | str | None, ...]


class _Matching:
    """Pairs what is left on both sides, one rule after the other."""

    def __init__(self, old: Sequence[MemoryRow], new: Sequence[ParsedMemory]) -> None:
        self.old = list(old)
        self.new = new
        self.matches: dict[int, int] = {}

    def by(
        self,
        old_key: Callable[[MemoryRow], Key],
        new_key: Callable[[ParsedMemory], Key],
        similar: Callable[[MemoryRow, ParsedMemory], bool] = lambda row, now: True,
    ) -> None:
        waiting: dict[Key, list[MemoryRow]] = defaultdict(list)
        for row in self.old:
            waiting[old_key(row)].append(row)
        for place, now in enumerate(self.new):
            rows = waiting.get(new_key(now), [])
            match = None if place in self.matches else next((row for row in rows if similar(row, now)), None)
            if match is not None:
                self.matches[place] = match.id
                rows.remove(match)
        self.old = [row for rows in waiting.values() for row in rows]


class ChunkPool:
    """The chunks that were there before; those that no memory takes are dropped."""

    def __init__(self, rows: Iterable[ChunkRow]) -> None:
        self._by_digest: dict[str, list[ChunkRow]] = defaultdict(list)
        for row in rows:
            self._by_digest[row.digest].append(row)

    def take(self, digest: str, memory: int) -> int | None:
        """A chunk with exactly this text, preferably of the same memory."""
        rows = self._by_digest.get(digest)
        if not rows:
            return None
        row = next((row for row in rows if row.memory == memory), rows[0])
        rows.remove(row)
        return row.id

    def left(self) -> list[int]:
        return [row.id for rows in self._by_digest.values() for row in rows]

    def left_digests(self) -> list[str]:
        return [digest for digest, rows in self._by_digest.items() if rows]
