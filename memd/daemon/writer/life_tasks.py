"""The writer's work on the lives of memories: accesses, which are collected for it, tiers and edges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.daemon.serving.events import ACCESSED, MOVED
from memd.daemon.writer.queue import Turn
from memd.daemon.writer.worker import Worker
from memd.indexer.lifecycle import edges, lives, mentions
from memd.indexer.record import actions
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.views import overview
from memd.indexer.writing.write_files import WriteAction

ChangeLives = Callable[[Connection, int], dict[str, Any]]
"""Changes lives for the action of a number; returns what the log shows of it."""

# --- accesses and tiers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownMemories:
    """The memories that one client was shown in one answer."""

    client: str
    memories: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    """Chunks that were shown instead of whole memories."""
    together: bool = False
    """The memories were shown side by side."""
    at: datetime = field(default_factory=partial(datetime.now, UTC))


def log_accesses(worker: Worker, every: Iterable[ShownMemories]) -> None:
    """Write down what clients were shown."""
    memories_by_client = []
    with worker.stores.ledger.write() as connection:
        for shown in every:
            memories = (*shown.memories, *lives.holders(connection, shown.chunks).values())
            lives.record_accesses(connection, memories, shown.client, shown.at, shown.together)
            memories_by_client.append((shown.client, memories))
    # Asked first: looking up the keys is wasted when nobody watches.
    for client, memories in memories_by_client if worker.events.watched(ACCESSED) else ():
        for ns, _, key in _keys_of(worker, memories):
            worker.events.tell(ACCESSED, ns=ns, key=key, who=client)


def act(worker: Worker, ns: str, action: WriteAction, change: ChangeLives) -> int:
    """Carry out an action that changes no file, once for a request; returns its number."""
    ledger, index = worker.stores.ledger, worker.stores.index(ns)
    if (before := actions.by_request(ledger.reader, action.request)) is not None:
        return int(before["id"])
    with ledger.write() as connection:
        number = actions.begin(connection, index.id, action.who, action.what, action.key, action.request)
        actions.finish(connection, number, {"paths": [], "conflicts": [], **change(connection, number)})
    announce_moved_by(worker, number)
    return number


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


def resolve_mentions(worker: Worker, ns: str) -> None:
    """Turn what memories mention into edges, before someone is shown edges."""
    index = worker.stores.index(ns)
    while index.unlinked:
        mentions.resolve_some(worker.stores.ledger, index)


def resolve_mentions_later(worker: Worker, ns: str) -> None:
    """The same when nobody waits, a few memories at a time."""
    worker.submit_once(_resolve_some, worker, ns, turn=Turn.BACKGROUND)


def _resolve_some(worker: Worker, ns: str) -> None:
    index = worker.stores.index(ns)
    if index.unlinked:
        mentions.resolve_some(worker.stores.ledger, index)
    if index.unlinked:
        resolve_mentions_later(worker, ns)


def save_exam(worker: Worker, index: OwnIndex, day: str, result: dict[str, Any]) -> None:
    """Note the result of a nightly exam, unless the workspace was removed meanwhile."""
    if worker.stores.indexes.get(index.workspace.ns) is index:
        with worker.stores.ledger.write() as connection:
            overview.keep_exam(connection, index.id, day, result)


COLLECT_SECONDS = 1.0
"""How long accesses are collected before they are written down."""
MOST_ACCESSES = 10_000
"""Accesses that are held at most; a client that asks faster than that is no measure of what matters."""


class AccessLog:
    """Memories that were shown, not yet written down. Used on the loop only."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._shown: list[ShownMemories] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def saw(self, shown: ShownMemories) -> None:
        """Note what an answer showed."""
        count = len(shown.memories) + len(shown.chunks)
        if not count or self._count + count > MOST_ACCESSES:
            return
        self._shown.append(shown)
        self._count += count
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COLLECT_SECONDS, self.flush)

    def flush(self) -> Future[None]:
        """Give everything to the writer now; done when it is written down."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        shown, self._shown, self._count = tuple(self._shown), [], 0
        return self._worker.submit(log_accesses, self._worker, shown, turn=Turn.BACKGROUND)
