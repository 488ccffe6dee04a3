"""Collects what clients were shown, and hands it to the writer a moment later: reading waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from datetime import UTC, datetime

from memd.daemon.task_queue import Turn
from memd.daemon.tasks.lifecycle import ShownMemories, log_accesses
from memd.daemon.worker import Worker

COLLECT_SECONDS = 1.0
"""How long accesses are collected before they are written down."""
MOST = 10_000
"""Accesses that are held at most; a client that asks faster than that is no measure of what matters."""


class AccessLog:
    """What was shown and is not yet written down. Used on the loop only."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._shown: list[ShownMemories] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def saw(self, memories: Iterable[int], client: str, together: bool = False) -> None:
        """Note that an answer showed these memories; with `together`, that it showed them side by side."""
        self._note(ShownMemories(client, datetime.now(UTC), memories=tuple(memories), together=together))

    def saw_chunks(self, chunks: Iterable[int], client: str) -> None:
        """The same of chunks."""
        self._note(ShownMemories(client, datetime.now(UTC), chunks=tuple(chunks)))

    def _note(self, shown: ShownMemories) -> None:
        count = len(shown.memories) + len(shown.chunks)
        if not count or self._count + count > MOST:
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
