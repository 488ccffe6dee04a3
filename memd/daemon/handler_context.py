"""What every handler needs: which workspaces are meant, a thread to read in, and freshness."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from memd.daemon import tasks
from memd.daemon.indexing import PLAIN, IndexingOptions
from memd.daemon.params import Params
from memd.daemon.parts import Parts
from memd.daemon.server import Tell
from memd.errors import UnknownWorkspace
from memd.indexer.indexing.ingest import IngestReport
from memd.indexer.store.stores import WorkspaceIndex

READERS = 4
MOST_TRIED = 1_000
AUTO_SYNC_SECONDS, OWN_SYNC_SECONDS = 0.5, 3.0
"""How long a question waits for what changed; for what memd itself was told to write it waits longer."""
PROGRESS_SECONDS = 0.1
POLL_SECONDS = 0.02
MODEL_SECONDS = 20.0
"""A model loads in a second or two; a machine under load may take longer."""


P = ParamSpec("P")
T = TypeVar("T")
Result = dict[str, Any]
Told = Callable[[str, int, int], Awaitable[None]]


class HandlerContext:
    """Where handlers do their work."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.readers = ThreadPoolExecutor(READERS, "memd-reader")
        self.changing = asyncio.Lock()
        """Held while the list of workspaces changes, so that two callers cannot add one directory twice."""
        self._tried: dict[tuple[str, ...], None] = {}
        self._background: set[asyncio.Task[Any]] = set()

    def freshness(self) -> Result:
        """What every answer says: how new it is and what is missing from it."""
        return {
            "clock": self.parts.stores.ledger.clock,
            "lag_ms": self.parts.worker.lag_ms,
            "pending": self.parts.worker.pending_files + self.parts.embedding.pending,
            "degraded": self.parts.health.names,
        }

    def in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Go on with something nobody waits for."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def tried(self, *what: str) -> bool:
        """Whether this was tried before; the last thousand are remembered."""
        before = what in self._tried
        self._tried[what] = None
        while len(self._tried) > MOST_TRIED:
            del self._tried[next(iter(self._tried))]
        return before

    def names(self, params: Params) -> tuple[str, ...]:
        """The workspaces a call is about: named, or the one around `cwd`, or all."""
        named, cwd = params.texts("ns"), params.place("cwd")
        indexes = self.parts.stores.indexes
        if not indexes:
            raise UnknownWorkspace("no workspace has been added yet", "go to your notes and run: memd add .")
        if named:
            return tuple(self.parts.stores.index(ns).workspace.ns for ns in named)
        around = [index for index in indexes.values() if cwd and Path(cwd).is_relative_to(index.workspace.root)]
        if around:
            return (max(around, key=lambda index: len(index.workspace.root.parts)).workspace.ns,)
        return tuple(indexes)

    def indexes(self, params: Params) -> list[WorkspaceIndex]:
        """The same as what is kept of each."""
        return [self.parts.stores.index(ns) for ns in self.names(params)]

    async def read(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(work, *arguments, **named))

    async def catch_up(self, sync: str, ns: tuple[str, ...]) -> None:
        """Wait for changes that were seen already, but not for a long import; what memd wrote comes before that."""
        if sync == "full":
            await self.scan(ns)
        elif sync == "auto" and (self.parts.worker.importing is None or self.parts.worker.owes):
            seconds = OWN_SYNC_SECONDS if self.parts.worker.owes else AUTO_SYNC_SECONDS
            await asyncio.wait([asyncio.wrap_future(self.parts.worker.applied())], timeout=seconds)

    async def scan(self, ns: tuple[str, ...], how: IndexingOptions = PLAIN, told: Told | None = None) -> IngestReport:
        scan = tasks.ScanTask(ns, how)
        return await self.with_progress(self.parts.worker.submit(scan), told)

    async def with_progress(self, future: Future[T], told: Told | None) -> T:
        waiting = asyncio.wrap_future(future)
        while told and not waiting.done():
            await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
            job = self.parts.worker.importing
            if job is not None:
                await told("text", job.done, job.total)
        return await waiting

    async def model_loaded(self) -> None:
        """Wait, for a while, until the model is there or is known not to be."""
        self.parts.embedding.hurry()
        until = time.monotonic() + MODEL_SECONDS
        while self.parts.embedding.warming and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)

    async def vectors_made(self, told: Told | None) -> None:
        embedding, total = self.parts.embedding, 0
        embedding.hurry()
        while not await self.read(embedding.caught_up):
            total = max(total, embedding.pending)
            if told:
                await told("vectors", total - embedding.pending, total)
            await asyncio.sleep(PROGRESS_SECONDS)


def progress_reporter(params: Params, tell: Tell) -> Told | None:
    """A way to report progress, for callers that asked for it."""
    if not params.flag("progress"):
        return None

    async def told(phase: str, done: int, total: int) -> None:
        await tell({"phase": phase, "done": done, "total": total})

    return told
