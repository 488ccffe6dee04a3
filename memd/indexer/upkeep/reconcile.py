"""Makes a cache hold what the ledger says and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from memd.indexer.store import bank, catalog
from memd.indexer.store.stores import Shelf, Stores

BATCH = 1_000


def reconcile_text(stores: Stores, shelf: Shelf, progress: Callable[[int, int], None] | None = None) -> int:
    """Make the text index hold the ledger's chunks and nothing else; says how many differed."""
    wanted, held = catalog.chunk_ids(stores.ledger.reader, shelf.id), shelf.text.ids()
    missing, extra = sorted(wanted - held, reverse=True), sorted(held - wanted)
    if extra:
        shelf.text.apply((), extra)
    for at in range(0, len(missing), BATCH):
        part = missing[at : at + BATCH]
        shelf.text.apply(catalog.chunk_texts(stores.ledger.reader, part), ())
        if progress:
            progress(at + len(part), len(missing))
    with stores.ledger.write() as connection:
        catalog.mark(connection, shelf.id, text=False)
    return len(missing) + len(extra)


def reconcile_vectors(stores: Stores, shelf: Shelf) -> int:
    """Make the collection hold the ledger's vectors and nothing else; says how many differed."""
    if stores.model is None or shelf.collection is None:
        return 0
    ids, vectors = bank.of_workspace(stores.ledger.reader, stores.model.id, shelf.id, stores.model.embedder.dims)
    held = shelf.collection.ids()
    missing = [place for place, number in enumerate(ids) if number not in held]
    extra = sorted(held - set(ids))
    if missing:
        shelf.collection.add([ids[place] for place in missing], vectors[missing])
    shelf.collection.drop(extra)
    with stores.ledger.write() as connection:
        catalog.mark(connection, shelf.id, vectors=False)
    return len(missing) + len(extra)
