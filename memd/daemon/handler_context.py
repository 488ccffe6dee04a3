"""What every handler needs: which workspaces are meant, a thread to read in, and freshness."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from memd.daemon import tasks
from memd.daemon.indexing import PLAIN, IndexingOptions
from memd.daemon.parts import Parts
from memd.daemon.server import IncomingCall
from memd.errors import UnknownWorkspace
from memd.indexer.indexing.ingest import IngestReport
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.protocol.methods.base import Progressing

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
T_co = TypeVar("T_co", covariant=True)
Result = dict[str, Any]
ReportProgress = Callable[[str, int, int], Awaitable[None]]


class InWorkspace(Protocol):
    """A request that says which workspaces it is about."""

    ns: tuple[str, ...]
    cwd: str


class WriterTask(Protocol[T_co]):
    """Something that the writer's thread can do."""

    def run(self, worker: Any) -> T_co: ...


class HandlerContext:
    """What every handler works with."""

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

    @property
    def stores(self) -> Stores:
        return self.parts.stores

    @property
    def max_bytes(self) -> int:
        """How large a file of notes may be."""
        return self.parts.worker.max_bytes

    def names(self, request: InWorkspace) -> tuple[str, ...]:
        """The workspaces a call is about: named, or the one around `cwd`, or all."""
        named, cwd, indexes = request.ns, request.cwd, self.stores.indexes
        if not indexes:
            raise UnknownWorkspace("no workspace has been added yet", "go to your notes and run: memd add .")
        if named:
            return tuple(self.parts.stores.index(ns).workspace.ns for ns in named)
        around = [index for index in indexes.values() if cwd and Path(cwd).is_relative_to(index.workspace.root)]
        if around:
            return (max(around, key=lambda index: len(index.workspace.root.parts)).workspace.ns,)
        return tuple(indexes)

    def indexes(self, request: InWorkspace) -> list[WorkspaceIndex]:
        """The indexes of the workspaces a call is about."""
        return [self.stores.index(ns) for ns in self.names(request)]

    @staticmethod
    def namespaces(indexes: Sequence[WorkspaceIndex]) -> list[str]:
        return [index.workspace.ns for index in indexes]

    async def run(self, task: WriterTask[T]) -> T:
        """Have the writer do it, and wait for the result."""
        done: T = await asyncio.wrap_future(self.parts.worker.submit(task))
        return done

    async def applied(self) -> None:
        """Wait until every change that was seen so far is in the index."""
        await asyncio.wrap_future(self.parts.worker.applied())

    async def read(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(work, *arguments, **named))

    async def catch_up(self, sync: str, ns: tuple[str, ...]) -> None:
        """Wait for changes that were seen already, but not for a long import; what memd wrote comes before that."""
        if sync == "full":
            await self.scan(ns)
        elif sync == "auto" and (self.parts.worker.importing is None or self.parts.worker.owes):
            seconds = OWN_SYNC_SECONDS if self.parts.worker.owes else AUTO_SYNC_SECONDS
            await asyncio.wait([asyncio.wrap_future(self.parts.worker.applied())], timeout=seconds)

    async def scan(
        self, ns: tuple[str, ...], how: IndexingOptions = PLAIN, report: ReportProgress | None = None
    ) -> IngestReport:
        scan = tasks.ScanTask(ns, how)
        return await self.with_progress(self.parts.worker.submit(scan), report)

    async def with_progress(self, future: Future[T], report: ReportProgress | None) -> T:
        waiting = asyncio.wrap_future(future)
        while report and not waiting.done():
            await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
            job = self.parts.worker.importing
            if job is not None:
                await report("text", job.done, job.total)
        return await waiting

    async def model_loaded(self) -> None:
        """Wait, for a while, until the model is there or is known not to be."""
        self.parts.embedding.hurry()
        until = time.monotonic() + MODEL_SECONDS
        while self.parts.embedding.warming and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)

    async def vectors_made(self, report: ReportProgress | None) -> None:
        embedding, total = self.parts.embedding, 0
        embedding.hurry()
        while not await self.read(embedding.caught_up):
            total = max(total, embedding.pending)
            if report:
                await report("vectors", total - embedding.pending, total)
            await asyncio.sleep(PROGRESS_SECONDS)


def progress_reporter(request: Progressing, call: IncomingCall) -> ReportProgress | None:
    """A way to report progress, for callers that asked for it."""
    return call.progress if request.progress else None
