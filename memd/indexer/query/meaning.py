"""The voice of meaning: how near every chunk is to the question's vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import Scale, scale_of
from memd.indexer.store import vector_table
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.stores import ActiveModel, Stores, WorkspaceIndex

Ids = NDArray[np.int64]

EXACT_UP_TO = 120_000
"""Up to so many chunks every vector is compared: a tenth of a millisecond for a thousand, and nothing is missed."""

CACHED = 256
"""Questions whose vectors are cached."""


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """A question's vector, and how to read the cosines of its model."""

    vector: Vectors
    scale: Scale
    former: bool = False
    """Whether it is of the previous model, whose vectors are in mirrors of their own."""

    def mirror(self, index: WorkspaceIndex) -> Mirror | None:
        """The vectors to compare it with; a workspace may have none of the previous model."""
        return index.former if self.former else index.mirror

    def nearest(
        self, stores: Stores, index: WorkspaceIndex, depth: int, allowed: Ids | None
    ) -> list[tuple[int, float]]:
        """The chunks nearest to the question with their cosines, among `allowed` if given.

        Few or filtered chunks are compared one by one in memory, many by Chroma if it has time.
        """
        mirror = self.mirror(index)
        few = mirror is not None and len(mirror) <= EXACT_UP_TO
        if mirror is not None and (few or allowed is not None):
            return mirror.search(self.vector, depth, None if allowed is None else allowed.tolist())
        if not self.former:
            nearest = index.nearest_texts(self.vector, depth)
            if nearest is not None:
                return vector_table.nearest_chunks(stores.ledger.reader, index.id, nearest, depth)
        return mirror.search(self.vector, depth) if mirror is not None else []

    def nearness(self, cosine: float | None) -> float | None:
        """A cosine on the model's scale; None for none, since unknown is not the same as far."""
        return float(self.scale.near(np.array([cosine]))[0]) if cosine is not None else None

    def near(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.float64]:
        """How near each of some chunks is: 0 has nothing in common with the question, 1 says the same.

        NaN for a chunk without a vector yet.
        """
        mirror = self.mirror(index)
        if mirror is None:
            return np.full(len(chunks), np.nan)
        return self.scale.near(mirror.cosines(self.vector, chunks))


def question_vector(stores: Stores, text: str) -> QuestionVector | None:
    """The vector of a question; None while there is no model, and for a question without words."""
    former = stores.former
    model = former or stores.model
    if model is None or not text.strip():
        return None
    return QuestionVector(vector_of(stores, model, text), scale_of(model.embedder), former is not None)


def vector_of(stores: Stores, model: ActiveModel, text: str) -> Vectors:
    """The vector of a question; those of the last questions are cached."""
    vector = stores.question_vectors.get((model.id, text))
    if vector is None:
        vector = model.embedder.embed([text])[0]
        if len(stores.question_vectors) >= CACHED:
            stores.question_vectors.clear()
        stores.question_vectors[model.id, text] = vector
    return vector
