"""The vector voice: how near every chunk is to the question in meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memd.errors import StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import Scale, scale_of
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.stores import Stores, WorkspaceIndex

Ids = NDArray[np.int64]

EXACT_UP_TO = 30_000
"""Chunks up to which every vector is compared: nothing is missed, in the time that Chroma takes for its best guess."""

REMEMBERED = 256
"""Questions whose vector is kept."""


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """What a question means to the model in use."""

    vector: Vectors
    scale: Scale
    former: bool = False
    """Whether it is the model before that answers, whose vectors are in mirrors of their own."""

    def mirror(self, index: WorkspaceIndex) -> Mirror | None:
        """The vectors that this question can be compared with; a workspace may have none of the model before."""
        return index.former if self.former else index.mirror

    def nearest(
        self, stores: Stores, index: WorkspaceIndex, depth: int, allowed: Ids | None
    ) -> list[tuple[int, float]]:
        """The chunks nearest to the question with their cosines, among `allowed` where given.

        Compared one by one in memory where there are few of them or a filter stands; by Chroma where there are many.
        """
        mirror = self.mirror(index)
        few = mirror is not None and len(mirror) <= EXACT_UP_TO
        if mirror is not None and (few or allowed is not None):
            return mirror.search(self.vector, depth, None if allowed is None else allowed.tolist())
        if index.collection is not None and not self.former:
            try:
                return index.collection.search(self.vector, depth)
            except StoreBroken as error:
                stores.trouble = error.message
        return mirror.search(self.vector, depth) if mirror is not None else []

    def nearness(self, cosine: float | None) -> float | None:
        """A cosine on the model's scale; without one nothing is known, which is not the same as far."""
        return float(self.scale.near(np.array([cosine]))[0]) if cosine is not None else None

    def near(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.float64]:
        """How near each of some chunks is: 0 has nothing in common with the question, 1 says the same.

        One that has no vector yet has nothing in common: its words decide.
        """
        mirror = self.mirror(index)
        if mirror is None:
            return np.zeros(len(chunks))
        return np.nan_to_num(self.scale.near(mirror.cosines(self.vector, chunks)))


def question_vector(stores: Stores, text: str) -> QuestionVector | None:
    """The question's meaning; None while there is no model, and for a question without words."""
    former = stores.former
    model = former or stores.model
    if model is None or not text.strip():
        return None
    known = stores.asked.get((model.id, text))
    if known is None:
        known = model.embedder.embed([text])[0]
        if len(stores.asked) >= REMEMBERED:
            stores.asked.clear()
        stores.asked[model.id, text] = known
    return QuestionVector(known, scale_of(model.embedder), former is not None)
