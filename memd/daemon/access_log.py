"""Collects what clients were shown, and hands it to the writer a while later: reading waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime

from memd.daemon import lifecycle
from memd.daemon.task_queue import BackgroundTask
from memd.daemon.worker import Worker
from memd.indexer.lifecycle import accesses, lives

LATER = 1.0
"""Seconds for which accesses are collected before they are written down."""

MOST = 10_000
"""Accesses that are held at most; a client that asks faster than that is no measure of what matters."""


@dataclass(frozen=True, slots=True)
class ShownMemories:
    """What one client was shown in one answer."""

    client: str
    at: datetime
    memories: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    """Pieces of memories: the writer finds out of which."""
    together: bool = False


@dataclass(frozen=True, slots=True)
class LogAccesses(BackgroundTask):
    """Write down what clients were shown."""

    seen: tuple[ShownMemories, ...]

    def run(self, worker: Worker) -> None:
        shown = []
        with worker.stores.ledger.write() as connection:
            for one in self.seen:
                memories = (*one.memories, *lives.holders(connection, one.chunks))
                accesses.saw(connection, memories, one.client, one.at, one.together)
                shown.append((one.client, memories))
        for client, memories in shown:
            lifecycle.announce_accessed(worker, client, memories)


class AccessLog:
    """What was shown and is not yet written down. Used on the loop only."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._seen: list[ShownMemories] = []
        self._held = 0
        self._later: asyncio.TimerHandle | None = None

    def saw(self, memories: Iterable[int], client: str, together: bool = False) -> None:
        """Note that an answer showed these memories; with `together`, that it showed them side by side."""
        self._note(ShownMemories(client, datetime.now(UTC), memories=tuple(memories), together=together))

    def saw_chunks(self, chunks: Iterable[int], client: str) -> None:
        """The same of pieces of memories."""
        self._note(ShownMemories(client, datetime.now(UTC), chunks=tuple(chunks)))

    def _note(self, seen: ShownMemories) -> None:
        count = len(seen.memories) + len(seen.chunks)
        if not count or self._held + count > MOST:
            return
        self._seen.append(seen)
        self._held += count
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER, self.hand_over)

    def hand_over(self) -> Future[None]:
        """Give everything to the writer now; done when it is written down."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        seen, self._seen, self._held = tuple(self._seen), [], 0
        return self._worker.submit(LogAccesses(seen))
