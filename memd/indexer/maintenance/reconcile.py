"""Reconciles a cache with the ledger: adds what is missing, drops what is left over."""

from __future__ import annotations

from memd.indexer.store import catalog, vector_table
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


def reconcile_vectors(stores: Stores, index: WorkspaceIndex) -> int:
    """Make the collection hold exactly the ledger's vectors; returns how many differed."""
    if stores.model is None or index.collection is None:
        return 0
    ids, vectors = vector_table.of_workspace(
        stores.ledger.reader, stores.model.id, index.id, stores.model.embedder.dims
    )
    held = index.collection.ids()
    missing = [place for place, number in enumerate(ids) if number not in held]
    extra = sorted(held - set(ids))
    if missing:
        index.collection.add([ids[place] for place in missing], vectors[missing])
    index.collection.drop(extra)
    with stores.ledger.write() as connection:
        catalog.mark(connection, index.id, vectors=False)
    return len(missing) + len(extra)
