"""Makes a cache hold what the ledger says and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from memd.indexer.store import catalog, vector_table
from memd.indexer.store.stores import Stores, WorkspaceIndex

BATCH = 1_000


def reconcile_text(stores: Stores, index: WorkspaceIndex, progress: Callable[[int, int], None] | None = None) -> int:
    """Make the text index hold the ledger's chunks and nothing else; says how many differed."""
    wanted, held = catalog.chunk_ids(stores.ledger.reader, index.id), index.text.ids()
    missing, extra = sorted(wanted - held, reverse=True), sorted(held - wanted)
    if extra:
        index.text.apply((), extra)
    for at in range(0, len(missing), BATCH):
        part = missing[at : at + BATCH]
        index.text.apply(catalog.chunk_texts(stores.ledger.reader, part), ())
        if progress:
            progress(at + len(part), len(missing))
    with stores.ledger.write() as connection:
        catalog.mark(connection, index.id, text=False)
    return len(missing) + len(extra)


def reconcile_vectors(stores: Stores, index: WorkspaceIndex) -> int:
    """Make the collection hold the ledger's vectors and nothing else; says how many differed."""
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
