"""The write path: from changed paths to all three stores, in an order that survives being killed anywhere.

    read → parse → diff → ledger (dirty) → text, vectors → ledger (clean, clock + 1)

The ledger's first commit is the decision; what follows only brings the caches in step. A process that dies
in between leaves the workspace marked, and the next start compares the caches with the ledger.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import DiskFull, StoreBroken
from memd.failpoints import failpoint
from memd.indexer import bank, catalog, deeds, history, naming, pages
from memd.indexer.catalog import ChunkRow, FileRow, MemoryRow
from memd.indexer.diff import ChunkPool, Incoming, incoming, match_memories
from memd.indexer.look import Batch, look
from memd.indexer.pooling import Vectors
from memd.indexer.scan import scan
from memd.indexer.stores import Shelf, Stores
from memd.models import Chunk

NAMED = 20
"""So many files are named in a report; the figures count all."""
HOLD_FILES = 20
"""When more files than this, and more than half, vanish at once, a disk was unmounted rather than a memory lost."""
MOMENT = timedelta(minutes=1)
"""A file that is written in place stands empty for a moment: when it is back that soon, its memories live on."""


@dataclass(slots=True)
class Report:
    """What one batch did."""

    files: int = 0
    removed: int = 0
    held: int = 0
    touched: int = 0
    chunks_added: int = 0
    chunks_dropped: int = 0
    to_embed: int = 0
    took_ms: float = 0.0
    paths: list[str] = field(default_factory=list)
    """The files that were taken in or let go, the first twenty."""
    warnings: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.files or self.removed)

    @property
    def figures(self) -> dict[str, Any]:
        """What was done, for those who watch."""
        names = ("files", "removed", "chunks_added", "chunks_dropped", "paths")
        return {name: getattr(self, name) for name in names} | {"took_ms": round(self.took_ms, 1)}


@dataclass(frozen=True, slots=True)
class Saved:
    """A memory that is new, or whose text is not what it was, and the chunks of it that were not there before."""

    memory: int
    new: bool
    chunks: tuple[tuple[int, Chunk], ...]


@dataclass(slots=True)
class _Changes:
    """What the ledger decided and the caches have to follow."""

    added: list[tuple[int, Chunk]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)


def apply(
    stores: Stores,
    shelf: Shelf,
    paths: Iterable[str],
    max_bytes: int,
    *,
    accept_missing: bool = False,
    deep: bool = False,
    restless: Callable[[str, int], bool] | None = None,
    saved: list[Saved] | None = None,
    now: datetime | None = None,
) -> Report:
    """Bring the stores in step with the given paths.

    `deep` parses also what has not changed; what `restless` says of a path and its mtime is left for later.
    `saved` gets what the ledger took in, also when a cache then fails to follow. `now` is when it happens.
    """
    started = time.monotonic()
    report = Report()
    batch = look(shelf, sorted(paths), max_bytes, deep, restless)
    report.restless = batch.restless
    if batch.removed and not accept_missing:
        _hold(shelf, batch, report)
    elif accept_missing:
        shelf.held = frozenset()
    if batch.notes or batch.removed or batch.emptied:
        changes = _decide(stores, shelf, batch, report, deeds.in_utc(now) if now else deeds.now())
        if saved is not None:
            saved += changes.saved
        _follow(stores, shelf, changes, report)
    elif batch.rows:
        _touch(stores, shelf, batch.rows)
    report.touched = len(batch.rows)
    report.took_ms = (time.monotonic() - started) * 1000
    return report


def _hold(shelf: Shelf, batch: Batch, report: Report) -> None:
    """Keep the entries of files that vanished in a mass, or with their directory."""
    found = scan(shelf.workspace)
    shelf.missing = found.missing
    vanished = shelf.files.keys() - found.files.keys()
    if found.missing or (len(vanished) > HOLD_FILES and len(vanished) > len(shelf.files) / 2):
        shelf.held = frozenset(vanished)
        report.held = len(vanished)
        batch.removed.clear()
    else:
        shelf.held = frozenset()


# --- deciding: one transaction ------------------------------------------------------------------------------


def _decide(stores: Stores, shelf: Shelf, batch: Batch, report: Report, now: str) -> _Changes:
    changes = _Changes()
    failpoint("before-ledger")
    with stores.ledger.write() as connection:
        catalog.mark(connection, shelf.id, text=True, vectors=True)
        pages.note_losses(connection, shelf, batch, now)
        old_memories, old_chunks = _before(connection, shelf, batch)
        saved, new = _save_files(connection, shelf, batch)
        by_number = {row.id: row for row in saved.values()}
        known_once = old_memories + _just_gone(connection, shelf, batch, saved, now)
        found = match_memories(known_once, old_chunks, new)
        before = {row.id: row.digest for row in known_once}
        kept = set(found.values())
        pool = ChunkPool(old_chunks)
        for place, now_there in enumerate(new):
            known = found.get(place)
            back = known is None and catalog.gone_memory(connection, shelf.id, now_there.digest, kept)
            if back:
                known, before[back.id] = back.id, back.digest
            number = catalog.save_memory(
                connection, shelf.id, now_there.file, now_there.memory, now_there.role, known, now
            )
            kept.add(number)
            if naming.keep(connection, number, by_number[now_there.file].path, now_there.memory):
                shelf.unlinked.add(number)
            _keep_version(connection, shelf, by_number[now_there.file], now_there, number, now)
            fresh = _save_chunks(connection, shelf, now_there, number, pool)
            changes.added += fresh
            if fresh and before.get(number) != now_there.digest:
                changes.saved.append(Saved(number, number not in before, tuple(fresh)))
        left = [row.id for row in old_memories if row.id not in kept]
        _let_go(connection, shelf, batch, left, now)
        changes.dropped = pool.left()
        catalog.drop_chunks(connection, changes.dropped)
        catalog.drop_files(connection, [shelf.files[path].id for path in batch.removed])
        if changes.added or changes.dropped:
            connection.execute("UPDATE workspaces SET changed = ? WHERE id = ?", (now, shelf.id))
    failpoint("after-ledger")
    shelf.files = {path: row for path, row in shelf.files.items() if path not in batch.removed} | saved
    _count(report, batch, changes)
    return changes


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


def _before(connection: Connection, shelf: Shelf, batch: Batch) -> tuple[list[MemoryRow], list[ChunkRow]]:
    known = [shelf.files[path].id for path in (*batch.notes, *batch.removed, *batch.emptied) if path in shelf.files]
    memories = [row for file in known for row in catalog.memories_of(connection, file)]
    chunks = [row for file in known for row in catalog.chunks_of(connection, file)]
    return memories, chunks


def _just_gone(
    connection: Connection, shelf: Shelf, batch: Batch, saved: dict[str, FileRow], now: str
) -> list[MemoryRow]:
    since = deeds.in_utc(datetime.fromisoformat(now) - MOMENT)
    return [row for path in batch.notes for row in catalog.just_gone(connection, shelf.id, path, saved[path].id, since)]


def _save_files(connection: Connection, shelf: Shelf, batch: Batch) -> tuple[dict[str, FileRow], list[Incoming]]:
    saved: dict[str, FileRow] = {}
    new: list[Incoming] = []
    for row in batch.rows:
        saved[row.path] = replace(row, id=catalog.save_file(connection, shelf.id, _stem(row.path), row))
    for path, (row, note) in batch.notes.items():
        number = catalog.save_file(connection, shelf.id, _stem(path), row)
        saved[path] = replace(row, id=number)
        pages.keep(connection, number, batch.data[path])
        new += [incoming(number, note.role, memory) for memory in note.memories]
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


def _touch(stores: Stores, shelf: Shelf, rows: list[FileRow]) -> None:
    with stores.ledger.write() as connection:
        for row in rows:
            number = catalog.save_file(connection, shelf.id, _stem(row.path), row)
            shelf.files[row.path] = replace(row, id=number)


def _stem(path: str) -> str:
    return PurePosixPath(path).stem


def _count(report: Report, batch: Batch, changes: _Changes) -> None:
    report.files = len(batch.notes)
    report.removed = len(batch.removed) + len(batch.emptied)
    report.paths = sorted((*batch.notes, *batch.removed, *batch.emptied))[:NAMED]
    report.chunks_added, report.chunks_dropped = len(changes.added), len(changes.dropped)
    report.warnings = [f"{path}: {warning}" for path, (_, note) in batch.notes.items() for warning in note.warnings]


# --- following: the caches ----------------------------------------------------------------------------------


def _follow(stores: Stores, shelf: Shelf, changes: _Changes, report: Report) -> None:
    if changes.added or changes.dropped:
        shelf.text.apply(changes.added, changes.dropped)
    failpoint("after-text")
    known = _follow_vectors(stores, shelf, changes)
    failpoint("after-vectors")
    report.to_embed = len(changes.added) - known
    with stores.ledger.write() as connection:
        # A collection that is not open cannot have followed; it is compared when it opens.
        catalog.mark(connection, shelf.id, text=False, vectors=shelf.collection is None)
        stores.ledger.tick(connection)


def _follow_vectors(stores: Stores, shelf: Shelf, changes: _Changes) -> int:
    """Add what the ledger has a vector for already, then drop what is gone; says how many were known."""
    if stores.model is None:
        return 0
    added = json.dumps([number for number, _ in changes.added])
    ids, vectors = bank.of_chunks(stores.ledger.reader, stores.model.id, added, stores.model.embedder.dims)
    if shelf.mirror is not None:
        shelf.mirror.add(ids, vectors)
        shelf.mirror.drop(changes.dropped)
    if shelf.former is not None:
        shelf.former.drop(changes.dropped)
    _into_collection(stores, shelf, ids, vectors, changes.dropped)
    return len(ids)


def _into_collection(stores: Stores, shelf: Shelf, ids: list[int], vectors: Vectors, dropped: list[int]) -> None:
    """Add first, then drop. A store that fails is given up: the ledger has everything it had."""
    if shelf.collection is None:
        return
    try:
        shelf.collection.add(ids, vectors)
        shelf.collection.drop(dropped)
    except (StoreBroken, DiskFull) as error:
        stores.drop_vectors(error.message)


def save_vectors(stores: Stores, rows: Sequence[Row], vectors: Vectors) -> int:
    """Keep freshly made vectors: in the ledger, then in the collections; says how many."""
    model = stores.model
    if model is None:
        return 0
    digests = [row["digest"] for row in rows]
    with stores.ledger.write() as connection:
        bank.save(connection, model.id, digests, vectors)
        # More than `rows`: an equal text elsewhere has its vector now too, and nobody will ask for it again.
        holders = bank.chunks_with(connection, digests)
        for workspace in holders:
            catalog.mark(connection, workspace, vectors=True)
        stores.ledger.tick(connection)
    failpoint("vectors-in-ledger")
    for shelf in stores.shelves.values():
        mine = json.dumps(holders.get(shelf.id, []))
        # Read back: a chunk that went meanwhile has no row, and every store holds the same rounded numbers.
        ids, kept = bank.of_chunks(stores.ledger.reader, model.id, mine, model.embedder.dims)
        if not ids:
            continue
        if shelf.mirror is not None:
            shelf.mirror.add(ids, kept)
        _into_collection(stores, shelf, ids, kept, [])
        with stores.ledger.write() as connection:
            catalog.mark(connection, shelf.id, vectors=shelf.collection is None)
    stores.embedded += len(rows)
    return len(rows)
