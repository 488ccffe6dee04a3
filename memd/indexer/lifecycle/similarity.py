"""The similarity pass: which memories are similar in meaning, and the edges between them.

Only memories that changed since they were last compared are compared. Reading runs on any thread; edges are written in
short transactions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sqlite3 import Connection, Row

import numpy as np
from numpy.typing import NDArray

from memd.indexer.lifecycle import edges, lives
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import Scale, scale_of
from memd.indexer.record.actions import in_utc
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.stores import ActiveModel, Stores, WorkspaceIndex
from memd.lifecycle.edges import OBSERVED, RELATED, ends, strengthened

LINK, MERGE, DEDUP = 0.80, 0.90, 0.92
"""How similar memories must be to be linked, to be a paraphrase, to be the same: numbers that other tools use with
another model. `similarity` maps them to where they mean the same for the model in use."""

RELATED_AT = 0.85
"""On a scale from 0, nothing in common, to 1, a paraphrase (`scale.py`): above it are more than 99 % of paraphrases, a
quarter to a third of passages that answer one question, and at most 4 in 1,000 that answer different ones."""
SAID_AGAIN_AT, THE_SAME_AT = 1 / 7, 2 / 7
"""Between a paraphrase and the same text: above the first are 70 % of paraphrases and fewer than 1 % of other facts
about the same subject; above the second 99 % of trivial edits (benchmarks/likeness.py)."""

SIMILAR = "similar"
MOST_EDGES = 5
LOWEST, HIGHEST = 0.1, 0.95
"""The bounds of the first weight of an automatic edge."""

BLOCK = 32
"""Memories that are compared at a time."""
DEPTH = 40
"""Nearest chunks of each: more than it gets edges, since the nearest memories may already have theirs."""
PART = 20
"""Memories whose edges are written in one transaction."""


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """Two similar memories, the smaller number first."""

    one: int
    other: int
    similarity: float


@dataclass(slots=True)
class ComparedMemories:
    """The memories of a pass, each with the digest of its text, and the similar pairs."""

    memories: dict[int, str] = field(default_factory=dict)
    pairs: list[SimilarPair] = field(default_factory=list)
    """The most similar first."""
    more: bool = False
    """Whether there are more memories to compare."""

    def parts(self) -> Iterator[ComparedMemories]:
        """The same in parts, each for a short transaction."""
        for numbers in edges.batches(sorted(self.memories), PART):
            pairs = [pair for pair in self.pairs if pair.one in numbers or pair.other in numbers]
            yield ComparedMemories({number: self.memories[number] for number in numbers}, pairs)


# --- comparing: reads only ------------------------------------------------------------------------------------


def compare(
    stores: Stores, index: WorkspaceIndex, most: int = 1_000, only: Collection[int] | None = None
) -> ComparedMemories:
    """Compare the memories that changed since they were last compared (only these, if given) with all others."""
    model, connection = stores.model, stores.ledger.reader
    todo = _changed(connection, index.id, model.id, most + 1, only) if model is not None else []
    # Asked for last: where nothing changed, no vectors are loaded.
    mirror = index.mirror if todo else None
    if model is None or mirror is None or mirror.model != model.id:
        return ComparedMemories()
    memories = {row["id"]: row["digest"] for row in todo[:most]}
    pairs: dict[tuple[int, int], SimilarPair] = {}
    for numbers in edges.batches(list(memories), BLOCK):
        pairs |= {
            (pair.one, pair.other): pair
            for pair in _compare(connection, mirror, model, numbers)
            if pair.similarity >= stores.link_similarity
        }
    nearest = sorted(pairs.values(), key=lambda pair: (-pair.similarity, pair.one, pair.other))
    return ComparedMemories(memories, nearest, len(todo) > most)


def workspaces_to_compare(stores: Stores) -> list[WorkspaceIndex]:
    """The workspaces with memories that changed since they were last compared."""
    rows = stores.ledger.reader.execute(
        "SELECT DISTINCT workspace FROM memories WHERE file IS NOT NULL AND compared <> digest"
    )
    changed = {row[0] for row in rows}
    return [index for index in stores.indexes.values() if index.id in changed]


def _changed(connection: Connection, workspace: int, model: int, most: int, only: Collection[int] | None) -> list[Row]:
    """Memories whose text was not compared yet and whose chunks all have vectors, by number."""
    return connection.execute(
        "SELECT m.id, m.digest FROM memories m WHERE m.workspace = :workspace AND m.file IS NOT NULL"
        " AND m.compared <> m.digest AND (:only IS NULL OR m.id IN (SELECT value FROM json_each(:only)))"
        " AND EXISTS (SELECT 1 FROM chunks c WHERE c.memory = m.id)"
        " AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.memory = m.id AND NOT EXISTS"
        " (SELECT 1 FROM vectors v WHERE v.model = :model AND v.digest = c.digest)) ORDER BY m.id LIMIT :most",
        {"workspace": workspace, "model": model, "most": most, "only": None if only is None else json.dumps([*only])},
    ).fetchall()


def _compare(connection: Connection, mirror: Mirror, model: ActiveModel, numbers: Sequence[int]) -> list[SimilarPair]:
    """The similar pairs of some memories, the nearest few of each."""
    mine = _means(connection, mirror, numbers)
    if not mine:
        return []
    near = mirror.nearest(np.stack(list(mine.values())), DEPTH)
    holders = lives.holders(connection, {chunk for chunks in near for chunk in chunks})
    candidates = {
        # Existing edges are kept while they hold, even if others are nearer.
        memory: ({holders[chunk] for chunk in chunks if chunk in holders} | _linked(connection, memory)) - {memory}
        for memory, chunks in zip(mine, near, strict=True)
    }
    theirs = mine | _means(connection, mirror, set().union(*candidates.values()) - mine.keys())
    scale = scale_of(model.embedder)
    pairs: list[SimilarPair] = []
    for memory, others in candidates.items():
        known = sorted(others & theirs.keys())
        cosines = np.array([float(mine[memory] @ theirs[other]) for other in known])
        alike = similarity(scale.near(cosines), scale)
        pairs += [
            SimilarPair(min(memory, other), max(memory, other), round(float(value), 6))
            for other, value in zip(known, alike, strict=True)
        ]  # fmt: skip
    return pairs


def _linked(connection: Connection, memory: int) -> set[int]:
    """The memories that automatic edges lead to."""
    rows = connection.execute(AUTOMATIC, {"memory": memory, "similar": SIMILAR})
    return {row["one"] if row["other"] == memory else row["other"] for row in rows}


def similarity(nears: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    """Similarity as rules and weights use it: 0 is nothing in common, 1 the same text, our marks are in between."""
    top = float(scale.near(np.ones(1))[0])
    marks = (0.0, RELATED_AT, 1 + SAID_AGAIN_AT * (top - 1), 1 + THE_SAME_AT * (top - 1), top)
    return np.interp(nears, marks, (0.0, LINK, MERGE, DEDUP, 1.0))


def mean_of(rows: Vectors) -> Vectors:
    """The vector of a memory: the normalized mean of its chunks."""
    mean: Vectors = rows.mean(axis=0)
    length = float(np.linalg.norm(mean))
    if length:
        mean /= np.float32(length)
    return mean


def _means(connection: Connection, mirror: Mirror, memories: Collection[int]) -> dict[int, Vectors]:
    """The vectors of memories whose chunks are all in the mirror."""
    chunks: dict[int, list[int]] = {}
    rows = connection.execute(
        "SELECT id, memory FROM chunks WHERE memory IN (SELECT value FROM json_each(?)) ORDER BY memory, id",
        (json.dumps(sorted(memories)),),
    )
    for row in rows:
        chunks.setdefault(row["memory"], []).append(row["id"])
    vectors = mirror.take([chunk for those in chunks.values() for chunk in those])
    found, at = {}, 0
    for memory, those in chunks.items():
        mean = mean_of(vectors[at : at + len(those)])
        at += len(those)
        if np.isfinite(mean).all():
            found[memory] = mean
    return found


# --- writing ------------------------------------------------------------------------------------------------


def save(connection: Connection, workspace: int, compared: ComparedMemories, now: datetime) -> int:
    """Write the edges of one part of a pass, the most similar first, and mark its memories as compared.

    Returns how many edges were made.
    """
    similar = {(pair.one, pair.other) for pair in compared.pairs}
    for memory in compared.memories:
        _drop_dissimilar(connection, memory, similar)
    made = sum(_link(connection, workspace, pair, in_utc(now)) for pair in compared.pairs)
    connection.executemany(
        "UPDATE memories SET compared = digest WHERE id = ? AND digest = ?", list(compared.memories.items())
    )
    return made


def _link(connection: Connection, workspace: int, pair: SimilarPair, now: str) -> int:
    """Make or renew the edge of a pair; returns how many were made.

    An edge that someone made or removed stays as it is.
    """
    weight = min(HIGHEST, max(LOWEST, pair.similarity))
    edge = (pair.one, pair.other, RELATED)
    row = connection.execute("SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?", edge).fetchone()
    if row is not None and (row["origin"] not in OBSERVED or row["removed"] == edges.TAKEN):
        return 0
    base = strengthened(weight, row["accesses"]) if row is not None else weight
    live = row is not None and row["origin"] == SIMILAR and not row["removed"]
    if not live and not _make_room(connection, pair, base):
        return 0
    if row is not None:
        return _renew(connection, row, base, now)
    return edges.insert(connection, workspace, edge, weight, SIMILAR, now)


def _renew(connection: Connection, row: Row, base: float, now: str) -> int:
    if row["origin"] == SIMILAR and not row["removed"] and abs(row["base"] - base) < 1e-9:
        return 0
    connection.execute(
        "UPDATE edges SET origin = ?, base = ?, weight = ?, made = ?, removed = 0 WHERE id = ?",
        (SIMILAR, base, base, now, row["id"]),
    )
    return 1


def _make_room(connection: Connection, pair: SimilarPair, weight: float) -> bool:
    """Drop the weakest of five edges if the new one is stronger; False if there is no room."""
    weakest: set[int] = set()
    for memory in (pair.one, pair.other):
        if not connection.execute("SELECT 1 FROM memories WHERE id = ? AND file IS NOT NULL", (memory,)).fetchone():
            return False
        rows = connection.execute(
            f"{AUTOMATIC} ORDER BY e.weight DESC, e.one, e.other", {"memory": memory, "similar": SIMILAR}
        ).fetchall()
        if len(rows) >= MOST_EDGES:
            if rows[-1]["weight"] >= weight:
                return False
            weakest.add(rows[-1]["id"])
    _drop(connection, weakest)
    return True


AUTOMATIC = (
    "SELECT e.id, e.one, e.other, e.weight FROM edges e JOIN memories o"
    " ON o.id = CASE WHEN e.one = :memory THEN e.other ELSE e.one END"
    " WHERE (e.one = :memory OR e.other = :memory) AND e.origin = :similar AND e.removed = 0 AND o.file IS NOT NULL"
)
"""The automatic edges of a memory to memories in files."""


def _drop_dissimilar(connection: Connection, memory: int, similar: Collection[tuple[int, int]]) -> None:
    """Drop the automatic edges to memories that are no longer similar; a removed memory may come back."""
    rows = connection.execute(AUTOMATIC, {"memory": memory, "similar": SIMILAR}).fetchall()
    _drop(connection, [row["id"] for row in rows if (row["one"], row["other"]) not in similar])


def _drop(connection: Connection, numbers: Collection[int]) -> None:
    connection.executemany("DELETE FROM edges WHERE id = ?", [(number,) for number in numbers])


def refuse(connection: Connection, workspace: int, one: int, other: int, now: datetime) -> None:
    """Keep two memories from being linked again because they are similar."""
    connection.execute(
        "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, removed)"
        " VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?) ON CONFLICT DO UPDATE SET removed = excluded.removed",
        (workspace, *ends(one, other, RELATED), RELATED, SIMILAR, in_utc(now), edges.TAKEN),
    )
