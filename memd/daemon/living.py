"""What the writer does for the lives of memories, a sentence each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Any

from memd.daemon import announcing
from memd.daemon.turns import Patient
from memd.daemon.worker import Worker
from memd.indexer.living import lives
from memd.indexer.record import deeds


@dataclass(frozen=True, slots=True)
class Move:
    """Put memories into other tiers because someone said so, as one action; answers its number and how many moved."""

    ns: str
    what: str
    who: str
    key: str
    moves: tuple[tuple[int, str, str], ...]
    """Memory, tier, why."""
    request: str = ""

    def run(self, worker: Worker) -> tuple[int, int]:
        ledger, shelf = worker.stores.ledger, worker.stores.shelf(self.ns)
        before = deeds.by_request(ledger.reader, self.request)
        if before is not None:
            return before["id"], 0
        now = datetime.now(UTC)
        with ledger.write() as connection:
            action = deeds.begin(connection, shelf.id, self.who, self.what, self.key, self.request)
            wanted = [lives.Move(memory, tier, self.who, why) for memory, tier, why in self.moves]
            moved = [move.memory for nth, move in enumerate(wanted) if lives.move(connection, action, nth, move, now)]
            told = [{"key": self.key, "to": tier, "why": why} for _, tier, why in self.moves]
            deeds.finish(connection, action, {"paths": [], "conflicts": [], "moved": len(moved), "moves": told})
            ledger.tick(connection)
        announcing.moved(worker, moved)
        return action, len(moved)


@dataclass(frozen=True, slots=True)
class Useful:
    """Count that a memory was of use to someone; answers the action and how often that was said."""

    ns: str
    memory: int
    key: str
    who: str
    request: str = ""

    def run(self, worker: Worker) -> tuple[int, int]:
        ledger, shelf = worker.stores.ledger, worker.stores.shelf(self.ns)
        before = deeds.by_request(ledger.reader, self.request)
        if before is not None:
            return before["id"], lives.life_of(ledger.reader, self.memory).useful
        with ledger.write() as connection:
            action = deeds.begin(connection, shelf.id, self.who, "useful", self.key, self.request)
            count = lives.found_useful(connection, action, 0, self.memory)
            deeds.finish(connection, action, {"paths": [], "conflicts": [], "useful": count})
        return action, count


@dataclass(frozen=True, slots=True)
class Step(Patient):
    """One short transaction of a job, between the writes that people wait for."""

    work: Callable[[Connection], Any]

    def run(self, worker: Worker) -> Any:
        with worker.stores.ledger.write() as connection:
            return self.work(connection)
