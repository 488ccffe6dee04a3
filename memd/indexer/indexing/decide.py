"""Decides, in one transaction, which memories and chunks there are from now on: the ledger's side of the write path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from sqlite3 import Connection

from memd.failpoints import failpoint
from memd.indexer.indexing import file_copies, memory_names
from memd.indexer.indexing.diff import ChunkPool, ParsedMemory, incoming, match_memories
from memd.indexer.indexing.read_files import FileBatch
from memd.indexer.record import actions, history
from memd.indexer.store import catalog
from memd.indexer.store.catalog import ChunkRow, FileRow, MemoryRow
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Chunk
from memd.notes.parse_cache import FILES

MOMENT = timedelta(minutes=1)
"""A file that is written in place stands empty for a moment: when it is back that soon, its memories live on."""


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory that is new, or whose text is not what it was, and the chunks of it that were not there before."""

    memory: int
    new: bool
    chunks: tuple[tuple[int, Chunk], ...]


@dataclass(slots=True)
class LedgerChanges:
    """What the ledger decided and the caches have to follow."""

    added: list[tuple[int, Chunk]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    saved: list[SavedMemory] = field(default_factory=list)


def decide(stores: Stores, index: WorkspaceIndex, batch: FileBatch, now: str) -> LedgerChanges:
    changes = LedgerChanges()
    standing = _standing(index, batch)
    failpoint("before-ledger")
    with stores.ledger.write() as connection:
        catalog.mark(connection, index.id, text=True, vectors=True)
        file_copies.note_losses(connection, index, batch, now)
        old_memories, old_chunks = _before(connection, index, batch, standing)
        saved, new = _save_files(connection, index, batch, standing)
        known_once = old_memories + _just_gone(connection, index, batch, saved, now)
        found = match_memories(known_once, old_chunks, new)
        before = {row.id: row.digest for row in known_once}
        kept = set(found.values())
        pool = ChunkPool(old_chunks)
        files = {row.id: row for row in saved.values()}
        for place, now_there in enumerate(new):
            known = found.get(place)
            back = known is None and catalog.gone_memory(connection, index.id, now_there.digest, kept)
            if back:
                known, before[back.id] = back.id, back.digest
            number = _save_memory(connection, index, files[now_there.file], now_there, known, now)
            kept.add(number)
            fresh = _save_chunks(connection, index, now_there, number, pool)
            changes.added += fresh
            if fresh and before.get(number) != now_there.digest:
                changes.saved.append(SavedMemory(number, number not in before, tuple(fresh)))
        _let_go(connection, index, batch, [row.id for row in old_memories if row.id not in kept], now)
        changes.dropped = pool.left()
        catalog.drop_chunks(connection, changes.dropped)
        catalog.drop_files(connection, [index.files[path].id for path in batch.removed])
        if changes.added or changes.dropped:
            connection.execute("UPDATE workspaces SET changed = ? WHERE id = ?", (now, index.id))
    failpoint("after-ledger")
    index.files = {path: row for path, row in index.files.items() if path not in batch.removed} | saved
    _remember(index, batch)
    return changes


def _standing(index: WorkspaceIndex, batch: FileBatch) -> dict[str, set[str]]:
    """By path, the memories that stand as the ledger has them, to the line: nothing need be written of them."""
    found: dict[str, set[str]] = {}
    for path, (_, note) in batch.notes.items():
        digest, applied = index.applied.get(path, ("", None))
        if applied is not None and path in index.files and index.files[path].digest == digest:
            was = {memory.slug: memory for memory in applied.memories}
            # The parser gives the very same object for what it did not have to read again.
            found[path] = {memory.slug for memory in note.memories if was.get(memory.slug) is memory}
    return found


def _remember(index: WorkspaceIndex, batch: FileBatch) -> None:
    taken = {path: (row.digest, note) for path, (row, note) in batch.notes.items()}
    for path in taken:
        index.applied.pop(path, None)
    index.applied = dict(list({**index.applied, **taken}.items())[-FILES:])


def _save_memory(
    connection: Connection, index: WorkspaceIndex, file: FileRow, now_there: ParsedMemory, known: int | None, now: str
) -> int:
    """Write what a memory is and is called, and its version; answers its number."""
    number = catalog.save_memory(connection, index.id, file.id, now_there.memory, now_there.role, known, now)
    if memory_names.keep(connection, number, file.path, now_there.memory):
        index.unlinked.add(number)
    _keep_version(connection, index, file, now_there, number, now)
    return number


def _keep_version(
    connection: Connection, index: WorkspaceIndex, file: FileRow, now_there: ParsedMemory, number: int, now: str
) -> None:
    """Note the memory's text as its current version, by whoever wrote it."""
    last = history.latest(connection, number)
    if last is not None and last.digest == now_there.digest:
        return
    memory = now_there.memory
    since = last.at if last is not None else ""
    who, action = actions.author(connection, index.id, file.path, file.digest, memory.text, since=since)
    history.keep(connection, number, last, now_there.digest, memory.text, file.path, memory.heading, who, action, now)


def _let_go(connection: Connection, index: WorkspaceIndex, batch: FileBatch, left: list[int], now: str) -> None:
    for memory in left:
        _keep_end(connection, index, batch, memory, now)
    catalog.let_go(connection, left, now)


def _keep_end(connection: Connection, index: WorkspaceIndex, batch: FileBatch, memory: int, now: str) -> None:
    """Note that a memory went, and by whose hand."""
    last = history.latest(connection, memory)
    if last is not None and last.digest is not None:
        digest = batch.notes[last.path][0].digest if last.path in batch.notes else None
        text = history.text_of(connection, last.digest)
        who, action = actions.author(
            connection, index.id, last.path, digest, text or "", since=last.at, column="removed"
        )
        history.gone(connection, last, who, action, now)


def _before(
    connection: Connection, index: WorkspaceIndex, batch: FileBatch, standing: dict[str, set[str]]
) -> tuple[list[MemoryRow], list[ChunkRow]]:
    """What there was in the files of a batch, but for what stands as it was."""
    memories = [
        row
        for path in (*batch.notes, *batch.removed, *batch.emptied)
        if path in index.files
        for row in catalog.memories_of(connection, index.files[path].id, standing.get(path, ()))
    ]
    return memories, catalog.chunks_of(connection, (row.id for row in memories))


def _just_gone(
    connection: Connection, index: WorkspaceIndex, batch: FileBatch, saved: dict[str, FileRow], now: str
) -> list[MemoryRow]:
    since = actions.in_utc(datetime.fromisoformat(now) - MOMENT)
    return [row for path in batch.notes for row in catalog.just_gone(connection, index.id, path, saved[path].id, since)]


def _save_files(
    connection: Connection, index: WorkspaceIndex, batch: FileBatch, standing: dict[str, set[str]]
) -> tuple[dict[str, FileRow], list[ParsedMemory]]:
    saved: dict[str, FileRow] = {}
    new: list[ParsedMemory] = []
    for row in batch.rows:
        saved[row.path] = replace(row, id=catalog.save_file(connection, index.id, stem(row.path), row))
    for path, (row, note) in batch.notes.items():
        number = catalog.save_file(connection, index.id, stem(path), row)
        saved[path] = replace(row, id=number)
        file_copies.keep(connection, number, batch.data[path])
        same = standing.get(path, set())
        new += [incoming(number, note.role, memory) for memory in note.memories if memory.slug not in same]
    return saved, new


def _save_chunks(
    connection: Connection,
    index: WorkspaceIndex,
    now_there: ParsedMemory,
    memory: int,
    pool: ChunkPool,
) -> list[tuple[int, Chunk]]:
    """Write a memory's chunks; answers those that were not there before."""
    fresh: list[tuple[int, Chunk]] = []
    for chunk, digest in zip(now_there.memory.chunks, now_there.chunks, strict=True):
        known = pool.take(digest, memory)
        if known is not None:
            catalog.move_chunk(connection, known, now_there.file, memory, chunk)
        else:
            fresh.append((catalog.add_chunk(connection, index.id, now_there.file, memory, chunk), chunk))
    return fresh


def stem(path: str) -> str:
    return PurePosixPath(path).stem
