"""Indexes changed files: from paths to all three stores, in an order that survives a kill at any point.

    read → parse → diff → ledger (dirty) → mirror, text → ledger (text clean, clock + 1) … collection → ledger (clean)

The ledger's first commit is the decision; what follows only brings the caches in step, the collection in its own time.
A process that dies in between leaves the workspace marked, and the next start reconciles the caches. Each step takes a
fraction of a second, however much there is to do, and what waits meanwhile can go in between.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from sqlite3 import Row
from typing import Any, Self

from memd.failpoints import failpoint
from memd.indexer.indexing.decide import ChangedMeanwhile, LedgerChanges, SavedMemory, decide
from memd.indexer.indexing.read_files import FileBatch, Restless, read_files
from memd.indexer.indexing.scan import NamesOnDisk, names_in, scan
from memd.indexer.model.pooling import Vectors
from memd.indexer.record import actions
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.catalog import TextState
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.stores import ActiveModel

NAMED = 20
"""Files that a report names; all are counted."""
MOST_BEHIND = 1_000
"""Chunks that the text index is behind the ledger: each commit is a segment, and questions ask all of them."""
HOLD_FILES = 20
"""If more files than this, and more than half, vanish at once, a disk was probably unmounted."""


@dataclass(slots=True)
class IngestReport:
    """The changes of one batch."""

    files: int = 0
    removed: int = 0
    held: int = 0
    chunks_added: int = 0
    chunks_dropped: int = 0
    to_embed: list[int] = field(default_factory=list)
    """The numbers of new chunks that have no vector yet."""
    took_ms: float = 0.0
    paths: list[str] = field(default_factory=list)
    """The files that were indexed or removed."""
    warnings: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)
    more: bool = False
    """Whether this is a piece of something larger."""

    def __str__(self) -> str:
        counts = f"files={self.files} removed={self.removed} chunks=+{self.chunks_added}-{self.chunks_dropped}"
        return f"{counts} embed={len(self.to_embed)} ms={self.took_ms:.0f}"

    def add(self, piece: Self) -> None:
        """Add up what a further piece changed."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(piece, one.name))
        self.more = False

    @property
    def changed(self) -> bool:
        return bool(self.files or self.removed)

    @property
    def figures(self) -> dict[str, Any]:
        """The figures that `watch` tells."""
        figures = {name: getattr(self, name) for name in ("files", "removed", "chunks_added", "chunks_dropped")}
        return {**figures, "paths": self.paths[:NAMED], "took_ms": round(self.took_ms, 1)}


@dataclass(frozen=True, slots=True)
class IndexingOptions:
    """How paths are indexed."""

    accept_missing: bool = False
    """Many files that vanished at once are really gone."""
    deep: bool = False
    """Also parse files whose text has not changed."""
    settle: bool = False
    """Leave a file alone that was written a moment ago: it may be half of it."""
    first: bool = False
    """Go before imports that wait already."""


PLAIN = IndexingOptions()
SETTLED = IndexingOptions(settle=True)


def apply_in_pieces(
    stores: OwnStores, index: OwnIndex, paths: Iterable[str], max_bytes: int, options: IndexingOptions,
    hurry: Callable[[], bool] | None, saved: list[SavedMemory] | None = None, restless: Restless = None,
    now: datetime | None = None,
) -> Iterator[IngestReport]:  # fmt: skip
    """Bring the stores in step with the given paths; yields at the end, and whenever there is a `hurry` or questions
    would miss what was replaced, unless that is None.

    Before it yields, all stores are brought to one state and the clock ticks. `saved` collects the changed memories,
    even if a cache fails afterwards; `restless` says whether a path with its mtime is still being written and waits.
    """
    batches = _Batches(stores, index, options.accept_missing, saved if saved is not None else [], now)
    if options.deep:
        index.applied.clear()
    # What is gone first: a renamed file finds its memories.
    root, names = index.workspace.root, NamesOnDisk(index.workspace)
    todo = deque(sorted(paths, key=lambda path: (os.path.lexists(root / path) and names.spelled(path) == path, path)))
    for _ in batches.take_in(todo, max_bytes, options.deep, restless):
        if hurry is not None and (batches.behind.dropped or hurry()):
            yield batches.settle()
    yield batches.settle(last=True)


@dataclass(slots=True)
class _Batches:
    """Batches of files on their way into the stores; the caches may be some transactions behind the ledger."""

    stores: OwnStores
    index: OwnIndex
    accept_missing: bool
    saved: list[SavedMemory]
    now: datetime | None
    report: IngestReport = field(default_factory=IngestReport)
    """The work since it last settled."""
    since: float = field(default_factory=time.monotonic)
    behind: LedgerChanges = field(default_factory=LedgerChanges)
    """The changes that the ledger has and the caches have not."""
    ticks: bool = False

    def take_in(self, todo: deque[str], max_bytes: int, deep: bool, restless: Restless) -> Iterator[None]:
        """Read the files and bring the ledger in step with them, a piece at a time."""
        while todo:
            _, written = self.stores.ledger.promises().get(self.index.id, (0, ()))
            batch = yield from read_files(self.index, todo, max_bytes, deep, restless, written)
            yield from self._save(batch, written)

    def _save(self, batch: FileBatch, written: Collection[str]) -> Iterator[None]:
        """Bring the ledger in step with a batch; memd wrote to some files itself."""
        batch.add_old_names(self.index)
        # What others found may be newer, and may not be all of it.
        self.report.restless += batch.restless + batch.drop_outdated(self.index)
        if batch.removed and not self.accept_missing:
            _hold(self.index, batch, self.report, written)
        elif self.accept_missing:
            self.index.held = frozenset()
        if batch.notes or batch.removed or batch.emptied:
            # Taken after the files were read: a version never begins before its text was written.
            now = actions.in_utc(self.now) if self.now else actions.now()
            try:
                for changes in decide(self.stores, self.index, batch, now):
                    self._add(changes)
                    yield
            except ChangedMeanwhile:
                self.report.restless += batch.notes
            _count(self.report, batch)
        elif batch.rows:
            with self.stores.ledger.write() as connection:
                saved = {row.path: catalog.save_file(connection, self.index.id, row) for row in batch.rows}
            self.index.files = {**self.index.files, **saved}

    def _add(self, changes: LedgerChanges) -> None:
        self.ticks = True
        self.report.chunks_added += len(changes.added)
        self.report.chunks_dropped += len(changes.dropped)
        self.saved += changes.saved
        if not {number for number, _ in self.behind.added}.isdisjoint(changes.dropped):
            # A text that was written over already.
            self._follow()
        self.behind.added += changes.added
        self.behind.dropped += changes.dropped
        if len(self.behind.added) >= MOST_BEHIND:
            self._follow()

    def settle(self, last: bool = False) -> IngestReport:
        """Bring the caches in step with the ledger, and tell the clock; returns what was done since the last time."""
        if self.ticks:
            self._follow(tick=True)
        report, now = self.report, time.monotonic()
        report.took_ms, report.more = (now - self.since) * 1000, not last
        self.report, self.ticks, self.since = IngestReport(), False, now
        return report

    def _follow(self, tick: bool = False) -> None:
        """Bring the caches in step with the ledger."""
        changes, self.behind = self.behind, LedgerChanges()
        stores, index = self.stores, self.index
        # The vectors first: a full disk can keep the text index from following, but not them.
        known = _follow_vectors(stores, index, changes)
        failpoint("after-vectors")
        if changes.added or changes.dropped:
            if changes.dropped:
                index.text_since = stores.ledger.seq + 1
            index.text.apply(changes.added, changes.dropped)
        failpoint("after-text")
        self.report.to_embed += [number for number, _ in changes.added if number not in known]
        if tick:
            with stores.ledger.write() as connection:
                # Not before: the readers look at the text index again after a tick.
                catalog.mark_text(connection, index.id, TextState.IN_STEP)
                stores.ledger.tick(connection)


def _hold(index: OwnIndex, batch: FileBatch, report: IngestReport, written: Collection[str]) -> None:
    """Hold the memories of files that vanished in a mass, or with their directory; what was renamed has not, and what
    memd removed itself was meant to go."""
    result = scan(index.workspace)
    root, index.missing = index.workspace.root, result.missing
    new = {(seen.inode, seen.mtime_ns): path for path, seen in result.files.items() if path not in index.files}
    moved = {path: new[key] for path, row in index.files.items() if (key := (row.inode, row.mtime_ns)) in new}
    # What is there and left out was excluded by a person.
    gone = index.files.keys() - result.files.keys() - moved.keys()
    vanished = [path for path in gone if not os.path.lexists(root / path)]
    lost = [path for path in vanished if path not in written or not actions.removed(index.reader, index.id, path)]
    many = len(lost) > HOLD_FILES and len(lost) > len(index.files) / 2
    # As where a disk is not mounted; the last file of all may have been deleted.
    empty = len(lost) > 1 and not names_in(root)
    index.held = frozenset(vanished if result.missing else lost if many or empty else ())
    report.held = len(index.held)
    # A renamed file finds its memories if both of its names are read together.
    apart = {path: moved[path] for path in batch.removed if path in moved and moved[path] not in batch.known}
    report.restless += [*apart, *apart.values()]
    batch.removed = [path for path in batch.removed if path not in index.held | apart.keys()]


def _count(report: IngestReport, batch: FileBatch) -> None:
    report.files += len(batch.notes)
    report.removed += len(batch.removed) + len(batch.emptied)
    report.paths += sorted((*batch.notes, *batch.removed, *batch.emptied))
    report.warnings += [f"{path}: {warning}" for path, (_, note) in batch.notes.items() for warning in note.warnings]


# --- the caches ---------------------------------------------------------------------------------------------


def _follow_vectors(stores: OwnStores, index: OwnIndex, changes: LedgerChanges) -> set[int]:
    """Add the vectors that the ledger has already, then drop what is gone; returns the chunks that have one."""
    if stores.model is None:
        return set()
    added = json.dumps([number for number, _ in changes.added])
    for model in reversed(stores.models):
        ids, vectors = vector_table.of_chunks(stores.reader, model.id, added, model.embedder.dims)
        index.follow_vectors(ids, vectors, model.id)
    index.drop_vectors(changes.dropped)
    return set(ids)


def save_vectors(stores: OwnStores, model: ActiveModel, rows: Sequence[Row], vectors: Iterable[Vectors]) -> None:
    """Keep new vectors: in the ledger, then in the mirrors. The collections follow by themselves."""
    digests = [row["digest"] for row in rows]
    with stores.ledger.write() as connection:
        vector_table.save(connection, model.id, digests, vectors)
        # More than `rows`: chunks elsewhere with an equal text have their vector now too.
        holders = vector_table.chunks_with(connection, digests)
        stores.ledger.tick(connection)
    failpoint("vectors-in-ledger")
    for index in [index for index in stores.indexes.values() if index.id in holders]:
        mine = json.dumps(holders[index.id])
        # Read back: a chunk that has gone meanwhile has no row, and every store holds the same rounded numbers.
        ids, kept = vector_table.of_chunks(stores.reader, model.id, mine, model.embedder.dims)
        index.follow_vectors(ids, kept, model.id)
    stores.embedded += len(rows)
