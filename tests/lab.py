"""The search core without a daemon: real stores in a folder of their own, filled from real files."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from sqlite3 import Row

from memd.errors import StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.indexing.scan import scan
from memd.indexer.model.embedder import Embedder
from memd.indexer.query.search import search
from memd.indexer.store import vector_table
from memd.indexer.store.chroma import CollectionRow
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.stores import ActiveModel
from memd.indexer.store.text import TextIndex, build
from memd.indexer.store.vector_table import embedded_text
from memd.indexer.store.vectors import Collection
from memd.models import Answer, Ask, Workspace
from tests.conftest import write_notes
from tests.hash_embedder import HashEmbedder
from tests.written import apply

TODAY = date(2026, 2, 18)
"""A Wednesday."""

MAX_BYTES = 1_000_000


def join_segments(text: TextIndex, most: int = 0) -> None:
    """What the daemon's maintenance does with an index in many pieces; unless told otherwise, one is left."""
    pieces, fresh = text.pieces(most), text.folder.with_name("fresh")
    build(fresh, (), text.folder, pieces)
    assert text.adopt(fresh, pieces)
    shutil.rmtree(fresh)


class Lab:
    """OwnStores, and workspaces in them; `save` and `embed` are the steps that the daemon's worker takes."""

    def __init__(self, folder: Path, embedder: Embedder | None = None) -> None:
        self.folder = folder
        (folder / "state").mkdir()
        self.stores = OwnStores(folder / "state")
        if embedder is not None:
            self.stores.use_model(embedder, "test")

    def add(self, notes: dict[str, str], ns: str = "agent") -> OwnIndex:
        index = self.stores.open_index(Workspace(ns, self.folder / ns))
        self.stores.open_collections(index)
        self.save(notes, ns)
        self.embed()
        return index

    def save(self, notes: dict[str, str], ns: str = "agent") -> None:
        """Write notes and index their text."""
        write_notes(self.folder / ns, notes)
        index = self.stores.index(ns)
        apply(self.stores, index, {*scan(index.workspace).files, *index.files}, accept_missing=True)

    def embed(self) -> None:
        model = self.stores.model
        rows = self.unembedded(model) if model is not None else []
        if model is not None and rows:
            texts = [embedded_text(json.loads(row["heading"]), row["context"], row["text"]) for row in rows]
            ingest.save_vectors(self.stores, model, rows, model.embedder.embed(texts))

    def unembedded(self, model: ActiveModel, among: str = "1") -> list[Row]:
        """The chunks that have no vector of a model, in the order of need."""
        reader = self.stores.ledger.reader
        chunks = vector_table.pending(reader, model.id, 10_000, 0, among)
        return vector_table.unembedded(reader, model.id, chunks, among)

    def ask(self, query: str, *ns: str, limit: int = 8, mode: str = "hybrid", explain: bool = False) -> Answer:
        asked = Ask(query, ns or tuple(self.stores.indexes), limit=limit, mode=mode, explain=explain, today=TODAY)
        return search(self.stores, asked, MAX_BYTES)

    def steps(self, work: Callable[[], object]) -> int:
        """How many steps SQLite takes for what somebody reads."""
        counted, reader = itertools.count(), self.stores.ledger.reader
        reader.set_progress_handler(lambda: next(counted) < 0, 1)
        try:
            work()
        finally:
            reader.set_progress_handler(None, 1)
        return next(counted)

    def close(self) -> None:
        self.stores.close()


class Narrow(HashEmbedder):
    """Another model: the same idea in half the dimensions."""

    name, fingerprint, dims = "narrow", "hash-32-test", 32


def held(collection: Collection | None) -> set[str]:
    """The texts that a collection holds, once it is in step; the process may have to be started again for that."""
    assert collection is not None
    store = collection._store
    for _ in range(3):
        if store.following:
            store.wait_in_step()
        with suppress(StoreBroken):
            return set(store.wait_open().digests(collection.name))
        collection.compare()
    raise AssertionError("the collection does not come back")


def wanted(collection: Collection | None) -> set[str]:
    """The texts that it is to hold."""
    assert collection is not None
    return {digest for page in collection.pages() for digest in page}


def row(digest: str, text: str) -> CollectionRow:
    """A row that nobody asked for."""
    return CollectionRow(digest, HashEmbedder().embed([text])[0], text, {"kind": "stray"})
