"""Reconciles a cache with the ledger: adds what is missing, drops what is left over."""

from __future__ import annotations

from memd.indexer.store import catalog
from memd.indexer.store.stores import Stores, WorkspaceIndex

BATCH = 1_000


def reconcile_text(stores: Stores, index: WorkspaceIndex) -> int:
    """Make the text index hold exactly the ledger's chunks; returns how many differed."""
    stores.suspect_text(index)
    wanted, held = catalog.chunk_ids(stores.ledger.reader, index.id), index.text.ids()
    missing, extra = sorted(wanted - held, reverse=True), sorted(held - wanted)
    if extra:
        index.text.apply((), extra)
    for at in range(0, len(missing), BATCH):
        index.text.apply(catalog.chunk_texts(stores.ledger.reader, missing[at : at + BATCH]), ())
    with stores.ledger.write() as connection:
        catalog.mark(connection, index.id, text=False)
    return len(missing) + len(extra)


def collection_difference(stores: Stores, index: WorkspaceIndex) -> tuple[int, int]:
    """How many vectors the collection lacks, and how many it has too many.

    It waits for Chroma, so the writer's thread must not ask.
    """
    if stores.model is None or index.collection is None:
        return 0, 0
    held, wanted = index.collection.digests(), index.collection.source.digests()
    return len(wanted - held), len(held - wanted)


def reconcile_collection(stores: Stores, index: WorkspaceIndex) -> bool:
    """Make the collection hold exactly the ledger's vectors; says whether it does. Not on the writer's thread."""
    if stores.vectors is None or index.collection is None:
        return False
    index.collection.compare()
    stores.vectors.follow()
    return stores.vectors.wait_in_step()
