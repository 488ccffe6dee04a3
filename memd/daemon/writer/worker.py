"""The one thread that writes: takes tasks and changed paths, and brings the stores in step.

What it does next, the most urgent first:
    tasks     submitted by a handler or another thread, each answered by a future (the longer in tasks.py)
    changes   paths that the watcher saw or memd wrote, once they have settled
    imports   what a scan found, in pieces, so that tasks and changes get in between
What waits for it, and whose turn it is, is in queue.py.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from memd.config.schema import Settings
from memd.daemon.process.health import Health, Stopping, log_failure
from memd.daemon.serving.events import APPLIED, IDLE, INDEXED, LOOKED, SAVED, UNEMBEDDED, UNLINKED, Events
from memd.daemon.writer.ledger_guard import LedgerGuard
from memd.daemon.writer.queue import Batch, Hints, IndexingJob, Task, TaskQueue, Turn, slices
from memd.errors import DiskFull, LedgerMoved, MemdError, in_shell
from memd.indexer.indexing import ingest
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.indexing.ingest import PLAIN, IndexingOptions, IngestReport
from memd.indexer.maintenance.rebuild import reconcile_text
from memd.indexer.record import actions
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.segment import TextBroken
from memd.indexer.writing import write_files
from memd.models import FileStat, is_document

log = logging.getLogger("memd.worker")

RETRY_SECONDS = 2.0
IMPORT_SECONDS = 0.5
"""An import waits at most this long for clients that keep writing."""
SHORT_PIECE, LONG_PIECE = 0.1, 1.0
"""Seconds that are spent on indexing before somebody who waits has a turn, and at most in any case."""
IDLE_SECONDS = 0.5
ROOM, FILES = 1 << 20, 16
"""With so many free bytes, and room for so many files, a disk counts as full no longer."""
QUIET_SECONDS = 5.0

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Worker:
    """Owns every write. Other threads leave changed paths and tasks here."""

    def __init__(self, stores: OwnStores, settings: Settings, health: Health, events: Events | None = None) -> None:
        self.stores = stores
        self.settings = settings
        self.health = health
        self.events = events or Events()
        self.guard = LedgerGuard(stores, health, self.events)
        self.max_bytes = settings.index.max_file_kb * 1024
        self._tasks = TaskQueue()
        self._imports: deque[Batch] = deque()
        self._hints = Hints(settings.watch.settle_ms / 1000)
        self._batch: Batch | None = None
        """The paths that are being indexed."""
        self._unfinished: Batch | None = None
        """Changes some of which are indexed; what else changed comes after them, but for memd's own writes."""
        self._behind: set[int] = set()
        """Workspaces whose text index may have missed a change: the disk was full, or the ledger gone."""
        self._wake = threading.Condition()
        """Guards the tasks, the imports and the hints; notified when one of them grows."""
        self._stopping = False
        self._last_change = time.monotonic()
        self._last_slice = self._piece_began = time.monotonic()
        self._looked = 0.0
        """When it last looked around."""
        self._thread = threading.Thread(target=self._run, name="memd-writer", daemon=True)

    # --- what other threads call ------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def drop_imports(self) -> None:
        """Begin no further slice: the process is about to stop, and the next start finds what is left."""
        with self._wake:
            self._imports.clear()

    def stop(self, seconds: float) -> None:
        """Finish what is being done, if that does not take too long."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(seconds)

    def mark_changed(self, changed: Iterable[tuple[str, str]]) -> None:
        """A hint that paths changed, each with its workspace."""
        with self._wake:
            for ns, path in changed:
                self._hints.mark_changed(ns, path)
            self._wake.notify()

    def submit(
        self, do: Callable[[*Ts], T | IndexingJob], *args: *Ts, turn: Turn = Turn.PLAIN, future: Future[T] | None = None
    ) -> Future[T]:
        """Have the writer's thread call a function."""
        future = future or Future()
        with self._wake:
            if self._stopping:
                future.set_exception(Stopping())
            else:
                self._tasks.append(Task(do, args, turn, future))
                self._wake.notify()
        return future

    def submit_once(self, do: Callable[[*Ts], Any], *args: *Ts, turn: Turn = Turn.PLAIN) -> None:
        """Submit a call unless the same waits already; one that has begun may have missed what this one is for."""
        with self._wake:
            if Task(do, args, turn) not in self._tasks:
                self.submit(do, *args, turn=turn).add_done_callback(log_failure)

    def applied(self) -> Future[None]:
        """Done when every change noted so far is in the stores."""
        future: Future[None] = Future()
        with self._wake:
            if self._hints.wait_for_all(future):
                self._wake.notify()
            else:
                future.set_result(None)
        return future

    def pending_files(self, names: Collection[str] | None = None) -> int:
        """How many files are still to be indexed; with names, those of some workspaces."""
        with self._wake:
            parts = [part for part in {self._batch, self._unfinished, *self._imports} if part]
            parts = [part for part in parts if names is None or part.ns in names]
            # A document is read for so long that a scan or an event finds it once more: it does not count again.
            read = {(part.ns, path) for part in parts if part.work for path in part.paths if is_document(path)}
            again = sum((part.ns, path) in read for part in parts if read and not part.work for path in part.paths)
            again += len(read & self._hints.changes.keys())
            changed = [ns for ns, _ in self._hints.changes if names is None or ns in names]
            return len(changed) + sum(len(part.paths) for part in parts) - again

    @property
    def has_own(self) -> bool:
        """Whether something that memd wrote itself is not yet in the index."""
        with self._wake:
            return self._hints.has_own or bool(self._batch and self._batch.own)

    @property
    def importing(self) -> IndexingJob | None:
        with self._wake:
            return next(iter(self._jobs), None)

    @property
    def _jobs(self) -> list[IndexingJob]:
        """The first import of each slice that is being indexed or waits."""
        return [part.jobs[0] for part in (self._batch, *self._imports) if part and part.jobs]

    @property
    def lag_ms(self) -> float:
        """How long the oldest change that is not yet searchable has waited."""
        with self._wake:
            since = min([self._hints.oldest, *(job.started for job in self._jobs)])
            return max(0.0, round((time.monotonic() - since) * 1000, 1))

    # --- the loop ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (step := self._next()) is not None:
            try:
                step()
            except Exception as error:
                explained = self.guard.explain(error)
                if isinstance(explained, MemdError):
                    log.error("%s", explained)
                else:
                    log.exception("the writer goes on after an unexpected error")
        self.guard.look()

    def _look_around(self) -> None:
        """Between two steps, twice a second: what was opened may be too much, or gone."""
        self._looked = time.monotonic()
        if not self.guard.look():
            self._looked += RETRY_SECONDS
        self._restore_failed()
        # What waits for the disk tells by itself when there is room again.
        if "disk" in self.health.names and not self.pending_files() and _has_room(self.stores.folder):
            self.health.clear("disk")
        self.stores.close_unused()
        self.events.tell(LOOKED)

    def _restore_failed(self) -> None:
        """Go on with what a full disk kept from being restored after a write failed half-way."""
        for ns, index in self.stores.indexes.items():
            trouble, waiting = f"half_done:{ns}", list(index.unrestored)
            if waiting:
                try:
                    write_files.restore_failed(self.stores.ledger, index, waiting)
                except (DiskFull, LedgerMoved) as error:
                    log.debug("still to be restored: %s", error)
                restored = [number for number in waiting if number not in index.unrestored]
                splices = [splice for number in restored for splice in actions.splices_of(self.stores.reader, number)]
                self.mark_written(ns, [splice.path for splice in splices])
            if index.unrestored:
                why = f"actions that failed are half done: {', '.join(map(str, index.unrestored))}"
                self.health.set(trouble, why, "make room; memd restores the files by itself")
            elif self.health.clear(trouble) or waiting:
                log.warning("the files of failed actions are restored: ns=%s actions=%s", ns, waiting)

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next thing to do; None when it is time to stop."""
        with self._wake:
            while not self._stopping:
                if time.monotonic() - self._looked > IDLE_SECONDS:
                    return self._look_around
                if step := self._waiting_step():
                    return step
                wait = self._hints.seconds_until_due()
                quiet = time.monotonic() - self._last_change > QUIET_SECONDS
                if not self._wake.wait(min(wait, IDLE_SECONDS)) and wait > IDLE_SECONDS and quiet:
                    return partial(self.events.tell, IDLE)
            return None

    def _waiting_step(self) -> Callable[[], None] | None:
        hints, due = self._hints, None
        starves = time.monotonic() - self._last_slice > IMPORT_SECONDS and not hints.has_own
        if not (self._imports and starves):
            if task := self._tasks.take(hints.has_own, hints.own_overdue):
                return partial(self._run_task, task)
            hurry = bool(self._tasks.urgent or hints.waiters or self._imports or self._unfinished)
            due = hints.take(hurry, only_own=self._unfinished is not None) or self._unfinished
        # Documents last: one may take long, and notes that a scan found need not wait for it.
        self._imports = deque(sorted(self._imports, key=lambda part: all(map(is_document, part.paths))))
        self._batch = due or (self._imports.popleft() if self._imports else None)
        return partial(self._index, self._batch) if self._batch else None

    def _somebody_waits(self) -> bool:
        """Whether indexing should pause: there is something else to do."""
        spent = time.monotonic() - self._piece_began
        if spent < SHORT_PIECE:
            return False
        with self._wake:
            urgent = self._stopping or self._tasks.urgent or spent > LONG_PIECE
            return bool(urgent or not self._hints.seconds_until_due())

    def _run_task(self, task: Task[Any]) -> None:
        future = task.future
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = task.do(*task.args)
        except BaseException as error:
            explained = self.guard.explain(error) if isinstance(error, Exception) else error
            if isinstance(explained, DiskFull):
                # Before who asked hears of it, and looks at the status.
                self.health.set("disk", explained.message, explained.hint)
            future.set_exception(explained)
            if not isinstance(error, Exception):
                raise
            return
        if isinstance(result, IndexingJob):
            result.future = future
            # There may be nothing to do.
            result.progress(0)
        else:
            future.set_result(result)

    def _index(self, batch: Batch) -> None:
        more = False
        try:
            report = self._apply(batch)
            more = report.more
            for job in batch.jobs:
                job.report.add(report)
        except Exception as error:
            # Whoever waits for the import must hear of it, or a failed sync would look like a good one.
            for job in batch.jobs:
                job.error = error
            raise
        finally:
            self._end_piece(batch, more)

    def _end_piece(self, batch: Batch, more: bool) -> None:
        """Keep what is left of a batch for its next turn; with nothing left, tell those who wait for it."""
        ready: list[Future[None]] = []
        with self._wake:
            self._batch = None
            if batch.jobs:
                self._last_slice = time.monotonic()
                if more and not self._stopping:
                    self._imports.appendleft(batch)
            elif more:
                self._unfinished = batch
            else:
                self._unfinished = None if batch is self._unfinished else self._unfinished
                ready = self._hints.finish(batch)
        # Work that is over still refers to its batch, and to all that was read. Until here the batch may be counted.
        batch.work = batch.work if more else None
        for future in ready:
            future.set_result(None)
        for job in batch.jobs if not more else ():
            job.progress(len(batch.paths))

    # --- on the writer's thread ---------------------------------------------------------------------------------

    def mark_written(self, ns: str, paths: Iterable[str]) -> None:
        """Note paths that memd wrote itself: they are indexed before anything else moves the clock."""
        with self._wake:
            for path in paths:
                self._hints.mark_written(ns, path)

    def enqueue(
        self, ns: str, paths: list[str], files: Mapping[str, FileStat], options: IndexingOptions, job: IndexingJob
    ) -> IndexingJob:
        """Queue an import, cut into slices; what waits already is shared."""
        new = set(paths)
        with self._wake:
            for part in self._imports:
                new -= part.share(ns, new, job, options)
            job.total += len(new)
            rest = [path for path in paths if path in new]
            parts = [Batch(ns, part, options, jobs=[job]) for part in slices(rest, files)]
            self._last_slice = self._last_slice if self._imports else time.monotonic()
            self._imports = deque([*parts, *self._imports] if options.first else [*self._imports, *parts])
        return job

    def _apply(self, batch: Batch) -> IngestReport:
        """Index a piece of a batch; what cannot be written now is tried again."""
        self._last_change = time.monotonic()
        if (index := self.stores.indexes.get(batch.ns)) is None:
            return IngestReport()
        try:
            if batch.own:
                return self.index_own(index, batch)
            if batch.work is None:
                batch.work = self._indexing(index, batch, self._somebody_waits)
            return self._next_piece(index, batch.work)
        except (DiskFull, LedgerMoved) as error:
            if isinstance(error, LedgerMoved) or self.health.set("disk", error.message, error.hint):
                log.error("%s", error)
            self._behind.add(index.id)
            with self._wake:
                self._hints.retry_later(batch.ns, batch.paths, RETRY_SECONDS)
        except TextBroken as error:
            log.error("%s", error)
            self.stores.renew_text(index)
            self.repair_text(index)
        return IngestReport()

    def index_own(self, index: OwnIndex, batch: Batch) -> IngestReport:
        """Index what memd wrote itself in one piece: the clock's next tick is promised to it."""
        ledger, before = self.stores.ledger, self.stores.ledger.seq
        report = self._next_piece(index, self._indexing(index, batch, None))
        if ledger.seq == before:
            # An undo may leave what was indexed last; whoever waits for the tick must not wait for another change.
            ledger.transact(ledger.tick)
        return report

    def _indexing(self, index: OwnIndex, batch: Batch, hurry: Callable[[], bool] | None) -> Iterator[IngestReport]:
        """Bring the stores in step with some paths, a piece at a time."""
        ns, paths, options, whole = batch.ns, batch.paths, batch.options, IngestReport()
        restless = partial(self._restless, ns, batch.own) if options.settle else None
        saved: list[SavedMemory] = []
        try:
            how = self.max_bytes, options, hurry, saved, restless
            for report in ingest.apply_in_pieces(self.stores, index, paths, *how):
                whole.add(report)
                if not report.more:
                    documents = [path for path in whole.restless if is_document(path)]
                    self.enqueue(ns, documents, {}, PLAIN, IndexingJob())
                    with self._wake:
                        self._hints.mark_read(ns, paths, set(whole.restless).difference(documents))
                    self._announce(index, whole)
                self._pass_on(index, report, saved)
                yield report
        finally:
            if saved:
                self.events.tell(SAVED, index=index, saved=saved)

    def _pass_on(self, index: OwnIndex, report: IngestReport, saved: list[SavedMemory]) -> None:
        """Tell those who go on with what was indexed."""
        if saved:
            self.events.tell(SAVED, index=index, saved=saved.copy())
            saved.clear()
        if report.to_embed:
            self.events.tell(UNEMBEDDED, workspace=index.id, chunks=report.to_embed)
        if index.unlinked:
            self.events.tell(UNLINKED, ns=index.workspace.ns)

    def _next_piece(self, index: OwnIndex, work: Iterator[IngestReport]) -> IngestReport:
        if index.id in self._behind:
            # The ledger may know more than the text index does.
            self.repair_text(index)
            self._behind.discard(index.id)
        self._piece_began = time.monotonic()
        report = next(work)
        self.health.clear("disk")
        return report

    def repair_text(self, index: OwnIndex, deep: bool = False) -> int:
        """Bring a text index in step with the ledger; returns how many chunks differed.

        Answers say so while it lacks many. One that cannot be read, all of it with `deep`, is made anew.
        """
        ns = index.workspace.ns
        why = f"the text index of {ns} is being filled: older notes are not found by their words yet"
        lacks_many = partial(self.health.set, "text", why, "nothing to do: memd goes on by itself")
        try:
            differed = reconcile_text(self.stores, index, lacks_many, deep)
        finally:
            self.health.clear("text")
        log.log(logging.INFO if differed else logging.DEBUG, "text compared ns=%s differed=%d", ns, differed)
        return differed

    def _restless(self, ns: str, own: frozenset[str], path: str, mtime_ns: int) -> bool:
        """Whether a file was written so short a time ago that what was read may be half of it."""
        settle_ns = self.settings.watch.settle_ms * 1_000_000
        fresh = path not in own and 0 <= time.time_ns() - mtime_ns < settle_ns
        return fresh and self._hints.may_wait(ns, path)

    def _announce(self, index: OwnIndex, report: IngestReport) -> None:
        ns = index.workspace.ns
        self._report_held(index, report)
        for warning in report.warnings:
            log.warning("%s/%s", ns, warning)
        if report.changed:
            self.events.tell(INDEXED, ns=ns, **report.figures)
            log.info("indexed ns=%s %s", ns, report)
            self.events.tell(APPLIED, ns=ns, paths=report.paths)

    def _report_held(self, index: OwnIndex, report: IngestReport) -> None:
        ns, root = index.workspace.ns, index.workspace.root
        if report.held:
            why = f"{root} is gone" if index.missing else f"{report.held} files of {ns} vanished at once"
            hint = f"bring them back, or, if they are meant to be gone: memd sync -n {in_shell(ns)} --accept-missing"
            if self.health.set(f"held:{ns}", why, hint):
                log.warning("%s; their memories are held", why)
        elif not index.held:
            self.health.clear(f"held:{ns}")


def _has_room(folder: Path) -> bool:
    disk = os.statvfs(folder)
    # Some file systems have no limit of files, and tell none.
    return disk.f_bavail * disk.f_frsize > ROOM and (disk.f_favail >= FILES or not disk.f_files)
