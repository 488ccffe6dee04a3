"""Tasks for the lives of memories: accesses, tiers and edges, and what jobs note."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from sqlite3 import Connection
from typing import Any

from memd.daemon.events import ACCESSED, MOVED
from memd.daemon.task_queue import BackgroundTask, Task
from memd.daemon.worker import Worker
from memd.indexer.lifecycle import edges, lives, mentions, similarity, sync_state
from memd.indexer.record import actions
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import exams
from memd.lifecycle.edges import Edge
from memd.models import Tier

AT_ONCE = 200
"""Memories whose mentions are looked up in one transaction."""
NO_FILES: dict[str, Any] = {"paths": [], "conflicts": []}
"""The files of an action that changed none."""


# --- accesses and tiers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownMemories:
    """What one client was shown in one answer."""

    client: str
    at: datetime
    memories: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    """Chunks that were shown instead of whole memories."""
    together: bool = False
    """The memories were shown side by side."""


class LogAccesses(BackgroundTask[None]):
    """Write down what clients were shown."""

    shown: tuple[ShownMemories, ...]

    def run(self, worker: Worker) -> None:
        memories_by_client = []
        with worker.stores.ledger.write() as connection:
            for shown in self.shown:
                memories = (*shown.memories, *lives.holders(connection, shown.chunks).values())
                lives.record_accesses(connection, memories, shown.client, shown.at, shown.together)
                memories_by_client.append((shown.client, memories))
        for client, memories in memories_by_client:
            announce_accessed(worker, client, memories)


class MoveTier(Task[int]):
    """Put a memory into another tier because someone said so, as an action; returns its number."""

    ns: str
    memory: int
    key: str
    tier: Tier
    verb: str
    who: str
    request_id: str

    def run(self, worker: Worker) -> int:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        if (before := actions.by_request(ledger.reader, self.request_id)) is not None:
            return int(before["id"])
        move = lives.TierMove(self.memory, self.tier, self.who, self.verb, self.verb == "delete")
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, f"curate {self.verb}", self.key, self.request_id)
            moved = lives.move(connection, action, 0, move, datetime.now(UTC))
            moves = [{"key": self.key, "to": self.tier, "why": self.verb}]
            actions.finish(connection, action, {**NO_FILES, "moved": int(moved), "moves": moves})
            ledger.tick(connection)
        if moved:
            announce_moved(worker, [self.memory])
        return action


class CountUseful(Task[tuple[int, int]]):
    """Count that a memory was useful to someone; returns the action's number and the count."""

    ns: str
    memory: int
    key: str
    who: str
    request_id: str

    def run(self, worker: Worker) -> tuple[int, int]:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        if (before := actions.by_request(ledger.reader, self.request_id)) is not None:
            return before["id"], lives.life_of(ledger.reader, self.memory).useful
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, "useful", self.key, self.request_id)
            count = lives.found_useful(connection, action, 0, self.memory)
            actions.finish(connection, action, {**NO_FILES, "useful": count})
        return action, count


class ExchangeState(Task[sync_state.StateExchange]):
    """Exchange what was observed with other machines, by files in the workspace."""

    ns: str

    def run(self, worker: Worker) -> sync_state.StateExchange:
        return sync_state.exchange(worker.stores, worker.stores.index(self.ns))


def announce_accessed(worker: Worker, who: str, memories: Iterable[int]) -> None:
    """Someone was shown some memories."""
    # Asked first: looking up the keys is wasted when nobody watches.
    if worker.events.watched(ACCESSED):
        for ns, _, key in _keys_of(worker, memories):
            worker.events.tell(ACCESSED, ns=ns, key=key, who=who)


def announce_moved(worker: Worker, memories: Iterable[int]) -> None:
    """Some memories have just been moved, and that is committed."""
    if not worker.events.watched(MOVED):
        return
    keyed = list(_keys_of(worker, memories))
    moves = lives.last_moves(worker.stores.ledger.reader, [memory for _, memory, _ in keyed])
    for ns, memory, key in keyed:
        worker.events.tell(MOVED, ns=ns, key=key, **moves[memory])


def announce_moved_by(worker: Worker, action: int) -> None:
    """The same of what an action moved."""
    if worker.events.watched(MOVED):
        changes = actions.changes_of(worker.stores.ledger.reader, action)
        announce_moved(worker, [change.memory for change in changes if change.what == "tier"])


def _keys_of(worker: Worker, memories: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Workspace, number and key of the memories that are still in a file."""
    reader, numbers = worker.stores.ledger.reader, sorted(set(memories))
    for ns, index in list(worker.stores.indexes.items()):
        for memory, row in edges.named(reader, index.id, numbers).items():
            yield ns, memory, row["key"]


# --- edges ----------------------------------------------------------------------------------------------------


class ResolveMentions(Task[None]):
    """Turn what memories mention into edges, before someone is shown edges."""

    ns: str

    def run(self, worker: Worker) -> None:
        index = worker.stores.index(self.ns)
        while index.unlinked:
            _resolve_some(worker, index)


class ResolveMentionsSoon(BackgroundTask[None]):
    """The same when nobody waits, a few memories at a time."""

    ns: str

    def run(self, worker: Worker) -> None:
        index = worker.stores.index(self.ns)
        if index.unlinked:
            _resolve_some(worker, index)
        if index.unlinked:
            worker.submit_once(self)


def _resolve_some(worker: Worker, index: WorkspaceIndex) -> None:
    some = set(islice(index.unlinked, AT_ONCE))
    with worker.stores.ledger.write() as connection:
        mentions.resolve(connection, index.id, some, datetime.now(UTC))
    index.unlinked -= some


class SaveSimilarEdges(BackgroundTask[int]):
    """Keep the edges that a comparison of memories found; returns how many are new."""

    workspace: int
    compared: similarity.ComparedMemories

    def run(self, worker: Worker) -> int:
        with worker.stores.ledger.write() as connection:
            return similarity.save(connection, self.workspace, self.compared, datetime.now(UTC))


class RemoveEdges(Task[int]):
    """Take edges away that nobody declared, as one action that can be undone; returns its number."""

    ns: str
    edges: tuple[Edge, ...]
    key: str
    who: str
    request_id: str

    def run(self, worker: Worker) -> int:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        if (before := actions.by_request(ledger.reader, self.request_id)) is not None:
            return int(before["id"])
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, "edge.rm", self.key, self.request_id)
            edges.remove(connection, action, self.edges)
            actions.finish(connection, action, {**NO_FILES, "removed": len(self.edges)})
        return action


class RefuseEdge(Task[None]):
    """Remember that two memories are not to be linked again for being alike: someone took their link away."""

    ns: str
    one: int
    other: int

    def run(self, worker: Worker) -> None:
        index = worker.stores.index(self.ns)
        with worker.stores.ledger.write() as connection:
            similarity.refuse(connection, index.id, self.one, self.other, datetime.now(UTC))


# --- what jobs note -------------------------------------------------------------------------------------------


class ReflectionStep(BackgroundTask[Any]):
    """One short transaction of a reflection, between the writes that people wait for."""

    work: Callable[[Connection], Any]

    def run(self, worker: Worker) -> Any:
        with worker.stores.ledger.write() as connection:
            return self.work(connection)


class SaveJobRun(BackgroundTask[None]):
    """Note when a job last ran and what came of it."""

    last_run: actions.LastRun

    def run(self, worker: Worker) -> None:
        with worker.stores.ledger.write() as connection:
            actions.keep_run(connection, self.last_run)


class SaveExam(Task[None]):
    """Note the result of a nightly exam, unless the workspace was removed meanwhile."""

    ns: str
    workspace: int
    day: str
    result: dict[str, Any]

    def run(self, worker: Worker) -> None:
        index = worker.stores.indexes.get(self.ns)
        if index is not None and index.id == self.workspace:
            with worker.stores.ledger.write() as connection:
                exams.keep(connection, self.workspace, self.day, self.result)
