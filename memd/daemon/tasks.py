"""Everything the writer can be asked to do, a sentence each."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Row
from typing import TYPE_CHECKING, Any

from memd.daemon import living
from memd.daemon.events import WRITTEN, written
from memd.daemon.imports import PLAIN, How, Job
from memd.daemon.turns import Patient, Writing
from memd.daemon.worker import Worker
from memd.errors import StoreBroken
from memd.indexer.actions import writing
from memd.indexer.actions.recover import recover
from memd.indexer.intake import ingest
from memd.indexer.intake.look import changed_paths
from memd.indexer.intake.scan import Scan as Found
from memd.indexer.intake.scan import newest_first, scan
from memd.indexer.model.pooling import Vectors
from memd.indexer.record import history
from memd.indexer.store import bank, catalog
from memd.indexer.store.stores import Shelf
from memd.indexer.upkeep.reconcile import reconcile_text, reconcile_vectors
from memd.models import Workspace

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.store.vectors import VectorStore

log = logging.getLogger("memd.tasks")

MOST_CHANGED = 500
"""Chunks that may differ from what was joined elsewhere: adding them takes less than a second."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to keep a workspace: open its shelf and mend what a killed process left."""

    workspace: Workspace

    def run(self, worker: Worker) -> Shelf:
        shelf = worker.stores.open_shelf(self.workspace)
        worker.stores.load_mirror(shelf)
        worker.stores.open_collection(shelf)
        return shelf


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop a workspace's index and rows, never its files."""

    ns: str

    def run(self, worker: Worker) -> None:
        worker.stores.forget(worker.stores.shelf(self.ns))
        worker.health.clear(f"held:{self.ns}")


@dataclass(frozen=True, slots=True)
class Scan:
    """Compare every file with the ledger and import what differs; the future waits for the import."""

    ns: tuple[str, ...] = ()
    how: How = PLAIN

    def run(self, worker: Worker) -> Job:
        job = Job(Future(), 0)
        names = self.ns or tuple(worker.stores.shelves)
        found = [(worker.stores.shelf(ns), self._look(worker, worker.stores.shelf(ns))) for ns in names]
        todo = [(shelf, seen, _order(shelf, seen, self.how.deep)) for shelf, seen in found]
        job.total = sum(len(paths) for _, _, paths in todo)
        for shelf, seen, paths in todo:
            sizes = {path: stat.size for path, stat in seen.files.items()}
            worker.enqueue(shelf, paths, sizes, job, self.how)
        return job

    def _look(self, worker: Worker, shelf: Shelf) -> Found:
        mend(worker, shelf)
        seen = scan(shelf.workspace)
        shelf.missing, shelf.skipped = seen.missing, seen.skipped
        if not seen.missing and not (shelf.held - seen.files.keys()):
            shelf.held = frozenset()
            worker.health.clear(f"held:{shelf.workspace.ns}")
        return seen


def _order(shelf: Shelf, seen: Found, deep: bool) -> list[str]:
    """What vanished first, so that a renamed file finds its memories; then the newest."""
    paths = changed_paths(shelf, seen) | (seen.files.keys() if deep else set())
    gone = sorted(path for path in paths if path not in seen.files)
    return gone + list(newest_first(paths - set(gone), seen.files))


def mend(worker: Worker, shelf: Shelf) -> None:
    """Compare the caches with the ledger where the ledger says that they may differ."""
    row = worker.stores.ledger.reader.execute("SELECT * FROM workspaces WHERE id = ?", (shelf.id,)).fetchone()
    wanted = catalog.counts(worker.stores.ledger.reader, shelf.id)["chunks"]
    if row["text_dirty"] or shelf.text.count() != wanted:
        mend_text(worker, shelf)
    if shelf.collection is not None and row["vectors_dirty"]:
        mend_vectors(worker, shelf)


def mend_vectors(worker: Worker, shelf: Shelf) -> None:
    differed = reconcile_vectors(worker.stores, shelf)
    log.info("vectors compared ns=%s differed=%d", shelf.workspace.ns, differed)


def mend_text(worker: Worker, shelf: Shelf) -> int:
    try:
        differed = reconcile_text(worker.stores, shelf)
    except StoreBroken as error:
        log.warning("%s", error)
        worker.stores.renew_text(shelf)
        differed = reconcile_text(worker.stores, shelf)
    log.log(
        logging.INFO if differed else logging.DEBUG, "text compared ns=%s differed=%d", shelf.workspace.ns, differed
    )
    return differed


@dataclass(frozen=True, slots=True)
class RenewText:
    """Put a text index aside that could not be read, and make it again from the ledger."""

    ns: str

    def run(self, worker: Worker) -> int:
        shelf = worker.stores.shelf(self.ns)
        try:
            shelf.text.verify()
        except StoreBroken as error:
            log.warning("ns=%s: %s", self.ns, error)
            worker.stores.renew_text(shelf)
        return mend_text(worker, shelf)


@dataclass(frozen=True, slots=True)
class Write(Writing):
    """Change files for someone; the answer comes when they are on the disk, the index follows at once."""

    ns: str
    deed: writing.Deed

    def run(self, worker: Worker) -> writing.Done:
        done = writing.perform(worker.stores, worker.stores.shelf(self.ns), self.deed)
        if not done.repeated:
            worker.events.tell(WRITTEN, ns=self.ns, **written(self.deed.who, self.deed.what, done))
        return _promised(worker, self.ns, done)


@dataclass(frozen=True, slots=True)
class Undo(Writing):
    """Take back what an action changed."""

    ns: str
    action: int
    who: str

    def run(self, worker: Worker) -> writing.Done:
        shelf = worker.stores.shelf(self.ns)
        done = writing.undo(worker.stores, shelf, self.action, self.who)
        worker.events.tell(WRITTEN, ns=self.ns, **written(self.who, "undo", done))
        living.announce_moved_by(worker, done.action)
        return _promised(worker, self.ns, done)


def _promised(worker: Worker, ns: str, done: writing.Done) -> writing.Done:
    """The deed with the clock at which questions see it; only this thread moves the clock."""
    ledger = worker.stores.ledger
    return replace(done, visible=f"c:{ledger.id}:{ledger.seq + worker.soon(ns, done.paths if done.changed else ())}")


@dataclass(frozen=True, slots=True)
class Recover:
    """Decide what became of deeds that a killed process left half-way, before anything else is read or written."""

    def run(self, worker: Worker) -> list[str]:
        return [copy for shelf in worker.stores.shelves.values() for copy in recover(worker.stores, shelf)]


@dataclass(frozen=True, slots=True)
class ForgetPast:
    """Drop former texts of memories that ceased to be current before a moment."""

    before: str

    def run(self, worker: Worker) -> int:
        with worker.stores.ledger.write() as connection:
            return history.expire(connection, self.before)


@dataclass(frozen=True, slots=True)
class SwapText:
    """Use a text index that another process built, and add what changed meanwhile."""

    ns: str
    fresh: Path

    def run(self, worker: Worker) -> int:
        shelf = worker.stores.shelf(self.ns)
        worker.stores.swap_text(shelf, self.fresh)
        return mend_text(worker, shelf)


@dataclass(frozen=True, slots=True)
class UseJoined:
    """Use a text index that was joined elsewhere, or leave it when too much happened meanwhile; says which."""

    shelf: Shelf
    fresh: Path
    known: set[int]
    """The chunks of the index when the joining began."""

    def run(self, worker: Worker) -> bool:
        stores, shelf = worker.stores, self.shelf
        if stores.shelves.get(shelf.workspace.ns) is not shelf or worker.importing:
            return False
        if len(self.known ^ shelf.text.ids()) > MOST_CHANGED:
            return False
        stores.swap_text(shelf, self.fresh)
        mend_text(worker, shelf)
        return True


@dataclass(frozen=True, slots=True)
class RenewVectors:
    """Make a workspace's collection anew from the vectors in the ledger."""

    ns: str

    def run(self, worker: Worker) -> int:
        stores, shelf = worker.stores, worker.stores.shelf(self.ns)
        stores.load_mirror(shelf)
        if stores.vectors is not None:
            stores.vectors.drop(shelf.id)
            stores.open_collection(shelf)
        return reconcile_vectors(stores, shelf)


@dataclass(frozen=True, slots=True)
class UseModel:
    """Begin to embed with a model; vectors of another one are not used."""

    embedder: Embedder
    source: str

    def run(self, worker: Worker) -> None:
        worker.stores.use_model(self.embedder, self.source)


@dataclass(frozen=True, slots=True)
class UseFormer:
    """Let the model before answer questions while the vectors are made anew."""

    number: int
    embedder: Embedder

    def run(self, worker: Worker) -> None:
        worker.stores.use_former(self.number, self.embedder)


@dataclass(frozen=True, slots=True)
class UseVectors:
    """Begin to use the collections, comparing those that may differ."""

    vectors: VectorStore

    def run(self, worker: Worker) -> None:
        stores = worker.stores
        stores.use_vectors(self.vectors)
        for leftover in self.vectors.workspaces() - {shelf.id for shelf in stores.shelves.values()}:
            self.vectors.drop(leftover)
        for shelf in stores.shelves.values():
            mirror = len(shelf.mirror) if shelf.mirror is not None else 0
            dirty = stores.ledger.reader.execute(
                "SELECT vectors_dirty FROM workspaces WHERE id = ?", (shelf.id,)
            ).fetchone()[0]
            if shelf.collection is not None and (dirty or shelf.collection.count() != mirror):
                mend_vectors(worker, shelf)


@dataclass(frozen=True, slots=True)
class GiveUpVectors:
    """Close a Chroma that fails, so that it can be looked at and opened again."""

    why: str

    def run(self, worker: Worker) -> None:
        worker.stores.drop_vectors(self.why)


@dataclass(frozen=True, slots=True)
class SaveVectors(Patient):
    """Keep freshly made vectors: in the ledger, then in the collection."""

    rows: list[Row]
    vectors: Vectors

    def run(self, worker: Worker) -> int:
        return ingest.save_vectors(worker.stores, self.rows, self.vectors)


@dataclass(frozen=True, slots=True)
class ForgetOldModels:
    """Drop the vectors and collections of models that are no longer used."""

    def run(self, worker: Worker) -> None:
        stores = worker.stores
        if stores.model is None:
            return
        stores.drop_former()
        with stores.ledger.write() as connection:
            bank.forget_other_models(connection, stores.model.id)
            bank.sweep(connection)
        if stores.vectors is not None:
            for shelf in stores.shelves.values():
                stores.vectors.drop(shelf.id, keep_model=stores.model.id)


@dataclass(frozen=True, slots=True)
class Call:
    """Run something that must not meet another write, such as the doctor."""

    what: Any

    def run(self, worker: Worker) -> Any:
        return self.what()
