"""What the writer does for the lives of memories, a sentence each, and how those who watch are told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Any

from memd.daemon.events import ACCESSED, MOVED
from memd.daemon.task_queue import BackgroundTask
from memd.daemon.worker import Worker
from memd.indexer.lifecycle import edges, lives
from memd.indexer.record import actions, life_changes


@dataclass(frozen=True, slots=True)
class MoveTiers:
    """Put memories into other tiers because someone said so, as one action; answers its number and how many moved."""

    ns: str
    what: str
    who: str
    key: str
    moves: tuple[tuple[int, str, str], ...]
    """Memory, tier, why."""
    request: str = ""

    def run(self, worker: Worker) -> tuple[int, int]:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        before = actions.by_request(ledger.reader, self.request)
        if before is not None:
            return before["id"], 0
        now = datetime.now(UTC)
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, self.what, self.key, self.request)
            wanted = [lives.TierMove(memory, tier, self.who, why) for memory, tier, why in self.moves]
            moved = [move.memory for nth, move in enumerate(wanted) if lives.move(connection, action, nth, move, now)]
            told = [{"key": self.key, "to": tier, "why": why} for _, tier, why in self.moves]
            actions.finish(connection, action, {"paths": [], "conflicts": [], "moved": len(moved), "moves": told})
            ledger.tick(connection)
        announce_moved(worker, moved)
        return action, len(moved)


@dataclass(frozen=True, slots=True)
class CountUseful:
    """Count that a memory was of use to someone; answers the action and how often that was said."""

    ns: str
    memory: int
    key: str
    who: str
    request: str = ""

    def run(self, worker: Worker) -> tuple[int, int]:
        ledger, index = worker.stores.ledger, worker.stores.index(self.ns)
        before = actions.by_request(ledger.reader, self.request)
        if before is not None:
            return before["id"], lives.life_of(ledger.reader, self.memory).useful
        with ledger.write() as connection:
            action = actions.begin(connection, index.id, self.who, "useful", self.key, self.request)
            count = lives.found_useful(connection, action, 0, self.memory)
            actions.finish(connection, action, {"paths": [], "conflicts": [], "useful": count})
        return action, count


@dataclass(frozen=True, slots=True)
class JobStep(BackgroundTask):
    """One short transaction of a job, between the writes that people wait for."""

    work: Callable[[Connection], Any]

    def run(self, worker: Worker) -> Any:
        with worker.stores.ledger.write() as connection:
            return self.work(connection)


def announce_accessed(worker: Worker, who: str, memories: Iterable[int]) -> None:
    """Someone was shown some memories."""
    # Asked first: names are looked up for nobody else.
    if worker.events.watched(ACCESSED):
        for ns, _, key in _named(worker, memories):
            worker.events.tell(ACCESSED, ns=ns, key=key, who=who)


def announce_moved(worker: Worker, memories: Iterable[int]) -> None:
    """Some memories have just been moved, and that is written down."""
    if not worker.events.watched(MOVED):
        return
    named = list(_named(worker, memories))
    moves = lives.last_moves(worker.stores.ledger.reader, [memory for _, memory, _ in named])
    for ns, memory, key in named:
        worker.events.tell(MOVED, ns=ns, key=key, **moves[memory])


def announce_moved_by(worker: Worker, action: int) -> None:
    """The same of what an action moved."""
    if worker.events.watched(MOVED):
        found = life_changes.of(worker.stores.ledger.reader, action)
        announce_moved(worker, [life_change.memory for life_change in found if life_change.what == "tier"])


def _named(worker: Worker, memories: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Workspace, number and key of the memories that are still in a file."""
    reader, wanted = worker.stores.ledger.reader, sorted(set(memories))
    for ns, index in list(worker.stores.indexes.items()):
        for memory, told in edges.named(reader, index.id, lives.within(reader, index.id, wanted)).items():
            yield ns, memory, told["key"]
