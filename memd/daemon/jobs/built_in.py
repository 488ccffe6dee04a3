"""The jobs, a function each, the reflections that jobs and people ask for, and the care of the text indexes while it is
quiet."""

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.daemon.embedding.thread import Embedding
from memd.daemon.jobs.scheduler import ScheduledJob
from memd.daemon.process.health import Health, Stopping
from memd.daemon.process.system import give_way
from memd.daemon.writer import tasks
from memd.daemon.writer.queue import Turn
from memd.daemon.writer.worker import Worker
from memd.errors import MemdError, StoreBroken
from memd.indexer.indexing.ingest import SETTLED
from memd.indexer.lifecycle.edges import batches
from memd.indexer.lifecycle.reflect import Reflection
from memd.indexer.maintenance import backups, rebuild
from memd.indexer.record import actions, history
from memd.indexer.store.ledger import translated
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.segment import LINES
from memd.lifecycle.rule_book import rule_book
from memd.lifecycle.rules import Rule

log = logging.getLogger("memd.maintenance")

LEAST, MOST = 0.002, 0.05
"""Seconds of rest after each piece of work: about as long as the piece took."""

RULES = "rules"


def rules_of(texts: Iterable[tuple[str, str]], health: Health) -> tuple[Rule, ...]:
    """The rules of the config file; a wrong one degrades health, and the others hold."""
    book = rule_book(texts)
    health.clear(RULES)
    if book.problems:
        problems = "; ".join(message for _, message in book.problems)
        logging.getLogger("memd").warning("rules that are not followed: %s", problems)
        health.set(RULES, problems, "see where: memd config check; mend it with memd rule set, or memd rule rm")
    return book.rules


class ReflectionRunner:
    """Lets memories age, for a job or for someone who asked."""

    def __init__(self, worker: Worker, rules: Callable[[], Sequence[Rule]]) -> None:
        self._stores, self._worker = worker.stores, worker
        self._rules = rules
        self._one = threading.Lock()

    def reflect(self, ns: str, who: str, dry: bool = False, **passes: bool) -> dict[str, Any]:
        """Age the memories of a workspace and link similar ones; returns what was done and what needs a decision.

        With `moves=False` only fading is done, with `fades=False` all the rest.
        """
        moved = partial(tasks.announce_moved, self._worker)
        with self._one:
            return self._reflection(ns, dry=dry, who=who, **passes, on_moved=moved).reflect()

    def link(self, ns: str) -> int:
        """Only link memories, by mentions, tags and similarity; returns how many edges are new."""
        with self._one:
            return self._reflection(ns).link()

    def _reflection(self, ns: str, **how: Any) -> Reflection:
        stores, now = self._stores, datetime.now(UTC)
        return Reflection(stores, stores.index(ns), self._rules(), now, self._write, _pacer(), **how)

    def _write(self, work: Callable[[Connection], Any]) -> Any:
        return self._worker.submit(self._stores.ledger.transact, work, turn=Turn.BACKGROUND).result()


def _pacer() -> Callable[[], None]:
    """A function that sleeps for as long as was worked since it last slept."""
    since = time.monotonic()

    def rest() -> None:
        nonlocal since
        time.sleep(min(MOST, max(LEAST, time.monotonic() - since)))
        since = time.monotonic()

    return rest


FREE = 4
"""The ledger gives its free pages back when they are more than one in so many."""
SCANNED_AT_ONCE = 50
"""Workspaces that are scanned in one go: with a thousand of them, a save should not wait for all."""
COUNTS = ("moved", "linked", "faded", "edges_faded", "edges_pruned")

NAMES = ("reflect", "decay", "link", "backup", "selfexam", "reconcile", "compact")
"""The jobs that have a setting; each is a method of the same name."""


@dataclass(frozen=True)
class BuiltInJobs:
    """The jobs of one daemon. Each runs on the scheduler's thread and leaves the writing to the writer."""

    worker: Worker
    embedding: Embedding
    reflection: ReflectionRunner
    examine: Callable[[date], str]
    after_scan: Callable[[], None]

    @property
    def stores(self) -> OwnStores:
        return self.worker.stores

    def all(self) -> list[ScheduledJob]:
        """Every job with its schedule and its last run; those that were missed run in this order."""
        last_runs, settings = actions.last_runs(self.stores.reader), self.worker.settings
        jobs = [ScheduledJob("scan", f"{settings.watch.scan_seconds}s", self.scan, kept=False)]
        for name in NAMES:
            last_run = dict(last_runs.get(name, {}), name=name)
            jobs.append(ScheduledJob(when=getattr(settings.jobs, name), work=getattr(self, name), **last_run))
        return jobs

    def save_run(self, job: ScheduledJob) -> None:
        if job.kept and job.last:
            ran = job.name, job.last, job.took_ms, job.result
            self.worker.submit(self.stores.ledger.transact, actions.keep_run, *ran, turn=Turn.BACKGROUND)

    # --- keeping in step --------------------------------------------------------------------------------------

    def scan(self) -> str:
        """Repair whatever events missed."""
        changed = removed = 0
        for names in batches(list(self.stores.indexes), SCANNED_AT_ONCE):
            report = self.worker.submit(tasks.scan_workspaces, self.worker, tuple(names), SETTLED).result()
            changed, removed = changed + report.files, removed + report.removed
        self.after_scan()
        return f"{changed} changed, {removed} removed"

    def reconcile(self) -> str:
        """Compare the caches with the ledger, chunk by chunk, and mend them where they differ."""
        mended = [text for index in list(self.stores.indexes.values()) for text in self._mend(index)]
        return f"mended {', '.join(mended)}" if mended else "in step"

    def _mend(self, index: OwnIndex) -> Iterator[str]:
        """How many chunks differed, and in which cache.

        Compared here, beside the writer; what changes meanwhile is at worst compared once more by it.
        """
        ns = index.workspace.ns
        if self._text_differs(index) and (count := self.worker.submit(tasks.verify_text, self.worker, ns).result()):
            yield f"{ns}: {count} in the text index"
        if count := self._collection_differs(index):
            rebuild.reconcile_collection(self.stores, index)
            yield f"{ns}: {count} in the collection"

    def _text_differs(self, index: OwnIndex) -> bool:
        try:
            return any(rebuild.text_difference(self.stores, index))
        except StoreBroken:
            return True

    def _collection_differs(self, index: OwnIndex) -> int:
        try:
            return sum(rebuild.collection_difference(self.stores, index))
        except StoreBroken:
            # It is compared by itself as soon as it can be asked again.
            return 0

    # --- letting memories live --------------------------------------------------------------------------------

    def reflect(self) -> str:
        """Count accesses, move memories by the rules, compare what changed, judge what is alike."""
        sums = self._reflected("job:reflect", fades=False)
        return f"{sums['moved']} moved, {sums['linked']} linked"

    def decay(self) -> str:
        """Let importance and unused edges fade."""
        sums = self._reflected("job:decay", moves=False)
        return f"{sums['faded']} faded, {sums['edges_faded']} links faded, {sums['edges_pruned']} gone"

    def _reflected(self, who: str, **passes: bool) -> Counter[str]:
        """The counts of a reflection, over all workspaces."""
        sums: Counter[str] = Counter()
        for ns in list(self.stores.indexes):
            report = self.reflection.reflect(ns, who, **passes)
            sums.update({name: int(report[name]) for name in COUNTS})
        return sums

    def link(self) -> str:
        """Link memories by mentions, tags and similarity, where no write has done it."""
        return f"{sum(self.reflection.link(ns) for ns in list(self.stores.indexes))} linked"

    # --- looking after the ledger ---------------------------------------------------------------------------------

    def backup(self) -> str:
        return backups.nightly(self.stores.ledger, self.stores.folder, datetime.now().astimezone())

    def compact(self) -> str:
        """Sweep up, drop what the settings say is too old, and give room back where that is worth it."""
        self.worker.submit(tasks.recover_actions, self.worker).result()
        if not self.embedding.pending:
            self.worker.submit(tasks.forget_old_models, self.stores).result()
        done = ["swept"]
        if days := self.worker.settings.history.keep_days:
            before = actions.in_utc(datetime.now().astimezone() - timedelta(days))
            dropped = self.worker.submit(self.stores.ledger.transact, history.expire, before)
            done.append(f"{dropped.result()} former texts dropped")
        return ", ".join(filter(None, [*done, self._give_back()]))

    def _give_back(self) -> str:
        used, free, size = self.stores.ledger.pages()
        if free * FREE <= used + free:
            return ""
        problem = self.worker.submit(self.stores.ledger.compact).result()
        return f"{free * size / 1e6:.1f} MB given back" + (f" ({problem})" if problem else "")

    def selfexam(self) -> str:
        """Ask probes among the questions of others, one at a time, so that nobody waits for it."""
        try:
            return self.examine(datetime.now().astimezone().date())
        except CancelledError:
            return "cut short: memd was stopped"


# --- work on the text indexes beside the writer: reads ahead, and joins what edits and imports left in pieces --------

MOST_LARGE = 3
"""Large segments of one index: with more of them, looking up a new word takes noticeably longer."""

MANY_LARGE = 10
"""With more they are joined at once: in the middle of an import, and while vectors are being made."""

SMALL_EACH = 3
"""For each large segment there may be so many small ones."""

RETRY_SECONDS = 600.0


class IndexMaintenance:
    """One thing at a time, in a thread of its own, begun only when the writer is idle."""

    def __init__(self, worker: Worker, embedding: Embedding) -> None:
        self.worker = worker
        self.embedding = embedding
        self._warm: dict[int, int] = {}
        """How many large segments the index of each workspace had when it was read ahead."""
        self._join_from = 0.0
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin what there is to do; called by the writer, which must not wait for it."""
        makes_vectors = self.embedding.at_work
        if not (makes_vectors or self._occupied) and (cold := self._cold()) is not None:
            self._begin(self._read_ahead, cold)
        else:
            self.look_at_pieces(MANY_LARGE if makes_vectors else MOST_LARGE)

    def look_at_pieces(self, most: int = MANY_LARGE) -> None:
        """Begin to join an index that is in more pieces; called by the writer too."""
        if not self._occupied and time.monotonic() >= self._join_from:
            for index in self.worker.stores.indexes.values():
                text = index.open_text
                if text is not None and (text.large > most or text.small > SMALL_EACH * most):
                    self._begin(partial(self._join, most), index)
                    return
            cold = self._cold() if self.embedding.at_work else None
            if cold is not None and cold.open_text is None:
                # Making vectors may take hours, in which readers are asked: nobody else would open it here.
                self._begin(self._read_ahead, cold)

    @property
    def _occupied(self) -> bool:
        return self.embedding.warming or (self._thread is not None and self._thread.is_alive())

    def _cold(self) -> OwnIndex | None:
        """An index that was not read ahead since an import, or, where there is room for all, one that nobody has asked.

        One that was closed again is left alone.
        """
        stores = self.worker.stores
        for index in stores.indexes.values():
            text = index.open_text
            unasked = text is None and stores.all_fit and index.id not in self._warm
            if unasked or (text is not None and self._warm.get(index.id) != text.large):
                return index
        return None

    def _begin(self, work: Callable[[OwnIndex], None], index: OwnIndex) -> None:
        self._warm.setdefault(index.id, 0)
        self._thread = threading.Thread(target=self._run, args=(work, index), name="memd-maintenance", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[OwnIndex], None], index: OwnIndex) -> None:
        give_way()
        try:
            with translated():
                work(index)
        except Stopping:
            return
        except MemdError as error:
            self.worker.guard.explain(error)
            log.warning("put off: %s", error)
            self._join_from = time.monotonic() + RETRY_SECONDS

    def _read_ahead(self, index: OwnIndex) -> None:
        try:
            text = index.text
        except StoreBroken as error:
            log.warning("ns=%s: %s", index.workspace.ns, error)
            self.worker.submit(tasks.verify_text, self.worker, index.workspace.ns).result()
            return
        # Noted also when it fails: a question will find the damage, and it is repaired then.
        self._warm[index.id] = text.large
        text.postings().warm()

    def _join(self, most: int, index: OwnIndex) -> None:
        started, pieces = time.monotonic(), index.text.pieces(most)
        try:
            fresh = rebuild.build_elsewhere(self.worker.stores.folder, index.id, rebuild.GENTLE, pieces)
        except MemdError:
            if all((index.text.folder / piece.make_filename(LINES)).exists() for piece in pieces):
                raise
            # A commit removed one of them just now.
            return
        try:
            using = self.worker.submit(tasks.use_joined_text, self.worker, index, fresh, pieces, turn=Turn.BACKGROUND)
            used = using.result()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        took, how = (time.monotonic() - started) * 1000, "joined" if used else "changed meanwhile, joined later"
        log.info("%s ns=%s segments=%d ms=%.0f", how, index.workspace.ns, len(pieces), took)
