"""Decides, in one transaction, which memories and chunks there are from now on: the ledger's side of the write path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from sqlite3 import Connection

from memd.failpoints import failpoint
from memd.indexer.intake import naming, pages
from memd.indexer.intake.diff import ChunkPool, Incoming, incoming, match_memories
from memd.indexer.intake.look import Batch
from memd.indexer.record import deeds, history
from memd.indexer.store import catalog
from memd.indexer.store.catalog import ChunkRow, FileRow, MemoryRow
from memd.indexer.store.stores import Shelf, Stores
from memd.models import Chunk
from memd.notes.again import FILES

MOMENT = timedelta(minutes=1)
"""A file that is written in place stands empty for a moment: when it is back that soon, its memories live on."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A memory that is new, or whose text is not what it was, and the chunks of it that were not there before."""

    memory: int
    new: bool
    chunks: tuple[tuple[int, Chunk], ...]


@dataclass(slots=True)
class Changes:
    """What the ledger decided and the caches have to follow."""

    added: list[tuple[int, Chunk]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)


def decide(stores: Stores, shelf: Shelf, batch: Batch, now: str) -> Changes:
    changes = Changes()
    standing = _standing(shelf, batch)
    failpoint("before-ledger")
    with stores.ledger.write() as connection:
        catalog.mark(connection, shelf.id, text=True, vectors=True)
        pages.note_losses(connection, shelf, batch, now)
        old_memories, old_chunks = _before(connection, shelf, batch, standing)
        saved, new = _save_files(connection, shelf, batch, standing)
        known_once = old_memories + _just_gone(connection, shelf, batch, saved, now)
        found = match_memories(known_once, old_chunks, new)
        before = {row.id: row.digest for row in known_once}
        kept = set(found.values())
        pool = ChunkPool(old_chunks)
        files = {row.id: row for row in saved.values()}
        for place, now_there in enumerate(new):
            known = found.get(place)
            back = known is None and catalog.gone_memory(connection, shelf.id, now_there.digest, kept)
            if back:
                known, before[back.id] = back.id, back.digest
            number = _save_memory(connection, shelf, files[now_there.file], now_there, known, now)
            kept.add(number)
            fresh = _save_chunks(connection, shelf, now_there, number, pool)
            changes.added += fresh
            if fresh and before.get(number) != now_there.digest:
                changes.saved.append(Saved(number, number not in before, tuple(fresh)))
        _let_go(connection, shelf, batch, [row.id for row in old_memories if row.id not in kept], now)
        changes.dropped = pool.left()
        catalog.drop_chunks(connection, changes.dropped)
        catalog.drop_files(connection, [shelf.files[path].id for path in batch.removed])
        if changes.added or changes.dropped:
            connection.execute("UPDATE workspaces SET changed = ? WHERE id = ?", (now, shelf.id))
    failpoint("after-ledger")
    shelf.files = {path: row for path, row in shelf.files.items() if path not in batch.removed} | saved
    _remember(shelf, batch)
    return changes


def _standing(shelf: Shelf, batch: Batch) -> dict[str, set[str]]:
    """By path, the memories that stand as the ledger has them, to the line: nothing need be written of them."""
    found: dict[str, set[str]] = {}
    for path, (_, note) in batch.notes.items():
        digest, applied = shelf.applied.get(path, ("", None))
        if applied is not None and path in shelf.files and shelf.files[path].digest == digest:
            was = {memory.slug: memory for memory in applied.memories}
            # The parser gives the very same object for what it did not have to read again.
            found[path] = {memory.slug for memory in note.memories if was.get(memory.slug) is memory}
    return found


def _remember(shelf: Shelf, batch: Batch) -> None:
    taken = {path: (row.digest, note) for path, (row, note) in batch.notes.items()}
    for path in taken:
        shelf.applied.pop(path, None)
    shelf.applied = dict(list({**shelf.applied, **taken}.items())[-FILES:])


def _save_memory(
    connection: Connection, shelf: Shelf, file: FileRow, now_there: Incoming, known: int | None, now: str
) -> int:
    """Write what a memory is and is called, and its version; answers its number."""
    number = catalog.save_memory(connection, shelf.id, file.id, now_there.memory, now_there.role, known, now)
    if naming.keep(connection, number, file.path, now_there.memory):
        shelf.unlinked.add(number)
    _keep_version(connection, shelf, file, now_there, number, now)
    return number


def _keep_version(
    connection: Connection, shelf: Shelf, file: FileRow, now_there: Incoming, number: int, now: str
) -> None:
    """Note the memory's text as its current version, by whoever wrote it."""
    last = history.latest(connection, number)
    if last is not None and last.digest == now_there.digest:
        return
    memory = now_there.memory
    since = last.at if last is not None else ""
    who, action = deeds.author(connection, shelf.id, file.path, file.digest, memory.text, since=since)
    history.keep(connection, number, last, now_there.digest, memory.text, file.path, memory.heading, who, action, now)


def _let_go(connection: Connection, shelf: Shelf, batch: Batch, left: list[int], now: str) -> None:
    for memory in left:
        _keep_end(connection, shelf, batch, memory, now)
    catalog.let_go(connection, left, now)


def _keep_end(connection: Connection, shelf: Shelf, batch: Batch, memory: int, now: str) -> None:
    """Note that a memory went, and by whose hand."""
    last = history.latest(connection, memory)
    if last is not None and last.digest is not None:
        digest = batch.notes[last.path][0].digest if last.path in batch.notes else None
        text = history.text_of(connection, last.digest)
        who, action = deeds.author(connection, shelf.id, last.path, digest, text or "", since=last.at, column="removed")
        history.gone(connection, last, who, action, now)


def _before(
    connection: Connection, shelf: Shelf, batch: Batch, standing: dict[str, set[str]]
) -> tuple[list[MemoryRow], list[ChunkRow]]:
    """What there was in the files of a batch, but for what stands as it was."""
    memories = [
        row
        for path in (*batch.notes, *batch.removed, *batch.emptied)
        if path in shelf.files
        for row in catalog.memories_of(connection, shelf.files[path].id, standing.get(path, ()))
    ]
    return memories, catalog.chunks_of(connection, (row.id for row in memories))


def _just_gone(
    connection: Connection, shelf: Shelf, batch: Batch, saved: dict[str, FileRow], now: str
) -> list[MemoryRow]:
    since = deeds.in_utc(datetime.fromisoformat(now) - MOMENT)
    return [row for path in batch.notes for row in catalog.just_gone(connection, shelf.id, path, saved[path].id, since)]


def _save_files(
    connection: Connection, shelf: Shelf, batch: Batch, standing: dict[str, set[str]]
) -> tuple[dict[str, FileRow], list[Incoming]]:
    saved: dict[str, FileRow] = {}
    new: list[Incoming] = []
    for row in batch.rows:
        saved[row.path] = replace(row, id=catalog.save_file(connection, shelf.id, stem(row.path), row))
    for path, (row, note) in batch.notes.items():
        number = catalog.save_file(connection, shelf.id, stem(path), row)
        saved[path] = replace(row, id=number)
        pages.keep(connection, number, batch.data[path])
        same = standing.get(path, set())
        new += [incoming(number, note.role, memory) for memory in note.memories if memory.slug not in same]
    return saved, new


def _save_chunks(
    connection: Connection,
    shelf: Shelf,
    now_there: Incoming,
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
            fresh.append((catalog.add_chunk(connection, shelf.id, now_there.file, memory, chunk), chunk))
    return fresh


def stem(path: str) -> str:
    return PurePosixPath(path).stem
