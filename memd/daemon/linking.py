"""Keeps the edges in step with the notes: what they mention soon after a save, what they are like once embedded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from memd.daemon.turns import Patient
from memd.daemon.worker import Worker
from memd.indexer.living import linking, mentions
from memd.indexer.living.edges import TAKEN
from memd.indexer.living.linking import Compared, Linked
from memd.indexer.record import deeds, shifts
from memd.indexer.store.stores import Shelf
from memd.lifecycle.edges import RELATED, Edge, ends

AT_ONCE = 200
"""Memories whose mentions are looked up in one transaction."""
SOON = 256
"""Memories that are compared as soon as they have their vectors; what a large import leaves is for the job."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Turn what memories mention into edges, before someone is told of them."""

    ns: str

    def run(self, worker: Worker) -> int:
        changed = 0
        while shelf := _unlinked(worker, self.ns):
            changed += _resolve(worker, shelf)
        return changed


@dataclass(frozen=True, slots=True)
class ResolveSoon(Patient):
    """The same when nobody waits, a few memories at a time."""

    ns: str
    begun: Callable[[str], None]
    again: Callable[[Shelf], None]

    def run(self, worker: Worker) -> int:
        self.begun(self.ns)
        shelf = _unlinked(worker, self.ns)
        if shelf is None:
            return 0
        changed = _resolve(worker, shelf)
        if shelf.unlinked:
            self.again(shelf)
        return changed


def _unlinked(worker: Worker, ns: str) -> Shelf | None:
    shelf = worker.stores.shelves.get(ns)
    return shelf if shelf is not None and shelf.unlinked else None


def _resolve(worker: Worker, shelf: Shelf) -> int:
    some = set(islice(shelf.unlinked, AT_ONCE))
    with worker.stores.ledger.write() as connection:
        changed = mentions.resolve(connection, shelf.id, some, datetime.now(UTC))
    shelf.unlinked -= some
    return changed


@dataclass(frozen=True, slots=True)
class SaveLinks(Patient):
    """Keep what a comparison found: edges between memories that are alike."""

    workspace: int
    compared: Compared

    def run(self, worker: Worker) -> Linked:
        with worker.stores.ledger.write() as connection:
            return linking.save(connection, self.workspace, self.compared, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Unlink:
    """Take edges away that nobody declared, as one action that can be undone; answers its number."""

    ns: str
    who: str
    key: str
    edges: tuple[Edge, ...]
    request: str = ""

    def run(self, worker: Worker) -> int:
        ledger, shelf = worker.stores.ledger, worker.stores.shelf(self.ns)
        before = deeds.by_request(ledger.reader, self.request)
        if before is not None:
            return int(before["id"])
        with ledger.write() as connection:
            action = deeds.begin(connection, shelf.id, self.who, "edge.rm", self.key, self.request)
            for nth, edge in enumerate(self.edges):
                row = connection.execute("SELECT removed FROM edges WHERE id = ?", (edge.id,)).fetchone()
                which = {"one": edge.one, "other": edge.other, "rel": edge.rel}
                connection.execute("UPDATE edges SET removed = ? WHERE id = ?", (TAKEN, edge.id))
                before_, after = {**which, "removed": row["removed"]}, {**which, "removed": TAKEN}
                shifts.keep(connection, action, nth, edge.one, "edge", before_, after)
            deeds.finish(connection, action, {"paths": [], "conflicts": [], "removed": len(self.edges)})
        return action


@dataclass(frozen=True, slots=True)
class Refuse:
    """Remember that two memories shall not be linked again because they are alike: someone took their link away."""

    ns: str
    one: int
    other: int

    def run(self, worker: Worker) -> None:
        shelf = worker.stores.shelf(self.ns)
        one, other = ends(self.one, self.other, RELATED)
        with worker.stores.ledger.write() as connection:
            connection.execute(
                "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, removed)"
                " VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?) ON CONFLICT DO UPDATE SET removed = excluded.removed",
                (shelf.id, one, other, RELATED, linking.SIMILAR, deeds.now(), TAKEN),
            )


class Linking:
    """Who looks after edges between two reflections."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def look(self, shelf: Shelf) -> None:
        """Some memories are called otherwise, or mention others: look at them soon; many wishes are one look."""
        ns = shelf.workspace.ns
        with self._lock:
            if ns in self._asked:
                return
            self._asked.add(ns)
        self._worker.submit(ResolveSoon(ns, self._begun, self.look))

    def _begun(self, ns: str) -> None:
        with self._lock:
            self._asked.discard(ns)

    def embedded(self) -> None:
        """The vectors have caught up: compare what is new, on the thread that made them."""
        for shelf in self._worker.stores.shelves.values():
            self.compare(shelf, SOON)

    def compare(self, shelf: Shelf, most: int) -> Compared:
        """Compare some memories with all others and keep what was found."""
        compared = linking.pass_(self._worker.stores, shelf, most)
        for part in compared.parts():
            self._worker.submit(SaveLinks(shelf.id, part)).result()
        return compared
