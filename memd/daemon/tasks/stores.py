"""Tasks that look after the stores: the text index, the model and its vectors, the ledger's file."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Row
from typing import TYPE_CHECKING

from memd.config.schema import Settings
from memd.daemon.task_queue import BackgroundTask, Task
from memd.daemon.worker import Worker
from memd.errors import LedgerDamaged, StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.maintenance import doctor
from memd.indexer.maintenance.doctor import DoctorFinding
from memd.indexer.maintenance.reconcile import reconcile_text
from memd.indexer.model import multilingual
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.ledger import LedgerPlace
from memd.indexer.store.stores import ActiveModel, WorkspaceIndex

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.store.vectors import VectorStore

log = logging.getLogger("memd.tasks")

MOST_CHANGED = 500
"""Chunks that may differ from what was built elsewhere: adding them takes less than a second."""


# --- the text index -------------------------------------------------------------------------------------------


class RepairText(Task[int]):
    """Compare a text index with the ledger, after making it anew if it cannot be read; returns what differed."""

    ns: str

    def run(self, worker: Worker) -> int:
        index = worker.stores.index(self.ns)
        worker.stores.suspect_text(index)
        try:
            index.text.verify()
        except StoreBroken as error:
            log.warning("ns=%s: %s", self.ns, error)
            worker.stores.renew_text(index)
        return repair_text(worker, index)


class UseBuiltText(Task[bool]):
    """Use a text index that another process built, and add what changed meanwhile; says whether it is used.

    With `known`, the chunks of the index when the building began, it is not used when too much happened since.
    """

    index: WorkspaceIndex
    fresh: Path
    known: set[int] | None = None

    def run(self, worker: Worker) -> bool:
        stores, index = worker.stores, self.index
        if stores.indexes.get(index.workspace.ns) is not index:
            return False
        if self.known is not None and (worker.importing or len(self.known ^ index.text.ids()) > MOST_CHANGED):
            return False
        stores.swap_text(index, self.fresh)
        repair_text(worker, index)
        return True


def repair_text(worker: Worker, index: WorkspaceIndex) -> int:
    try:
        differed = reconcile_text(worker.stores, index)
    except StoreBroken as error:
        log.warning("%s", error)
        worker.stores.renew_text(index)
        differed = reconcile_text(worker.stores, index)
    level = logging.INFO if differed else logging.DEBUG
    log.log(level, "text compared ns=%s differed=%d", index.workspace.ns, differed)
    return differed


# --- the model and its vectors --------------------------------------------------------------------------------


class UseModel(Task[None]):
    """Begin to embed with a model; the one before it answers until that is done. The collections follow the new one."""

    embedder: Embedder
    source: str

    def run(self, worker: Worker) -> None:
        stores = worker.stores
        stores.use_model(self.embedder, self.source)
        if stores.vectors is not None:
            stores.use_vectors(stores.vectors)


class UseNoModel(Task[None]):
    """Answer by words alone from now on."""

    def run(self, worker: Worker) -> None:
        worker.stores.use_no_model()


class DropFormerModel(Task[None]):
    """Answer with the vectors of the new model, though they are not complete."""

    def run(self, worker: Worker) -> None:
        worker.stores.drop_former()


class DropMultilingualModel(Task[None]):
    """Embed no text in another language with a model of its own any more; the ledger keeps the vectors."""

    def run(self, worker: Worker) -> None:
        worker.stores.drop_multilingual()


class UseFormerModel(Task[None]):
    """Let the former model answer questions while the vectors are made anew."""

    number: int
    embedder: Embedder

    def run(self, worker: Worker) -> None:
        worker.stores.use_former(self.number, self.embedder)


class UseMultilingualModel(Task[None]):
    """Begin to embed texts and questions in other languages with a model of their own."""

    embedder: Embedder

    def run(self, worker: Worker) -> None:
        worker.stores.use_multilingual(self.embedder)


class SaveLanguages(BackgroundTask[None]):
    """Keep the languages of chunks, by their numbers."""

    languages: list[tuple[str, int]]

    def run(self, worker: Worker) -> None:
        with worker.stores.ledger.write() as connection:
            catalog.save_languages(connection, self.languages)


class MarkPolyglot(Task[None]):
    """Note that workspaces were asked in another language: all their chunks get vectors for that."""

    ns: tuple[str, ...]

    def run(self, worker: Worker) -> None:
        indexes = [worker.stores.index(ns) for ns in self.ns]
        with worker.stores.ledger.write() as connection:
            for index in indexes:
                catalog.mark_polyglot(connection, index.id)
        for index in indexes:
            index.polyglot = True


class UseVectors(Task[None]):
    """Begin to use the collections, which catch up by themselves where they may differ."""

    vectors: VectorStore

    def run(self, worker: Worker) -> None:
        worker.stores.use_vectors(self.vectors)


class MarkInStep(BackgroundTask[None]):
    """Note in the ledger that a workspace's collection has followed, unless it was touched again since."""

    workspace: int

    def run(self, worker: Worker) -> None:
        ingest.mark_in_step(worker.stores, self.workspace)


class MarkBehind(Task[None]):
    """Note in the ledger which collections have to follow, after something happened to all of them."""

    def run(self, worker: Worker) -> None:
        worker.stores.mark_behind(*worker.stores.indexes.values())


class SaveVectors(BackgroundTask[None]):
    """Keep freshly made vectors: in the ledger, then in the mirror; the collection follows."""

    model: ActiveModel
    rows: list[Row]
    vectors: Iterable[Vectors]

    def run(self, worker: Worker) -> None:
        ingest.save_vectors(worker.stores, self.model, self.rows, self.vectors)


class RebuildVectors(Task[None]):
    """Have a workspace's mirror and collection made anew from the vectors in the ledger."""

    ns: str

    def run(self, worker: Worker) -> None:
        index = worker.stores.index(self.ns)
        index.drop_mirrors()
        worker.stores.renew_collection(index)


class ForgetOldModels(Task[None]):
    """Drop the vectors and collections of models that are no longer used; those for other languages stay."""

    def run(self, worker: Worker) -> None:
        stores = worker.stores
        if stores.model is None:
            return
        stores.drop_former()
        with stores.ledger.write() as connection:
            vector_table.forget_other_models(connection, stores.model.embedder.fingerprint, multilingual.FINGERPRINT)
            vector_table.sweep(connection)
        if stores.vectors is not None:
            stores.vectors.sweep()


# --- all of them ----------------------------------------------------------------------------------------------


class ExamineStores(Task[list[DoctorFinding]]):
    """Check the stores against each other, and repair them with `fix`; no other write may happen meanwhile."""

    settings: Settings
    ledger: DoctorFinding
    fix: bool

    def run(self, worker: Worker) -> list[DoctorFinding]:
        stores = worker.stores
        findings = doctor.examine(stores, self.settings, self.ledger, self.fix, running=True)
        if findings[0].state == "broken" and stores.ledger.place is LedgerPlace.HERE:
            worker.guard.explain(LedgerDamaged(findings[0].detail, findings[0].fix))
            if self.fix:
                findings = [doctor.mend_ledger(stores.folder, findings[0].detail)]
                stores.ledger.replaced()
        return findings


class CompactLedger(Task[str]):
    """Give the free pages of the ledger's file back to the disk; says why when that did not work."""

    def run(self, worker: Worker) -> str:
        return worker.stores.ledger.compact()
