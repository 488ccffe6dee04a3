"""Tells those who watch what happens to the lives of memories: who was shown which, and which went to another tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memd.daemon.events import ACCESSED, MOVED
from memd.daemon.worker import Worker
from memd.indexer.living import edges, lives
from memd.indexer.record import shifts


def accessed(worker: Worker, who: str, memories: Iterable[int]) -> None:
    """Someone was shown some memories."""
    # Asked first: names are looked up for nobody else.
    if worker.events.watched(ACCESSED):
        for ns, _, key in _named(worker, memories):
            worker.events.tell(ACCESSED, ns=ns, key=key, who=who)


def moved(worker: Worker, memories: Iterable[int]) -> None:
    """Some memories have just been moved, and that is written down."""
    if not worker.events.watched(MOVED):
        return
    named = list(_named(worker, memories))
    moves = lives.last_moves(worker.stores.ledger.reader, [memory for _, memory, _ in named])
    for ns, memory, key in named:
        worker.events.tell(MOVED, ns=ns, key=key, **moves[memory])


def moved_by(worker: Worker, action: int) -> None:
    """The same of what an action moved."""
    if worker.events.watched(MOVED):
        found = shifts.of(worker.stores.ledger.reader, action)
        moved(worker, [shift.memory for shift in found if shift.what == "tier"])


def _named(worker: Worker, memories: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Workspace, number and key of the memories that are still in a file."""
    reader, wanted = worker.stores.ledger.reader, sorted(set(memories))
    for ns, shelf in list(worker.stores.shelves.items()):
        for memory, told in edges.named(reader, shelf.id, lives.within(reader, shelf.id, wanted)).items():
            yield ns, memory, told["key"]
