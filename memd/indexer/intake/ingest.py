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
from datetime import datetime
from sqlite3 import Row
from typing import Any

from memd.errors import DiskFull, StoreBroken
from memd.failpoints import failpoint
from memd.indexer.intake.decide import Changes, Saved, decide, stem
from memd.indexer.intake.look import Batch, look
from memd.indexer.intake.scan import scan
from memd.indexer.model.pooling import Vectors
from memd.indexer.record import deeds
from memd.indexer.store import bank, catalog
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.stores import Shelf, Stores

NAMED = 20
"""So many files are named in a report; the figures count all."""
HOLD_FILES = 20
"""When more files than this, and more than half, vanish at once, a disk was unmounted rather than a memory lost."""


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

    def __str__(self) -> str:
        counts = f"files={self.files} removed={self.removed} chunks=+{self.chunks_added}-{self.chunks_dropped}"
        return f"{counts} embed={self.to_embed} ms={self.took_ms:.0f}"

    @property
    def changed(self) -> bool:
        return bool(self.files or self.removed)

    @property
    def figures(self) -> dict[str, Any]:
        """What was done, for those who watch."""
        names = ("files", "removed", "chunks_added", "chunks_dropped", "paths")
        return {name: getattr(self, name) for name in names} | {"took_ms": round(self.took_ms, 1)}


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
    if deep:
        shelf.applied.clear()
    batch = look(shelf, sorted(paths), max_bytes, deep, restless)
    report.restless = batch.restless
    if batch.removed and not accept_missing:
        _hold(shelf, batch, report)
    elif accept_missing:
        shelf.held = frozenset()
    if batch.notes or batch.removed or batch.emptied:
        changes = decide(stores, shelf, batch, deeds.in_utc(now) if now else deeds.now())
        _count(report, batch, changes)
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


def _touch(stores: Stores, shelf: Shelf, rows: list[FileRow]) -> None:
    with stores.ledger.write() as connection:
        for row in rows:
            number = catalog.save_file(connection, shelf.id, stem(row.path), row)
            shelf.files[row.path] = replace(row, id=number)


def _count(report: Report, batch: Batch, changes: Changes) -> None:
    report.files = len(batch.notes)
    report.removed = len(batch.removed) + len(batch.emptied)
    report.paths = sorted((*batch.notes, *batch.removed, *batch.emptied))[:NAMED]
    report.chunks_added, report.chunks_dropped = len(changes.added), len(changes.dropped)
    report.warnings = [f"{path}: {warning}" for path, (_, note) in batch.notes.items() for warning in note.warnings]


# --- following: the caches ----------------------------------------------------------------------------------


def _follow(stores: Stores, shelf: Shelf, changes: Changes, report: Report) -> None:
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


def _follow_vectors(stores: Stores, shelf: Shelf, changes: Changes) -> int:
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
