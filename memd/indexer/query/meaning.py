"""The voice of meaning: how near every chunk is to the question's vector.

Where notes or questions are in other languages there is a second model, with vectors of its own. Each model's cosines
are read on its own scale, so that what they say can be compared.
"""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from memd.errors import ModelUnavailable
from memd.indexer.language.languages import WORD, foreign_language
from memd.indexer.model.pooling import Vectors, unit
from memd.indexer.model.scale import ModelScale, Scale
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.followed import DaemonEmbedder
from memd.indexer.store.lines import Languages
from memd.indexer.store.mirror import Ids, Mirror
from memd.indexer.store.stores import ActiveModel, ModelChanged, Stores, VectorIndex, WorkspaceIndex
from memd.indexer.store.vector_table import Pieces
from memd.models import Filters

ENGLISH = b""

COMPARED_WITH = slice(5, 30)
"""The places of the chunks that the nearest one is compared with."""
FEWEST, AMONG_FEW = 3, 0.8
"""Where there are not so many, but at least some, it is compared with all others. These are farther than the next ones
of many: the difference counts for less."""

STEP, NEAREST, LATER = 0.5, slice(3), slice(20, 50)
"""How far a question without known words is moved, from the mean of the later ones of its nearest chunks to that of the
first: chosen on the fitting half of benchmarks/other_words, where .2 to .5 and two or three chunks gained alike."""

DIVIDED = 2_048
"""Chunks whose pieces' vectors are cached: about 4 kB each."""

CACHED = 256
"""Questions whose vectors are cached."""

QuestionFuture = Future[Vectors]
"""The vector of one question, as a matrix of one row: made, or on its way from another thread or process."""


@dataclass(frozen=True, slots=True)
class ForeignVector:
    """The same question for the model of other languages; it is embedded where a workspace has such vectors."""

    stores: Stores
    model: ActiveModel
    text: str
    language: str
    """The question's own, empty for English; in another one English chunks are compared with it too."""

    @property
    def vector(self) -> Vectors:
        return vector_of(self.stores, self.model, self.text)

    def speaks_for(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.bool_]:
        """Which of some chunks are compared in this model."""
        return _languages(index, chunks) != ENGLISH if not self.language else np.ones(len(chunks), bool)

    def cosines(self, mirror: Mirror, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The mean of two for each chunk: the cosine of the whole, and that of the piece of it that is nearest.

        NaN for one without a vector.
        """
        vector, known = self.vector, self._pieces(chunks)
        cosines = mirror.cosines(vector, chunks)
        divided = [at for at, chunk in enumerate(chunks) if len(known.get(chunk, ()))]
        if divided:
            pieces = [known[chunks[at]] for at in divided]
            starts = np.cumsum([0, *map(len, pieces[:-1])])
            nearest = np.maximum.reduceat(np.concatenate(pieces).astype(np.float32) @ vector, starts)
            cosines[divided] = (cosines[divided] + nearest) / 2
        return cosines

    def _pieces(self, chunks: Sequence[int]) -> dict[int, Pieces]:
        """The vectors of the pieces of chunks, these among them; those of a chunk never change."""
        known = self.stores.pieces.setdefault(self.model.id, {})
        missing = [chunk for chunk in chunks if chunk not in known]
        if len(known) + len(missing) > DIVIDED:
            known, missing = {}, list(chunks)
        if missing:
            reader, dims = self.stores.reader, self.model.embedder.dims
            known |= vector_table.pieces_of_chunks(reader, self.model.id, json.dumps(missing), dims)
            self.stores.pieces[self.model.id] = known
        return known


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """A question's vector, and how to read the cosines of its model."""

    vector: Vectors
    scales: ModelScale
    model: int
    """The model that it is of."""
    foreign: ForeignVector | None = None

    @property
    def scale(self) -> Scale:
        return self.scales.questions

    def mirror(self, index: WorkspaceIndex) -> VectorIndex | None:
        """The vectors to compare it with; a workspace may have none of the previous model."""
        return index.vectors_of(self.model)

    def check(self, stores: Stores) -> None:
        """ModelChanged if another model took over before all workspaces were asked."""
        if all(self.model != model.id for model in stores.models):
            raise ModelChanged("the embedding model has changed while a question was asked", "ask again")

    def in_foreign(self, index: WorkspaceIndex) -> tuple[ForeignVector, Mirror] | None:
        """The question for the model of other languages, and its vectors, where a workspace has some."""
        return (self.foreign, index.foreign) if self.foreign is not None and index.foreign else None

    def nearest(
        self, index: WorkspaceIndex, depth: int, allowed: Ids | None, filters: Filters
    ) -> list[tuple[int, float]]:
        """The chunks nearest to the question with their cosines, among `allowed`, which pass the filters, if given."""
        mirror = self.mirror(index)
        nearest = mirror.search(self.vector, depth, allowed, filters) if mirror is not None else []
        if (other := self.in_foreign(index)) is None:
            return nearest
        foreign, mirror = other
        # A question in English is compared only with the chunks in another language.
        spoken = index.text.postings().foreign if not foreign.language else None
        if allowed is not None and spoken is not None:
            spoken = np.intersect1d(spoken, allowed)
        others = mirror.search(foreign.vector, depth, allowed if spoken is None else spoken)
        known = dict([*((chunk, np.nan) for chunk, _ in others), *nearest])
        chunks = list(known)
        cosines = self._of_both(index, chunks, np.array([*known.values()], np.float64))
        best = np.lexsort((np.array(chunks), -cosines))[:depth]
        return [(chunks[at], float(cosines[at])) for at in best if not np.isnan(cosines[at])]

    def moved(self, index: WorkspaceIndex, nearest: Sequence[int], doubt: float) -> Self:
        """The question moved to what its nearest chunks have and later ones lack, as far as its words are in doubt.

        In the other model it gained nothing. By the square, since a little doubt cost LongMemEval .004.
        """
        mirror, other = self.mirror(index), self.in_foreign(index)
        if not doubt or mirror is None or len(nearest) <= LATER.start:
            return self
        if other is not None and other[0].speaks_for(index, nearest[NEAREST]).any():
            return self
        vectors = mirror.take(nearest[: LATER.stop])
        step = vectors[NEAREST].mean(axis=0) - vectors[LATER].mean(axis=0)
        if np.isnan(step).any():
            return self  # one of them has gone since
        return replace(self, vector=unit((self.vector + doubt**2 * STEP * step)[None])[0])

    def nearness(self, cosine: float | None) -> float | None:
        """A cosine on the model's scale; None for none, since unknown is not the same as far."""
        return float(self.scale.near(np.array([cosine]))[0]) if cosine is not None else None

    def margin(self, cosines: Sequence[float]) -> float:
        """How much nearer the first of some chunks is than most; they are in order. 0 where there are too few."""
        near = self.scale.near(np.array(cosines))
        if len(near) >= COMPARED_WITH.stop:
            return float(near[0] - near[COMPARED_WITH].mean())
        return AMONG_FEW * float(near[0] - near[1:].mean()) if len(near) >= FEWEST else 0.0

    def near(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.float64]:
        """How near each of some chunks is: 0 has nothing in common with the question, 1 says the same.

        NaN for a chunk without a vector yet.
        """
        return self.scale.near(self.cosines(index, chunks))

    def translated(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.bool_] | None:
        """Which of some chunks are in another language than the question; None where all are in one."""
        if (other := self.in_foreign(index)) is None:
            return None
        differ: NDArray[np.bool_] = _languages(index, chunks) != other[0].language.encode()
        return differ

    def rank(self, index: WorkspaceIndex, chunk: int) -> int | None:
        """The place of a chunk among all that its model knows, counted from 1; None without a vector."""
        other, mirror = self.in_foreign(index), self.mirror(index)
        if other is not None and other[0].speaks_for(index, [chunk])[0]:
            return other[1].rank(other[0].vector, chunk)
        return mirror.rank(self.vector, chunk) if mirror is not None else None

    def cosines(self, index: WorkspaceIndex, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The cosine of each of some chunks, on this model's scale; NaN for one without a vector."""
        mirror = self.mirror(index)
        cosines = mirror.cosines(self.vector, chunks) if mirror is not None else np.full(len(chunks), np.nan)
        return self._of_both(index, chunks, cosines)

    def _of_both(
        self, index: WorkspaceIndex, chunks: Sequence[int], cosines: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The cosines of this model, and of the other one where that speaks for a chunk: NaN until it has a vector."""
        if (other := self.in_foreign(index)) is None:
            return cosines
        foreign, vectors = other
        ours = np.flatnonzero(foreign.speaks_for(index, chunks))
        own = np.asarray(chunks, np.int64)[ours].tolist()
        near = foreign.model.embedder.scale.questions.near(foreign.cosines(vectors, own))
        # As the cosines of this model that say the same.
        cosines[ours] = self.scale.unrelated + near * (self.scale.related - self.scale.unrelated)
        return cosines


def _languages(index: WorkspaceIndex, chunks: Sequence[int]) -> Languages:
    """The language of each of some chunks; one that the text index does not have yet counts as English."""
    postings = index.text.postings()
    return postings.languages[postings.places(np.asarray(chunks, np.int64))]


def is_foreign_to(stores: Stores, index: WorkspaceIndex, text: str) -> bool:
    """Whether a question is in another language for a workspace; no word of notes that are all English is foreign."""
    if catalog.first_foreign(stores.reader, index.id) is not None:
        return bool(foreign_language(text))
    postings = index.text.postings()
    unknown = [word for word in WORD.findall(text) if not postings.frequency("exact", word.casefold())]
    return bool(foreign_language(" ".join(unknown)))


def begin(stores: Stores, index: WorkspaceIndex, text: str) -> None:
    """Have the daemon begin with the vectors of a question; not in the daemon itself, nor where none is to be made."""
    for model in filter(None, (stores.serving, stores.multilingual if index.foreign else None)):
        new = text.strip() and (model.id, text) not in stores.question_vectors
        if new and isinstance(model.embedder, DaemonEmbedder):
            _remember(stores, (model.id, text), model.embedder.begin(text))


def question_vector(stores: Stores, text: str) -> tuple[QuestionVector | None, str]:
    """The vector of a question; where there is none because of the model, why.

    A question without words has none either.
    """
    model, other = stores.serving, stores.multilingual
    if model is None or not text.strip():
        return None, "the model is still loading" if text.strip() else ""
    foreign = ForeignVector(stores, other, text, foreign_language(text)) if other is not None else None
    try:
        vector, scale = vector_of(stores, model, text), model.embedder.scale
    except ModelUnavailable:
        return None, "the model is away"
    return QuestionVector(vector, scale, model.id, foreign), ""


def vector_of(stores: Stores, model: ActiveModel, text: str) -> Vectors:
    """The vector of a question, awaited where somebody has begun with it; those of the last questions are cached."""
    key = model.id, text
    made = stores.question_vectors.get(key)
    try:
        if made is None:
            made = _remember(stores, key, QuestionFuture())
            made.set_result(model.embedder.embed([text], urgent=True, question=True))
        vector: Vectors = made.result()[0]
        return vector
    except BaseException as error:
        # Not kept, since the model may be back for the next one; and who waits for it must not wait for ever.
        stores.question_vectors.pop(key, None)
        if made is not None and not made.done():
            made.set_exception(error)
        raise


def _remember(stores: Stores, key: tuple[int, str], made: QuestionFuture) -> QuestionFuture:
    if len(stores.question_vectors) >= CACHED:
        stores.question_vectors.clear()
    stores.question_vectors[key] = made
    return made
