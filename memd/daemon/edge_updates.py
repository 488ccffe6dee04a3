"""Keeps the edges in step with the notes: what they mention soon after a save, what they are like once embedded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from memd.daemon.task_queue import BackgroundTask
from memd.daemon.worker import Worker
from memd.indexer.lifecycle import mentions, similarity
from memd.indexer.lifecycle.edges import TAKEN
from memd.indexer.lifecycle.similarity import ComparedMemories, LinkedEdges
from memd.indexer.record import actions, life_changes
from memd.indexer.store.stores import WorkspaceIndex
from memd.lifecycle.edges import RELATED, Edge, ends

AT_ONCE = 200
"""Memories whose mentions are looked up in one transaction."""
SOON = 256
"""Memories that are compared as soon as they have their vectors; what a large import leaves is for the job."""


@dataclass(frozen=True, slots=True)
class ResolveMentions:
    """Turn what memories mention into edges, before someone is told of them."""

    ns: str

    def run(self, worker: Worker) -> int:
        changed = 0
        while index := _unlinked(worker, self.ns):
            changed += _resolve(worker, index)
        return changed


@dataclass(frozen=True, slots=True)
class ResolveMentionsSoon(BackgroundTask):
    """The same when nobody waits, a few memories at a time."""

    ns: str
    begun: Callable[[str], None]
    again: Callable[[WorkspaceIndex], None]

    def run(self, worker: Worker) -> int:
        self.begun(self.ns)
        index = _unlinked(worker, self.ns)
        if index is None:
            return 0
        changed = _resolve(worker, index)
        if index.unlinked:
            self.again(index)
        return changed


def _unlinked(worker: Worker, ns: str) -> WorkspaceIndex | None:
    index = worker.stores.indexes.get(ns)
    return index if index is not None and index.unlinked else None


def _resolve(worker: Worker, index: WorkspaceIndex) -> int:
    some = set(islice(index.unlinked, AT_ONCE))
    with worker.stores.ledger.write() as connection:
        changed = mentions.resolve(connection, index.id, some, datetime.now(UTC))
    index.unlinked -= some
    return changed


@dataclass(frozen=True, slots=True)
class SaveSimilarEdges(BackgroundTask):
    """Keep what a comparison found: edges between memories that are alike."""

    workspace: int
    compared: ComparedMemories

    def run(self, worker: Worker) -> LinkedEdges:
        with worker.stores.ledger.write() as connection:
            return similarity.save(connection, self.workspace, self.compared, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class RemoveEdges:
    """Take edges away that nobody declared, as one action that can be undone; answers its number."""

    ns: str
    who: str
    key: str
    edges: tuple[Edge, ...]
    request: str = ""

    def run(self, worker: Worker) -> int:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        before = actions.by_request(ledger.reader, self.request)
        if before is not None:
            return int(before["id"])
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, "edge.rm", self.key, self.request)
            for nth, edge in enumerate(self.edges):
                row = connection.execute("SELECT removed FROM edges WHERE id = ?", (edge.id,)).fetchone()
                which = {"one": edge.one, "other": edge.other, "rel": edge.rel}
                connection.execute("UPDATE edges SET removed = ? WHERE id = ?", (TAKEN, edge.id))
                before_, after = {**which, "removed": row["removed"]}, {**which, "removed": TAKEN}
                life_changes.keep(connection, action, nth, edge.one, "edge", before_, after)
            actions.finish(connection, action, {"paths": [], "conflicts": [], "removed": len(self.edges)})
        return action


@dataclass(frozen=True, slots=True)
class RefuseEdge:
    """Remember that two memories shall not be linked again because they are alike: someone took their link away."""

    ns: str
    one: int
    other: int

    def run(self, worker: Worker) -> None:
        index = worker.stores.index(self.ns)
        one, other = ends(self.one, self.other, RELATED)
        with worker.stores.ledger.write() as connection:
            connection.execute(
                "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, removed)"
                " VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?) ON CONFLICT DO UPDATE SET removed = excluded.removed",
                (index.id, one, other, RELATED, similarity.SIMILAR, actions.now(), TAKEN),
            )


class EdgeUpdates:
    """Who looks after edges between two reflections."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def look(self, index: WorkspaceIndex) -> None:
        """Some memories are called otherwise, or mention others: look at them soon; many wishes are one look."""
        ns = index.workspace.ns
        with self._lock:
            if ns in self._asked:
                return
            self._asked.add(ns)
        self._worker.submit(ResolveMentionsSoon(ns, self._begun, self.look))

    def _begun(self, ns: str) -> None:
        with self._lock:
            self._asked.discard(ns)

    def embedded(self) -> None:
        """The vectors have caught up: compare what is new, on the thread that made them."""
        for index in self._worker.stores.indexes.values():
            self.compare(index, SOON)

    def compare(self, index: WorkspaceIndex, most: int) -> ComparedMemories:
        """Compare some memories with all others and keep what was found."""
        compared = similarity.compare(self._worker.stores, index, most)
        for part in compared.parts():
            self._worker.submit(SaveSimilarEdges(index.id, part)).result()
        return compared
