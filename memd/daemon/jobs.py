"""What each job does, a function each; every one of them may run twice and has then done no more than once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from datetime import datetime, timedelta
from typing import Any

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext
from memd.daemon.handlers import exam as nightly_exam
from memd.daemon.indexing import SETTLED
from memd.daemon.lifecycle import JobStep
from memd.daemon.scheduler import ScheduledJob
from memd.errors import StoreBroken
from memd.indexer.maintenance import backups
from memd.indexer.maintenance.reconcile import reconcile_vectors
from memd.indexer.record import actions, job_runs
from memd.indexer.record.job_runs import LastRun
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.stores import WorkspaceIndex

FREE = 4
"""The ledger gives its free pages back when they are more than one of so many."""

Work = Callable[[], str]


class BuiltInJobs:
    """The jobs of one daemon. Each runs on the scheduler's thread and leaves the writing to the writer."""

    def __init__(self, ctx: HandlerContext, loop: asyncio.AbstractEventLoop, looked: Callable[[], None]) -> None:
        self.ctx = ctx
        self.parts = ctx.parts
        self.loop = loop
        self.looked = looked
        """Called after each scan."""

    def all(self) -> list[ScheduledJob]:
        """Every job with its schedule and its last run; those that were missed run in this order."""
        known, settings = job_runs.known(self.parts.stores.ledger.reader), self.parts.settings
        found = [ScheduledJob("scan", f"{settings.watch.scan_seconds}s", self.scan, kept=False)]
        for name, work in self.table().items():
            job = ScheduledJob(name, getattr(settings.jobs, name), work)
            if run := known.get(name):
                job.last, job.took_ms, job.result = run.last, run.took_ms, run.result
            found.append(job)
        return found

    def table(self) -> dict[str, Work]:
        """The jobs that have a setting, by its name."""
        return {
            "reflect": self.reflect,
            "decay": self.decay,
            "link": self.link,
            "backup": self.backup,
            "selfexam": self.selfexam,
            "reconcile": self.reconcile,
            "compact": self.compact,
        }

    def keep(self, job: ScheduledJob) -> None:
        if job.kept and job.last:
            run = LastRun(job.name, job.last, job.took_ms, job.result)
            self.parts.worker.submit(JobStep(lambda connection: job_runs.keep(connection, run)))

    # --- keeping in step --------------------------------------------------------------------------------------

    def scan(self) -> str:
        """Repair whatever events missed."""
        report = self.parts.worker.submit(tasks.ScanTask(how=SETTLED)).result()
        self.looked()
        return f"{report.files} changed, {report.removed} removed"

    def reconcile(self) -> str:
        """Compare the caches with the ledger, chunk by chunk, and mend them where they differ."""
        told = [(ns, *mended) for ns, index in list(self.parts.stores.indexes.items()) for mended in self._mend(index)]
        return "mended " + ", ".join(f"{ns}: {count} in {cache}" for ns, count, cache in told) if told else "in step"

    def _mend(self, index: WorkspaceIndex) -> Iterator[tuple[int, str]]:
        """How many chunks differed, and in which cache.

        Looked at here, beside the writer; what changes meanwhile is at worst compared once more by it.
        """
        stores, worker = self.parts.stores, self.parts.worker
        if self._text_differs(index) and (count := worker.submit(tasks.RenewText(index.workspace.ns)).result()):
            yield count, "the text index"
        if self._vectors_differ(index):
            count = worker.submit(tasks.CallTask(lambda: reconcile_vectors(stores, index))).result()
            if count:
                yield count, "the collection"

    def _text_differs(self, index: WorkspaceIndex) -> bool:
        try:
            index.text.verify()
            return index.text.ids() != catalog.chunk_ids(self.parts.stores.ledger.reader, index.id)
        except StoreBroken:
            return True

    def _vectors_differ(self, index: WorkspaceIndex) -> bool:
        model, collection = self.parts.stores.model, index.collection
        if model is None or collection is None:
            return False
        wanted = vector_table.embedded(self.parts.stores.ledger.reader, model.id, index.id)
        try:
            return collection.ids() != wanted
        except StoreBroken:
            return True

    # --- letting memories live --------------------------------------------------------------------------------

    def reflect(self) -> str:
        """Count accesses, move memories by the rules, compare what changed, judge what is alike."""
        told = [self.parts.reflection.reflect(ns, "job:reflect", fades=False) for ns in list(self.parts.stores.indexes)]
        return f"{_sum(told, 'moved')} moved, {_sum(told, 'linked')} linked"

    def decay(self) -> str:
        """Let importance and unused edges fade."""
        told = [self.parts.reflection.reflect(ns, "job:decay", moves=False) for ns in list(self.parts.stores.indexes)]
        return (
            f"{_sum(told, 'faded')} faded, {_sum(told, 'edges_faded')} links faded, {_sum(told, 'edges_pruned')} gone"
        )

    def link(self) -> str:
        """Link what memories mention, share and are like, where no write has done it."""
        made = sum(self.parts.reflection.link(ns, "job:link") for ns in list(self.parts.stores.indexes))
        return f"{made} linked"

    # --- looking after the ledger ---------------------------------------------------------------------------------

    def backup(self) -> str:
        stores = self.parts.stores
        return backups.nightly(stores.ledger, stores.folder, datetime.now().astimezone())

    def compact(self) -> str:
        """Sweep up, let go of what the user wants kept no longer, and give room back where that is worth it."""
        worker = self.parts.worker
        worker.submit(tasks.Recover()).result()
        if not self.parts.embedding.pending:
            worker.submit(tasks.ForgetOldModels()).result()
        told = ["swept"]
        if days := self.parts.settings.history.keep_days:
            before = actions.in_utc(datetime.now().astimezone() - timedelta(days))
            told.append(f"{worker.submit(tasks.ForgetPast(before)).result()} former texts dropped")
        if freed := self._give_back():
            told.append(freed)
        return ", ".join(told)

    def _give_back(self) -> str:
        ledger = self.parts.stores.ledger
        used, free, size = ledger.pages()
        if free * FREE <= used + free:
            return ""
        problem = self.parts.worker.submit(tasks.CallTask(ledger.compact)).result()
        return f"{free * size / 1e6:.1f} MB given back" + (f" ({problem})" if problem else "")

    def selfexam(self) -> str:
        """Among the questions of others, one at a time, so that nobody waits for it."""
        exam = nightly_exam.nightly(self.ctx, datetime.now().astimezone().date())
        try:
            return asyncio.run_coroutine_threadsafe(exam, self.loop).result()
        except CancelledError:
            return "cut short: memd was stopped"


def _sum(reports: list[dict[str, Any]], name: str) -> int:
    return sum(int(report[name]) for report in reports)
