"""Indexes changed files: from paths to all three stores, in an order that survives a kill at any point.

    read → parse → diff → ledger (dirty) → text, vectors → ledger (clean, clock + 1)

The ledger's first commit is the decision; what follows only brings the caches in step. A process that dies in between
leaves the workspace marked, and the next start reconciles the caches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sqlite3 import Row
from typing import Any

from memd.errors import DiskFull, StoreBroken
from memd.failpoints import failpoint
from memd.indexer.indexing.decide import LedgerChanges, SavedMemory, decide
from memd.indexer.indexing.read_files import FileBatch, read_files
from memd.indexer.indexing.scan import scan
from memd.indexer.model.pooling import Vectors
from memd.indexer.record import actions
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.stores import Stores, WorkspaceIndex

NAMED = 20
"""Files that a report names; all are counted."""
HOLD_FILES = 20
"""If more files than this, and more than half, vanish at once, a disk was probably unmounted."""


@dataclass(slots=True)
class IngestReport:
    """What one batch changed."""

    files: int = 0
    removed: int = 0
    held: int = 0
    chunks_added: int = 0
    chunks_dropped: int = 0
    to_embed: int = 0
    took_ms: float = 0.0
    paths: list[str] = field(default_factory=list)
    """The first twenty files that were indexed or removed."""
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
        """What `watch` tells of it."""
        names = ("files", "removed", "chunks_added", "chunks_dropped", "paths")
        return {name: getattr(self, name) for name in names} | {"took_ms": round(self.took_ms, 1)}


def apply(
    stores: Stores, index: WorkspaceIndex, paths: Iterable[str], max_bytes: int, *, accept_missing: bool = False,
    deep: bool = False, restless: Callable[[str, int], bool] | None = None, saved: list[SavedMemory] | None = None,
    now: datetime | None = None,
) -> IngestReport:  # fmt: skip
    """Bring the stores in step with the given paths.

    `deep`: also parse files whose text has not changed. `restless`: whether a path with its mtime is still being
    written and must wait. `saved` collects the changed memories, even if a cache fails afterwards.
    """
    started = time.monotonic()
    report = IngestReport()
    if deep:
        index.applied.clear()
    batch = read_files(index, sorted(paths), max_bytes, deep, restless)
    report.restless = batch.restless
    if batch.removed and not accept_missing:
        _hold(index, batch, report)
    elif accept_missing:
        index.held = frozenset()
    if batch.notes or batch.removed or batch.emptied:
        changes = decide(stores, index, batch, actions.in_utc(now) if now else actions.now())
        _count(report, batch, changes)
        if saved is not None:
            saved += changes.saved
        _follow(stores, index, changes, report)
    elif batch.rows:
        with stores.ledger.write() as connection:
            index.files |= {row.path: catalog.save_file(connection, index.id, row) for row in batch.rows}
    report.took_ms = (time.monotonic() - started) * 1000
    return report


def _hold(index: WorkspaceIndex, batch: FileBatch, report: IngestReport) -> None:
    """Hold the memories of files that vanished in a mass, or with their directory."""
    result = scan(index.workspace)
    index.missing = result.missing
    vanished = index.files.keys() - result.files.keys()
    many = len(vanished) > HOLD_FILES and len(vanished) > len(index.files) / 2
    index.held = frozenset(vanished if many or result.missing else ())
    if index.held:
        report.held = len(vanished)
        batch.removed.clear()


def _count(report: IngestReport, batch: FileBatch, changes: LedgerChanges) -> None:
    report.files = len(batch.notes)
    report.removed = len(batch.removed) + len(batch.emptied)
    report.paths = sorted((*batch.notes, *batch.removed, *batch.emptied))[:NAMED]
    report.chunks_added, report.chunks_dropped = len(changes.added), len(changes.dropped)
    report.warnings = [f"{path}: {warning}" for path, (_, note) in batch.notes.items() for warning in note.warnings]


# --- the caches ---------------------------------------------------------------------------------------------


def _follow(stores: Stores, index: WorkspaceIndex, changes: LedgerChanges, report: IngestReport) -> None:
    if changes.added or changes.dropped:
        index.text.apply(changes.added, changes.dropped)
    failpoint("after-text")
    known = _follow_vectors(stores, index, changes)
    failpoint("after-vectors")
    report.to_embed = len(changes.added) - known
    with stores.ledger.write() as connection:
        # A collection that is not open is reconciled when it opens.
        catalog.mark(connection, index.id, text=False, vectors=index.collection is None)
        stores.ledger.tick(connection)


def _follow_vectors(stores: Stores, index: WorkspaceIndex, changes: LedgerChanges) -> int:
    """Add the vectors that the ledger has already, then drop what is gone; returns how many were known."""
    if stores.model is None:
        return 0
    added = json.dumps([number for number, _ in changes.added])
    ids, vectors = vector_table.of_chunks(stores.ledger.reader, stores.model.id, added, stores.model.embedder.dims)
    _add_vectors(stores, index, ids, vectors, changes.dropped)
    return len(ids)


def _add_vectors(
    stores: Stores, index: WorkspaceIndex, ids: list[int], vectors: Vectors, dropped: Sequence[int] = ()
) -> None:
    """Add first, then drop. A collection that fails is given up: the ledger has all of it."""
    index.follow_vectors(ids, vectors, dropped)
    if index.collection is None:
        return
    try:
        index.collection.add(ids, vectors)
        index.collection.drop(dropped)
    except (StoreBroken, DiskFull) as error:
        stores.drop_vectors(error.message)


def save_vectors(stores: Stores, rows: Sequence[Row], vectors: Vectors) -> int:
    """Keep new vectors: in the ledger, then in the collections; returns how many."""
    model = stores.model
    if model is None:
        return 0
    digests = [row["digest"] for row in rows]
    with stores.ledger.write() as connection:
        vector_table.save(connection, model.id, digests, vectors)
        # More than `rows`: chunks elsewhere with an equal text have their vector now too.
        holders = vector_table.chunks_with(connection, digests)
        for workspace in holders:
            catalog.mark(connection, workspace, vectors=True)
        stores.ledger.tick(connection)
    failpoint("vectors-in-ledger")
    for index in [index for index in stores.indexes.values() if index.id in holders]:
        mine = json.dumps(holders[index.id])
        # Read back: a chunk that has gone meanwhile has no row, and every store holds the same rounded numbers.
        ids, kept = vector_table.of_chunks(stores.ledger.reader, model.id, mine, model.embedder.dims)
        if not ids:
            continue
        _add_vectors(stores, index, ids, kept)
        with stores.ledger.write() as connection:
            catalog.mark(connection, index.id, vectors=index.collection is None)
    stores.embedded += len(rows)
    return len(rows)
