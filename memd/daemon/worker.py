"""The one thread that writes: takes hints and tasks, and brings the stores in step.

What it does, in the order of urgency:
    tasks     asked for by a handler or another thread, each answered by a future (see tasks.py)
    changes   paths that the watcher saw, when they have been quiet for the settle time
    imports   what a scan found, in slices, so that tasks and changes get in between
    tidying   joining small pieces of a text index, when there is nothing else to do
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from memd.config.schema import Settings
from memd.daemon.events import INDEXED, NullEvents
from memd.daemon.health import Health
from memd.daemon.hints import DuePaths, Hints
from memd.daemon.indexing import SETTLED, IndexingJob, IndexingOptions, IndexingSlice, add_up, slices
from memd.daemon.task_queue import TaskQueue
from memd.errors import DiskFull, MemdError, StoreBroken
from memd.indexer.indexing import ingest
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.indexing.ingest import IngestReport
from memd.indexer.maintenance.reconcile import reconcile_text
from memd.indexer.store.stores import Stores, WorkspaceIndex

log = logging.getLogger("memd.worker")

RETRY_SECONDS = 2.0
IMPORT_SECONDS = 0.5
"""So long an import waits at most for those who always have something to write."""
IDLE_SECONDS = 0.5
QUIET_SECONDS = 5.0
CROWDED = 24
"""Joining small segments takes a fifth of a second, and a save that comes meanwhile waits. So it is done when
nobody has saved anything for a while, and sooner only when there are so many that questions get slower."""


class WorkerTask(Protocol):
    """Something the writer is asked to do; tasks.py has the list."""

    def run(self, worker: Worker) -> Any: ...


class Worker:
    """Owns every write. Other threads leave hints and tasks here."""

    def __init__(self, stores: Stores, settings: Settings, health: Health) -> None:
        self.stores = stores
        self.settings = settings
        self.health = health
        self.max_bytes = settings.index.max_file_kb * 1024
        self.on_text: Callable[[int], None] = lambda count: None
        """Called with the number of chunks that want a vector."""
        self.on_saved: Callable[[WorkspaceIndex, list[SavedMemory]], None] = lambda index, saved: None
        """Called with the memories that are new or changed, for those who wait for them."""
        self.on_applied: Callable[[WorkspaceIndex, tuple[str, ...]], None] = lambda index, paths: None
        """Called with files of which some say something else now, or went."""
        self.events = NullEvents()
        """ReportProgress what was indexed and written, for those who watch."""
        self.on_links: Callable[[WorkspaceIndex], None] = lambda index: None
        """Called when memories are called otherwise, or mention others, than before."""
        self.on_rest: Callable[[], None] = lambda: None
        """Called again and again while there has been nothing to do for a while."""
        self._tasks: TaskQueue[WorkerTask] = TaskQueue()
        self._imports: deque[IndexingSlice] = deque()
        self._importing: IndexingJob | None = None
        self._hints = Hints(settings.watch.settle_ms / 1000)
        self._taken = 0
        self._own_in_hand = False
        self._behind: set[int] = set()
        self._wake = threading.Condition()
        self._stopping = False
        self._active = time.monotonic()
        self._sliced = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="memd-writer", daemon=True)

    # --- what others leave here ---------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def wind_down(self) -> None:
        """Begin no further slice: the process is about to stop, and the next start finds what is left."""
        with self._wake:
            self._imports.clear()

    def stop(self, seconds: float) -> bool:
        """Finish what is in hand; says whether it was finished in time."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def note(self, ns: str, path: str) -> None:
        """A hint that a path changed."""
        with self._wake:
            self._hints.note(ns, path)
            self._wake.notify()

    def soon(self, ns: str, paths: Iterable[str]) -> int:
        """Paths that memd wrote itself, told on this thread; answers at which tick from now they are in the index."""
        with self._wake:
            for path in paths:
                self._hints.own(ns, path)
            return self._hints.turn(ns)

    def submit(self, task: WorkerTask) -> Future[Any]:
        future: Future[Any] = Future()
        with self._wake:
            if self._stopping:
                future.set_exception(MemdError("memd is stopping"))
            else:
                self._tasks.add(task, future)
                self._wake.notify()
        return future

    def applied(self) -> Future[None]:
        """Done when every change noted so far is in the stores."""
        future: Future[None] = Future()
        with self._wake:
            if self._hints.promise(future):
                self._wake.notify()
            else:
                future.set_result(None)
        return future

    # --- what others may know -----------------------------------------------------------------------------

    @property
    def pending_files(self) -> int:
        with self._wake:
            return len(self._hints) + self._taken + sum(len(part.paths) for part in self._imports)

    @property
    def owes(self) -> bool:
        """Whether something that memd wrote itself is not yet in the index."""
        with self._wake:
            return self._hints.owes or self._own_in_hand

    @property
    def importing(self) -> IndexingJob | None:
        with self._wake:
            return self._importing or (self._imports[0].job if self._imports else None)

    @property
    def lag_ms(self) -> float:
        """How long the oldest change that is not yet searchable has waited."""
        with self._wake:
            begun = [part.job.started for part in self._imports]
            begun += [self._hints.oldest] if self._hints.oldest is not None else []
            return max(0.0, round((time.monotonic() - min(begun)) * 1000, 1)) if begun else 0.0

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            step = self._next()
            if step is None:
                return
            try:
                step()
            except MemdError as error:
                log.error("%s", error)
            except Exception:
                log.exception("the writer goes on after an unexpected error")

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next thing to do."""
        with self._wake:
            while not self._stopping:
                if self._imports and self._starved():
                    return self._next_slice()
                turn = self._tasks.take(self._hints)
                if turn is not None:
                    return partial(self._answer, *turn)
                settled = self._hints.take(hurry=bool(self._tasks.pressing or self._hints.awaited or self._imports))
                if settled:
                    self._taken, self._own_in_hand = len(settled.paths), bool(settled.own)
                    return partial(self._changes, settled)
                if self._imports:
                    return self._next_slice()
                wait = self._hints.wait()
                if not self._wake.wait(min(wait, IDLE_SECONDS)) and wait > IDLE_SECONDS:
                    index = self._untidy()
                    if index is not None:
                        return partial(self._tidy, index)
                    if self._quiet():
                        return self.on_rest
            return None

    def _next_slice(self) -> Callable[[], None]:
        part = self._imports.popleft()
        self._taken, self._importing, self._sliced = len(part.paths), part.job, time.monotonic()
        return partial(self._slice, part)

    def _starved(self) -> bool:
        return time.monotonic() - self._sliced > IMPORT_SECONDS and not self._hints.owes

    def _quiet(self) -> bool:
        return time.monotonic() - self._active > QUIET_SECONDS

    def _untidy(self) -> WorkspaceIndex | None:
        most = 1 if self._quiet() else CROWDED
        return next((index for index in self.stores.indexes.values() if index.text.loose >= most), None)

    def _answer(self, task: WorkerTask, future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = task.run(self)
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        if not isinstance(result, IndexingJob):
            future.set_result(result)
        elif result.total == 0:
            future.set_result(result.report)
        else:
            result.future = future

    def _changes(self, settled: DuePaths) -> None:
        index = self.stores.indexes.get(settled.ns)
        try:
            if index is not None:
                self._apply(index, settled.paths, SETTLED, settled.own)
        finally:
            with self._wake:
                self._taken, self._own_in_hand = 0, False
                ready = self._hints.put_down()
            for future in ready:
                future.set_result(None)

    def _slice(self, part: IndexingSlice) -> None:
        index, job = self.stores.indexes.get(part.ns), part.job
        try:
            if index is not None:
                add_up(job.report, self._apply(index, part.paths, part.how))
        except Exception as error:
            # Whoever waits for the import must hear of it, or a failed sync would look like a good one.
            job.error = error
            raise
        finally:
            self._slice_done(job, len(part.paths))

    def _slice_done(self, job: IndexingJob, paths: int) -> None:
        job.done += paths
        with self._wake:
            self._taken, self._importing = 0, None
        if job.done < job.total:
            return
        job.report.took_ms = (time.monotonic() - job.started) * 1000
        if job.error is None:
            job.future.set_result(job.report)
        else:
            job.future.set_exception(job.error)

    def _tidy(self, index: WorkspaceIndex) -> None:
        try:
            index.text.tidy()
        except DiskFull as error:
            self.health.set("disk", error.message, error.hint)

    # --- applying -----------------------------------------------------------------------------------------

    def _apply(
        self, index: WorkspaceIndex, paths: Iterable[str], how: IndexingOptions, own: frozenset[str] = frozenset()
    ) -> IngestReport:
        """Bring the stores in step with some paths; what cannot be written now is tried again."""
        paths = tuple(paths)
        self._active = time.monotonic()
        saved: list[SavedMemory] = []
        try:
            self._catch_up(index)
            report = ingest.apply(
                self.stores, index, paths, self.max_bytes, accept_missing=how.accept_missing, deep=how.deep,
                restless=self._restless(index, own) if how.settle else None, saved=saved,
            )  # fmt: skip
        except DiskFull as error:
            if self.health.set("disk", error.message, error.hint):
                log.error("%s", error)
            self._behind.add(index.id)
            with self._wake:
                self._hints.later(index.workspace.ns, paths, RETRY_SECONDS)
            return IngestReport()
        except StoreBroken as error:
            log.error("%s", error)
            self.stores.renew_text(index)
            reconcile_text(self.stores, index)
            return IngestReport()
        finally:
            if saved:
                self.on_saved(index, saved)
        self.health.clear("disk")
        self._again(index, paths, report.restless)
        self._tell(index, report)
        if report.changed:
            self.on_applied(index, paths)
        if index.unlinked:
            self.on_links(index)
        return report

    def _restless(self, index: WorkspaceIndex, own: frozenset[str]) -> Callable[[str, int], bool]:
        """Tells whether a file was written so short a time ago that what was read may be half of it."""
        ns, settle = index.workspace.ns, self.settings.watch.settle_ms * 1_000_000

        def restless(path: str, mtime_ns: int) -> bool:
            fresh = path not in own and 0 <= time.time_ns() - mtime_ns < settle
            return fresh and self._hints.restless(ns, path)

        return restless

    def _again(self, index: WorkspaceIndex, paths: Iterable[str], restless: list[str]) -> None:
        ns = index.workspace.ns
        with self._wake:
            self._hints.read(ns, paths, restless)

    def _catch_up(self, index: WorkspaceIndex) -> None:
        """After a full disk the ledger may know more than the text index does."""
        if index.id in self._behind:
            reconcile_text(self.stores, index)
            self._behind.discard(index.id)

    def _tell(self, index: WorkspaceIndex, report: IngestReport) -> None:
        ns = index.workspace.ns
        if report.held:
            many = f"{report.held} files of {ns} vanished at once"
            why = f"{index.workspace.root} is gone" if index.missing else many
            if self.health.set(
                f"held:{ns}", why, f"bring them back, or let them go: memd sync -n {ns} --accept-missing"
            ):
                log.warning("%s; their memories are held", why)
        elif not index.held:
            self.health.clear(f"held:{ns}")
        for warning in report.warnings:
            log.warning("%s/%s", ns, warning)
        if report.changed:
            self.events.tell(INDEXED, ns=ns, **report.figures)
            log.info("indexed ns=%s %s", ns, report)
        if report.to_embed:
            self.on_text(report.to_embed)

    def enqueue(
        self, index: WorkspaceIndex, paths: list[str], sizes: dict[str, int], job: IndexingJob, how: IndexingOptions
    ) -> None:
        """Cut an import into slices; called by the scan, on this thread."""
        cut = [IndexingSlice(index.workspace.ns, part, job, how) for part in slices(paths, sizes)]
        with self._wake:
            self._sliced = self._sliced if self._imports else time.monotonic()
            self._imports = deque([*cut, *self._imports] if how.first else [*self._imports, *cut])
