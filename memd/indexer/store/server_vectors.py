"""The vectors of a workspace that only a Chroma server has, asked for as a mirror is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.chroma_server import ChromaClient
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.mirror import Ids
from memd.indexer.store.vectors import collection_name
from memd.models import PINNED, Filters

FEW = 300
"""So many chunks, or fewer, are compared one by one: a filter that leaves few takes Chroma longest."""
WIDER = 4
"""So many times the rows are asked for where some of them may not be allowed."""
RANKED = 1_000
"""The place of a chunk is told up to this one."""
REMEMBERED = 32
"""Questions whose cosines are kept: a chunk's text never changes."""

DAY = re.compile(r"\d{4}(-\d\d){0,2}")


class ServerVectors:
    """Raises ServerAway where the server gives no answer."""

    def __init__(self, client: ChromaClient, ledger: Ledger, workspace: int, model: int, dims: int) -> None:
        self.model, self.dims = model, dims
        self.client, self._ledger, self._workspace = client, ledger, workspace
        self._name = collection_name(workspace, model)
        self._count = (-1, 0)
        """The count of the ledger's clock, and how many chunks had a vector then."""
        self._cosines: dict[bytes, dict[int, float]] = {}

    def __len__(self) -> int:
        seq = self._ledger.seq_seen()
        if self._count[0] != seq:
            count = vector_table.embedded_count(self._ledger.reader, self.model, self._workspace)
            self._count = seq, count
        return self._count[1]

    def search(
        self, vector: Vectors, limit: int, allowed: Ids | None = None, filters: Filters | None = None
    ) -> list[tuple[int, float]]:
        """Chunk numbers with their cosine, nearest first, among `allowed` if given."""
        if allowed is not None and len(allowed) <= FEW:
            cosines = self.cosines(vector, allowed.tolist())
            order = [at for at in np.lexsort((allowed, -cosines)) if not np.isnan(cosines[at])][:limit]
            return [(int(allowed[at]), float(cosines[at])) for at in order]
        most = limit if allowed is None else WIDER * limit
        (near,) = self._nearest(vector[None], most, where_of(filters) if filters is not None else None)
        self._known(vector).update(near)
        if allowed is not None:
            near = {chunk: near[chunk] for chunk in np.array(list(near))[np.isin(list(near), allowed)].tolist()}
        return sorted(near.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def nearest(self, vectors: Vectors, depth: int) -> list[dict[int, float]]:
        """The chunks nearest to each of some vectors, with their cosines."""
        return self._nearest(vectors, depth)

    def rank(self, vector: Vectors, chunk: int) -> int | None:
        """The place of a chunk among all, counted from 1; None when it is not there."""
        own = float(self.cosines(vector, [chunk])[0])
        if np.isnan(own):
            return None
        (near,) = self._nearest(vector[None], RANKED)
        return sum(cosine > own for other, cosine in near.items() if other != chunk) + 1

    def cosines(self, vector: Vectors, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The cosine of each of some chunks; NaN for one that is not there."""
        known = self._known(vector)
        if missing := [chunk for chunk in chunks if chunk not in known]:
            known.update(zip(missing, (self.take(missing) @ vector).astype(float).tolist(), strict=True))
        return np.array([known[chunk] for chunk in chunks], np.float64)

    def take(self, chunks: Sequence[int]) -> Vectors:
        """The vectors of some chunks; NaN for one that is not there."""
        digests = dict(catalog.among(self._ledger.reader, "SELECT id, digest FROM chunks WHERE id AMONG ?", chunks))
        found = dict(self.client.vectors(self._name, sorted(set(digests.values()))))
        absent = np.full(self.dims, np.nan, np.float32)
        return np.array([found.get(digests.get(chunk, ""), absent) for chunk in chunks]).reshape(-1, self.dims)

    def _known(self, vector: Vectors) -> dict[int, float]:
        key = vector.tobytes()
        if key not in self._cosines and len(self._cosines) >= REMEMBERED:
            self._cosines.clear()
        return self._cosines.setdefault(key, {})

    def _nearest(self, vectors: Vectors, limit: int, where: dict[str, Any] | None = None) -> list[dict[int, float]]:
        if not len(self):
            return [{} for _ in vectors]
        found = self.client.nearest(self._name, vectors, limit, where)
        digests = {digest for near in found for digest, _ in near}
        chunks = vector_table.chunks_of(self._ledger.reader, self._workspace, digests)
        return [{chunk: cosine for digest, cosine in near for chunk in chunks.get(digest, ())} for near in found]


def where_of(filters: Filters) -> dict[str, Any] | None:
    """Filters as Chroma takes them; what it cannot say is left to the ledger, and so is a text of several chunks."""
    parts: list[dict[str, Any]] = [
        {name: value} for name in ("kind", "role", "tier") if (value := getattr(filters, name)) and value != PINNED
    ]
    for name, compared, rest in (("since", "$gte", "0"), ("until", "$lte", "9")):
        if DAY.fullmatch(day := getattr(filters, name)):
            parts.append({"day": {compared: vector_table.day_number(day, rest)}})
    parts += [{"tags": {"$contains": tag.lstrip("#").lower()}} for tag in filters.tags]
    if not parts:
        return None
    return {"$or": [{"copies": {"$gt": 1}}, parts[0] if len(parts) == 1 else {"$and": parts}]}
