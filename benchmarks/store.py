"""The store that the benchmarks share: the corpus indexed once, with a vector for each of its chunks."""

from __future__ import annotations

import sqlite3
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import corpus
import numpy as np
from figures import Figure
from home import Home

from memd.config.schema import EmbeddingSettings
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import load_embedder
from memd.indexer.store import vector_table
from memd.indexer.store.ledger import Ledger

BATCH = 1_000
PIECES = 3
"""Sentences of a text that is in another language."""


@dataclass(frozen=True, slots=True)
class Store:
    """A home whose daemon is stopped and whose stores are complete."""

    home: Home
    chunks: int
    real_vectors: bool
    figures: list[Figure]
    """The figures of making it; empty when it was there already."""

    @property
    def title(self) -> str:
        kind = "real vectors" if self.real_vectors else "synthetic vectors for the corpus, edits embedded for real"
        return f"{self.chunks:,} chunks; {kind}"


def prepare(path: Path, chunks: int, real_vectors: bool, longest: int = corpus.BLOCKS) -> Store:
    """Make the store under `path`, or take the one that a run before this one left there."""
    home = Home(path)
    figures = []
    if not (home.state / "state.db").exists():
        say(f"writing a workspace of {chunks:,} chunks")
        home.configure()
        corpus.write(home.workspace, chunks, longest=longest)
        figures.append(index_text(home))
        if not real_vectors:
            synthetic_vectors(home)
        figures.append(fill_collection(home))
    return Store(home, count_chunks(home), real_vectors, figures)


def say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def count_chunks(home: Home) -> int:
    with sqlite3.connect(home.state / "state.db") as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM chunks").fetchone()
    connection.close()
    return int(count)


def index_text(home: Home) -> Figure:
    """The first indexing, by a daemon without a model: files to ledger and text index."""
    say("indexing its text")
    try:
        client = home.start(MEMD_EMBEDDING__PROVIDER="none")
        took = home.take_in(client)
        chunks = client.workspace_list()["workspaces"][0]["chunks"]
    finally:
        home.stop()
    return Figure("first indexing, text", chunks / took, "chunks/s", note=f"{chunks:,} chunks in {took:.1f} s")


def synthetic_vectors(home: Home) -> None:
    """Random unit vectors for every chunk, as if the models had made them: 10,000 real ones take minutes."""
    say("giving each chunk a random vector")
    model = load_embedder(EmbeddingSettings(), home.state / "model")
    assert model is not None
    rng = np.random.default_rng(1)
    ledger = Ledger(home.state / "state.db")
    with ledger.write() as connection:
        number = vector_table.model_id(connection, model.name, model.fingerprint, model.dims, "{}")
        _fill(connection, rng, number, "1", (model.dims,))
        source = vector_table.MULTILINGUAL
        other = vector_table.model_id(
            connection, multilingual.MODEL_NAME, multilingual.FINGERPRINT, multilingual.DIMS, source
        )
        _fill(connection, rng, other, vector_table.OF_OTHER_LANGUAGES, (1 + PIECES, multilingual.DIMS))
    ledger.close()


def _fill(
    connection: sqlite3.Connection, rng: np.random.Generator, model: int, among: str, shape: tuple[int, ...]
) -> None:
    """A vector of one model for each text of some chunks, or several of them: the text's and its pieces'."""
    rows = connection.execute(f"SELECT DISTINCT c.digest FROM chunks c WHERE {among}").fetchall()
    digests = [row[0] for row in rows]
    for at in range(0, len(digests), BATCH):
        part = digests[at : at + BATCH]
        drawn = rng.standard_normal((len(part), *shape), np.float32)
        vector_table.save(connection, model, part, drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))


def fill_collection(home: Home) -> Figure:
    """The first start with the model: what has no vector gets one, and Chroma is filled."""
    say("filling Chroma (and embedding, with real vectors)")
    try:
        started = time.monotonic()
        told = home.ready(home.start())
        took = time.monotonic() - started
    finally:
        home.stop()
    note = f"{told['embedded']:,} embedded, {told['workspaces'][0]['vectors']:,} in all"
    return Figure("first start with the model, until idle", took, "s", note=note)
