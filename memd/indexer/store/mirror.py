"""Exact search over a workspace's vectors in memory: for filtered questions, and wherever it is as fast as Chroma."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors

SLICE = 4_096
"""Rows that are compared under one lock, so that a question waits a few milliseconds at most."""


class Mirror:
    """Unit vectors by chunk number; it grows by doubling and fills the gap of a dropped row with the last one."""

    def __init__(self, dims: int) -> None:
        self._rows = np.zeros((64, dims), np.float32)
        self._ids = np.zeros(64, np.int64)
        self._place: dict[int, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._place)

    @property
    def memory(self) -> int:
        """How many bytes it takes."""
        return self._rows.nbytes + self._ids.nbytes

    def add(self, ids: Sequence[int], vectors: Vectors) -> None:
        with self._lock:
            self._room_for(len(self._place) + len(ids))
            for chunk, vector in zip(ids, vectors, strict=True):
                at = self._place.setdefault(chunk, len(self._place))
                self._rows[at] = vector
                self._ids[at] = chunk

    def _room_for(self, count: int) -> None:
        if count <= len(self._rows):
            return
        size = max(count, 2 * len(self._rows))
        rows = np.zeros((size, self._rows.shape[1]), np.float32)
        ids = np.zeros(size, np.int64)
        rows[: len(self._rows)], ids[: len(self._ids)] = self._rows, self._ids
        self._rows, self._ids = rows, ids

    def drop(self, ids: Iterable[int]) -> None:
        with self._lock:
            for chunk in ids:
                at = self._place.pop(chunk, None)
                last = len(self._place)
                if at is not None and at != last:
                    self._rows[at], self._ids[at] = self._rows[last], self._ids[last]
                    self._place[int(self._ids[at])] = at

    def search(self, vector: Vectors, limit: int, allowed: Iterable[int] | None = None) -> list[tuple[int, float]]:
        """Chunk numbers with their cosine, nearest first, among `allowed` if given."""
        with self._lock:
            if allowed is None:
                ids, rows = self._ids[: len(self._place)], self._rows[: len(self._place)]
            else:
                at = [self._place[chunk] for chunk in allowed if chunk in self._place]
                ids, rows = self._ids[at], self._rows[at]
            scores = rows @ vector
            if limit < len(scores):
                # Equals of the last place stay in until they are in order.
                best = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
                ids, scores = ids[best], scores[best]
            order = np.lexsort((ids, -scores))[:limit]
            return [(int(ids[nth]), float(scores[nth])) for nth in order]

    def rank(self, vector: Vectors, chunk: int) -> int | None:
        """The place of a chunk among all, counted from 1; None when it is not here."""
        with self._lock:
            at = self._place.get(chunk)
            if at is None:
                return None
            scores = self._rows[: len(self._place)] @ vector
            return int((scores > scores[at]).sum()) + 1

    def cosines(self, vector: Vectors, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The cosine of each of some chunks; NaN for one that is not here."""
        cosines = np.full(len(chunks), np.nan)
        with self._lock:
            here, rows = self._rows_of(chunks)
            cosines[here] = rows @ vector
        return cosines

    def take(self, chunks: Sequence[int]) -> Vectors:
        """The vectors of some chunks; NaN for one that is not here."""
        vectors = np.full((len(chunks), self._rows.shape[1]), np.nan, np.float32)
        with self._lock:
            here, rows = self._rows_of(chunks)
            vectors[here] = rows
        return vectors

    def _rows_of(self, chunks: Sequence[int]) -> tuple[list[int], Vectors]:
        """Which of some chunks are here, by their place in the list, and their vectors."""
        here = [nth for nth, chunk in enumerate(chunks) if chunk in self._place]
        return here, self._rows[[self._place[chunks[nth]] for nth in here]]

    def nearest(self, vectors: Vectors, depth: int) -> list[dict[int, float]]:
        """The chunks nearest to each of some vectors, with their cosines.

        Other threads may change rows between two slices. A row that then moves may be missed: its chunk is new, and is
        compared in turn.
        """
        best = np.full((len(vectors), depth), -np.inf, np.float32)
        whose = np.zeros((len(vectors), depth), np.int64)
        for at in range(0, len(self), SLICE):
            with self._lock:
                end = min(at + SLICE, len(self._place))
                ids, scores = self._ids[at:end].copy(), vectors @ self._rows[at:end].T
            scores = np.concatenate((best, scores), axis=1)
            ids = np.concatenate((whose, np.broadcast_to(ids, (len(vectors), len(ids)))), axis=1)
            top = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
            best, whose = np.take_along_axis(scores, top, axis=1), np.take_along_axis(ids, top, axis=1)
        return [
            {int(chunk): float(score) for chunk, score in zip(chunks, scores, strict=True) if np.isfinite(score)}
            for chunks, scores in zip(whose, best, strict=True)
        ]
