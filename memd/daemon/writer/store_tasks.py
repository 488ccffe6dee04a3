"""What the writer does for the stores: the text index, the model and its vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from memd.config.schema import Settings
from memd.daemon.writer.worker import Worker
from memd.errors import LedgerDamaged, StoreBroken
from memd.indexer.maintenance import doctor
from memd.indexer.maintenance.doctor import DoctorFinding
from memd.indexer.model import multilingual
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.ledger import LedgerPlace
from memd.indexer.store.own_stores import OwnIndex, OwnStores

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder

log = logging.getLogger("memd.tasks")

MOST_CHANGED = 500
"""Chunks that may differ from what was built elsewhere: adding them takes less than a second."""


# --- the text index -------------------------------------------------------------------------------------------


def verify_text(worker: Worker, ns: str) -> int:
    """Compare a text index with the ledger, after making it anew if it cannot be read; returns what differed."""
    index = worker.stores.index(ns)
    worker.stores.suspect_text(index)
    try:
        index.text.verify()
    except StoreBroken as error:
        log.warning("ns=%s: %s", ns, error)
        worker.stores.renew_text(index)
    return repair_text(worker, index)


def use_built_text(worker: Worker, index: OwnIndex, fresh: Path, known: set[int] | None = None) -> bool:
    """Use a text index that another process built, and add what changed meanwhile; says whether it is used.

    With `known`, the chunks of the index when the building began, it is not used when too much happened since.
    """
    if worker.stores.indexes.get(index.workspace.ns) is not index:
        return False
    if known is not None and (worker.importing or len(known ^ index.text.ids()) > MOST_CHANGED):
        return False
    worker.stores.swap_text(index, fresh)
    repair_text(worker, index)
    return True


def repair_text(worker: Worker, index: OwnIndex) -> int:
    """Bring a text index in step with the ledger; returns how many chunks differed."""
    try:
        differed = worker.reconcile_text(index)
    except StoreBroken as error:
        log.warning("%s", error)
        worker.stores.renew_text(index)
        differed = worker.reconcile_text(index)
    level = logging.INFO if differed else logging.DEBUG
    log.log(level, "text compared ns=%s differed=%d", index.workspace.ns, differed)
    return differed


# --- the model and its vectors --------------------------------------------------------------------------------


def use_model(stores: OwnStores, embedder: Embedder, source: str) -> None:
    """Begin to embed with a model; the one before it answers until that is done. The collections follow the new one."""
    stores.use_model(embedder, source)
    if stores.vectors is not None:
        stores.use_vectors(stores.vectors)


def mark_multilingual(stores: OwnStores, names: Iterable[str], why: str) -> None:
    """Note that workspaces were asked in another language, and what showed it: all chunks get vectors for that."""
    indexes = [stores.index(ns) for ns in names]
    with stores.ledger.write() as connection:
        for index in indexes:
            catalog.mark_multilingual(connection, index.id)
            stores.ledger.save_setting(connection, catalog.multilingual_key(index.id), why)
    for index in indexes:
        index.multilingual = True


def rebuild_vectors(stores: OwnStores, ns: str) -> None:
    """Have a workspace's mirror and collection made anew from the vectors in the ledger."""
    index = stores.index(ns)
    index.drop_mirrors()
    stores.renew_collection(index)


def mark_behind(stores: OwnStores) -> None:
    """Note in the ledger which collections have to follow, after something happened to all of them."""
    stores.mark_behind(*stores.indexes.values())


def forget_old_models(stores: OwnStores) -> None:
    """Drop the vectors and collections of models that are no longer used; those for other languages stay."""
    if stores.model is None:
        return
    stores.drop_former()
    with stores.ledger.write() as connection:
        vector_table.forget_other_models(connection, stores.model.embedder.fingerprint, multilingual.FINGERPRINT)
        vector_table.sweep(connection)
    if stores.vectors is not None:
        stores.vectors.sweep()


# --- all of them ----------------------------------------------------------------------------------------------


def examine_stores(worker: Worker, settings: Settings, ledger: DoctorFinding, fix: bool) -> list[DoctorFinding]:
    """Check the stores against each other, and repair them with `fix`; no other write may happen meanwhile."""
    stores = worker.stores
    findings = doctor.examine(stores, settings, ledger, fix, running=True)
    if findings[0].state == "broken" and stores.ledger.place is LedgerPlace.HERE:
        worker.guard.explain(LedgerDamaged(findings[0].detail, findings[0].fix))
        if fix:
            findings = [doctor.mend_ledger(stores.folder, findings[0].detail)]
            stores.ledger.is_replaced = True
    return findings
