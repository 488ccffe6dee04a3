"""Everything the writer can be asked to do, a sentence each."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Row
from typing import TYPE_CHECKING, Any

from memd.config.schema import Settings
from memd.daemon import lifecycle
from memd.daemon.events import WRITTEN, written
from memd.daemon.indexing import PLAIN, IndexingJob, IndexingOptions
from memd.daemon.task_queue import BackgroundTask, WriteTask
from memd.daemon.worker import Worker
from memd.errors import StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import ScanResult as Found
from memd.indexer.indexing.scan import newest_first, scan
from memd.indexer.maintenance import doctor
from memd.indexer.maintenance.doctor import DoctorFinding
from memd.indexer.maintenance.reconcile import reconcile_text, reconcile_vectors
from memd.indexer.model.pooling import Vectors
from memd.indexer.record import history
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import exams
from memd.indexer.writing import purge, write_files
from memd.indexer.writing.undo import undo
from memd.models import Workspace

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.store.vectors import VectorStore

log = logging.getLogger("memd.tasks")

MOST_CHANGED = 500
"""Chunks that may differ from what was joined elsewhere: adding them takes less than a second."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to keep a workspace: open its index and mend what a killed process left."""

    workspace: Workspace

    def run(self, worker: Worker) -> WorkspaceIndex:
        index = worker.stores.open_index(self.workspace)
        worker.stores.load_mirror(index)
        worker.stores.open_collection(index)
        return index


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop a workspace's index and rows, never its files."""

    ns: str

    def run(self, worker: Worker) -> None:
        worker.stores.forget(worker.stores.index(self.ns))
        worker.health.clear(f"held:{self.ns}")


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Compare every file with the ledger and import what differs; the future waits for the import."""

    ns: tuple[str, ...] = ()
    how: IndexingOptions = PLAIN

    def run(self, worker: Worker) -> IndexingJob:
        job = IndexingJob(Future(), 0)
        names = self.ns or tuple(worker.stores.indexes)
        found = [(worker.stores.index(ns), self._look(worker, worker.stores.index(ns))) for ns in names]
        todo = [(index, seen, _order(index, seen, self.how.deep)) for index, seen in found]
        job.total = sum(len(paths) for _, _, paths in todo)
        for index, seen, paths in todo:
            sizes = {path: stat.size for path, stat in seen.files.items()}
            worker.enqueue(index, paths, sizes, job, self.how)
        return job

    def _look(self, worker: Worker, index: WorkspaceIndex) -> Found:
        mend(worker, index)
        seen = scan(index.workspace)
        index.missing, index.skipped = seen.missing, seen.skipped
        if not seen.missing and not (index.held - seen.files.keys()):
            index.held = frozenset()
            worker.health.clear(f"held:{index.workspace.ns}")
        return seen


def _order(index: WorkspaceIndex, seen: Found, deep: bool) -> list[str]:
    """What vanished first, so that a renamed file finds its memories; then the newest."""
    paths = changed_paths(index, seen) | (seen.files.keys() if deep else set())
    gone = sorted(path for path in paths if path not in seen.files)
    return gone + list(newest_first(paths - set(gone), seen.files))


def mend(worker: Worker, index: WorkspaceIndex) -> None:
    """Compare the caches with the ledger where the ledger says that they may differ."""
    row = worker.stores.ledger.reader.execute("SELECT * FROM workspaces WHERE id = ?", (index.id,)).fetchone()
    wanted = catalog.counts(worker.stores.ledger.reader, index.id)["chunks"]
    if row["text_dirty"] or index.text.count() != wanted:
        mend_text(worker, index)
    if index.collection is not None and row["vectors_dirty"]:
        mend_vectors(worker, index)


def mend_vectors(worker: Worker, index: WorkspaceIndex) -> None:
    differed = reconcile_vectors(worker.stores, index)
    log.info("vectors compared ns=%s differed=%d", index.workspace.ns, differed)


def mend_text(worker: Worker, index: WorkspaceIndex) -> int:
    try:
        differed = reconcile_text(worker.stores, index)
    except StoreBroken as error:
        log.warning("%s", error)
        worker.stores.renew_text(index)
        differed = reconcile_text(worker.stores, index)
    log.log(
        logging.INFO if differed else logging.DEBUG, "text compared ns=%s differed=%d", index.workspace.ns, differed
    )
    return differed


@dataclass(frozen=True, slots=True)
class RenewText:
    """Put a text index aside that could not be read, and make it again from the ledger."""

    ns: str

    def run(self, worker: Worker) -> int:
        index = worker.stores.index(self.ns)
        try:
            index.text.verify()
        except StoreBroken as error:
            log.warning("ns=%s: %s", self.ns, error)
            worker.stores.renew_text(index)
        return mend_text(worker, index)


@dataclass(frozen=True, slots=True)
class Write(WriteTask):
    """Change files for someone; the answer comes when they are on the disk, the index follows at once."""

    ns: str
    write_action: write_files.WriteAction

    def run(self, worker: Worker) -> write_files.ActionResult:
        done = write_files.perform(worker.stores, worker.stores.index(self.ns), self.write_action)
        if not done.repeated:
            worker.events.tell(WRITTEN, ns=self.ns, **written(self.write_action.who, self.write_action.what, done))
        return _promised(worker, self.ns, done)


@dataclass(frozen=True, slots=True)
class UndoTask(WriteTask):
    """Take back what an action changed."""

    ns: str
    action: int
    who: str

    def run(self, worker: Worker) -> write_files.ActionResult:
        index = worker.stores.index(self.ns)
        done = undo(worker.stores, index, self.action, self.who)
        worker.events.tell(WRITTEN, ns=self.ns, **written(self.who, "undo", done))
        lifecycle.announce_moved_by(worker, done.action)
        return _promised(worker, self.ns, done)


def _promised(worker: Worker, ns: str, done: write_files.ActionResult) -> write_files.ActionResult:
    """The action with the clock at which questions see it; only this thread moves the clock."""
    ledger = worker.stores.ledger
    return replace(done, visible=f"c:{ledger.id}:{ledger.seq + worker.soon(ns, done.paths if done.changed else ())}")


@dataclass(frozen=True, slots=True)
class Recover:
    """Decide what became of actions that a killed process left half-way, before anything else is read or written."""

    def run(self, worker: Worker) -> list[str]:
        return [copy for index in worker.stores.indexes.values() for copy in write_files.recover(worker.stores, index)]


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
        index = worker.stores.index(self.ns)
        worker.stores.swap_text(index, self.fresh)
        return mend_text(worker, index)


@dataclass(frozen=True, slots=True)
class UseJoined:
    """Use a text index that was joined elsewhere, or leave it when too much happened meanwhile; says which."""

    index: WorkspaceIndex
    fresh: Path
    known: set[int]
    """The chunks of the index when the joining began."""

    def run(self, worker: Worker) -> bool:
        stores, index = worker.stores, self.index
        if stores.indexes.get(index.workspace.ns) is not index or worker.importing:
            return False
        if len(self.known ^ index.text.ids()) > MOST_CHANGED:
            return False
        stores.swap_text(index, self.fresh)
        mend_text(worker, index)
        return True


@dataclass(frozen=True, slots=True)
class RenewVectors:
    """Make a workspace's collection anew from the vectors in the ledger."""

    ns: str

    def run(self, worker: Worker) -> int:
        stores, index = worker.stores, worker.stores.index(self.ns)
        stores.load_mirror(index)
        if stores.vectors is not None:
            stores.vectors.drop(index.id)
            stores.open_collection(index)
        return reconcile_vectors(stores, index)


@dataclass(frozen=True, slots=True)
class UseModel:
    """Begin to embed with a model; vectors of another one are not used."""

    embedder: Embedder
    source: str

    def run(self, worker: Worker) -> None:
        worker.stores.use_model(self.embedder, self.source)


@dataclass(frozen=True, slots=True)
class UseFormerModel:
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
        for leftover in self.vectors.workspaces() - {index.id for index in stores.indexes.values()}:
            self.vectors.drop(leftover)
        for index in stores.indexes.values():
            mirror = len(index.mirror) if index.mirror is not None else 0
            dirty = stores.ledger.reader.execute(
                "SELECT vectors_dirty FROM workspaces WHERE id = ?", (index.id,)
            ).fetchone()[0]
            if index.collection is not None and (dirty or index.collection.count() != mirror):
                mend_vectors(worker, index)


@dataclass(frozen=True, slots=True)
class GiveUpVectors:
    """Close a Chroma that fails, so that it can be looked at and opened again."""

    why: str

    def run(self, worker: Worker) -> None:
        worker.stores.drop_vectors(self.why)


@dataclass(frozen=True, slots=True)
class SaveVectors(BackgroundTask):
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
            vector_table.forget_other_models(connection, stores.model.id)
            vector_table.sweep(connection)
        if stores.vectors is not None:
            for index in stores.indexes.values():
                stores.vectors.drop(index.id, keep_model=stores.model.id)


@dataclass(frozen=True, slots=True)
class Purge:
    """Forget a memory that is gone from the files: its history, its vectors, every copy."""

    ns: str
    memory: int

    def run(self, worker: Worker) -> dict[str, Any]:
        return dict(purge.purge(worker.stores, worker.stores.index(self.ns), self.memory))


@dataclass(frozen=True, slots=True)
class KeepExam:
    """Note the result of a nightly exam, unless the workspace was removed meanwhile."""

    ns: str
    workspace: int
    day: str
    result: dict[str, Any]

    def run(self, worker: Worker) -> None:
        index = worker.stores.indexes.get(self.ns)
        if index is not None and index.id == self.workspace:
            with worker.stores.ledger.write() as connection:
                exams.keep(connection, self.workspace, self.day, self.result)


@dataclass(frozen=True, slots=True)
class Examine:
    """Check the stores against each other, and repair them with `fix`; no other write may happen meanwhile."""

    settings: Settings
    fix: bool

    def run(self, worker: Worker) -> list[DoctorFinding]:
        return doctor.examine(worker.stores, self.settings, self.fix, running=True)


@dataclass(frozen=True, slots=True)
class CallTask:
    """Run something that must not meet another write, such as the doctor."""

    what: Any

    def run(self, worker: Worker) -> Any:
        return self.what()
