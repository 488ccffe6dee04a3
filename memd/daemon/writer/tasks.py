"""The writer's work: on the files of a workspace, for the stores (the text index, the model, its vectors), and on the
lives of memories (accesses, which are collected for it, tiers, edges)."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from memd.config.schema import Settings
from memd.config.tokens import AccessToken
from memd.daemon.serving.events import ACCESSED, MOVED, WRITTEN, written
from memd.daemon.writer.queue import Batch, IndexingJob, Turn
from memd.daemon.writer.worker import Worker
from memd.errors import LedgerDamaged
from memd.indexer.indexing.ingest import PLAIN, IndexingOptions, IngestReport
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import ScanResult, newest_first, scan
from memd.indexer.lifecycle import edges, lives, mentions
from memd.indexer.maintenance import doctor
from memd.indexer.maintenance.doctor import DoctorFinding
from memd.indexer.model import multilingual
from memd.indexer.record import actions
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.ledger import Ledger, LedgerPlace
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.views import overview
from memd.indexer.writing import write_files
from memd.indexer.writing.write_files import ActionResult, WriteAction
from memd.models import is_document
from memd.notes import documents, parse, safe_write
from memd.notes.merging import IncomingFile

log = logging.getLogger("memd.tasks")

Indexing = IngestReport | IndexingJob
"""What an import did, or the job that will tell."""
NOTES_FORMAT = "notes_format"
"""The ledger's setting that says by which `FORMAT` the notes were parsed."""


# --- files ----------------------------------------------------------------------------------------------------


def stop_watching(worker: Worker, number: int, ns: str, hard: bool) -> None:
    """Drop a workspace's index; `hard`: also all that is known of its memories. Never its files."""
    worker.stores.stop_watching(number, hard)
    _keep_documents(worker.stores)
    worker.health.clear(f"held:{ns}")


def leave_unlisted(stores: OwnStores) -> None:
    """Drop the indexes of workspaces that are no longer in the config; it moves the clock, so what was promised comes
    first."""
    known = {index.id for index in stores.indexes.values()}
    for row in catalog.workspace_rows(stores.reader):
        if row["id"] not in known:
            log.warning("%s is no longer in the config; what is known of its memories is kept", row["ns"])
            stores.stop_watching(row["id"])
    _keep_documents(stores)


def _keep_documents(stores: OwnStores) -> None:
    """Remove the texts of documents that no workspace has."""
    files = ((index, path) for index in stores.indexes.values() for path in index.known_files())
    documents.keep_only(index.workspace.root / path for index, path in files if is_document(path))


def scan_workspaces(worker: Worker, names: tuple[str, ...] = (), options: IndexingOptions = PLAIN) -> Indexing:
    """Compare every file with the ledger and import what differs; without names, in all workspaces."""
    known = worker.stores.indexes
    # One of several may have been removed since; the only one that was named must be there.
    indexes = [known[ns] for ns in names or known if ns in known] or [worker.stores.index(ns) for ns in names]
    scans = [(index, _scan(worker, index)) for index in indexes]
    job = IndexingJob()
    for index, seen in scans:
        worker.enqueue(index.workspace.ns, _reading_order(index, seen, options.deep), seen.files, options, job)
    return job


def reread_files(worker: Worker, ns: str, paths: Sequence[str]) -> Indexing:
    """Read some files whatever their stamps say, and compare the text index: they have a word that it lacks."""
    worker.repair_text(worker.stores.index(ns))
    return worker.enqueue(ns, list(paths), {}, IndexingOptions(deep=True), IndexingJob())


def read_files_first(worker: Worker, ns: str, paths: Sequence[str]) -> Indexing:
    """Index some files before whatever else an import has to do; what vanished comes before them, as in a scan."""
    index = worker.stores.index(ns)
    seen = scan(index.workspace)
    gone = sorted(index.files.keys() - seen.files.keys())
    return worker.enqueue(ns, [*gone, *paths], seen.files, IndexingOptions(first=True), IndexingJob())


def save_notes_format(ledger: Ledger) -> None:
    """Remember that all notes have been parsed by the present `FORMAT`."""
    ledger.transact(ledger.save_setting, NOTES_FORMAT, str(parse.FORMAT))


def _scan(worker: Worker, index: OwnIndex) -> ScanResult:
    repair_dirty(worker, index)
    seen = scan(index.workspace)
    index.missing, index.skipped, index.copied = seen.missing, seen.skipped, seen.copied()
    if not seen.missing and not (index.held - seen.files.keys()):
        index.held = frozenset()
        worker.health.clear(f"held:{index.workspace.ns}")
    return seen


def repair_dirty(worker: Worker, index: OwnIndex) -> None:
    """Compare the caches with the ledger where the ledger says that they may differ."""
    if not worker.stores.has_text(index):
        worker.repair_text(index)


def _reading_order(index: OwnIndex, seen: ScanResult, deep: bool) -> list[str]:
    """Vanished files first, so that a renamed file finds its memories; then the newest."""
    paths = changed_paths(index, seen) | (seen.files.keys() if deep else set())
    gone = sorted(path for path in paths if path not in seen.files)
    return gone + list(newest_first(paths - set(gone), seen.files))


def write(worker: Worker, ns: str, action: WriteAction) -> ActionResult:
    """Change files for someone; done when they are on the disk, the index follows at once."""
    done = write_files.perform(worker.stores, worker.stores.index(ns), action)
    if not done.repeated:
        worker.events.tell(WRITTEN, ns=ns, **written(action.who, action.what, done))
    return _with_tick(worker, ns, done)


def undo(worker: Worker, ns: str, action: int, who: str, request_id: str = "") -> ActionResult:
    """Undo what an action changed."""
    done = write_files.undo(worker.stores, worker.stores.index(ns), action, who, request_id)
    if not done.repeated:
        worker.events.tell(WRITTEN, ns=ns, **written(who, "undo", done))
        announce_moved_by(worker, done.action)
    return _with_tick(worker, ns, done)


def _with_tick(worker: Worker, ns: str, done: ActionResult) -> ActionResult:
    """The action with the clock at which questions see it; only this thread moves the clock."""
    ledger = worker.stores.ledger
    worker.mark_written(ns, done.paths if done.changed else ())
    promised, _ = ledger.promises().get(worker.stores.index(ns).id, (ledger.seq, []))
    return replace(done, visible=ledger.clock_at(promised))


def log_token_change(stores: OwnStores, token: AccessToken, what: str, who: str) -> None:
    """Write down that a token of the hub was made or taken back, in the log of each of its workspaces."""
    # An entry a workspace, which names no other: who sees one may not know of the rest.
    indexes = [index for ns, index in stores.indexes.items() if ns in token.ns]
    may = "write" if token.write else "read"
    with stores.ledger.write() as connection:
        for index in indexes:
            actions.add(connection, index.id, who, what, token=token.who, may=may, expires=token.expires)


def recover_actions(worker: Worker) -> None:
    """Decide what became of actions that a killed process left half-way, before anything else is read or written.

    What it promised to have indexed comes first, in the order of the promises. What it was forgetting goes from the
    ledger's free pages; the caches that had it went when they were opened.
    """
    indexes = {index.id: index for index in worker.stores.indexes.values()}
    for own in indexes.values():
        write_files.recover(worker.stores, own)
    for workspace, (_, paths) in sorted(worker.stores.ledger.promises().items(), key=lambda one: one[1]):
        if index := indexes.get(workspace):
            # What the ledger has decided about already, only the text index may lack.
            repair_dirty(worker, index)
            worker.mark_written(index.workspace.ns, paths)
    if (purging := worker.stores.purging) and not worker.stores.ledger.compact():
        worker.stores.end_purging(purging)


# --- imports --------------------------------------------------------------------------------------------------


def import_files(worker: Worker, index: OwnIndex, action: WriteAction, steps: Sequence[IncomingFile]) -> ActionResult:
    """Write one batch of an import and index it, so that the memories are there for what is restored next."""
    done = write_files.perform(worker.stores, index, action)
    if not done.repeated:
        for step in steps:
            _keep_time(index, step)
        worker.events.tell(WRITTEN, ns=index.workspace.ns, **written(action.who, action.what, done))
        worker.index_own(index, Batch(index.workspace.ns, tuple(done.paths), PLAIN))
    return done


def _keep_time(index: OwnIndex, step: IncomingFile) -> None:
    """A new file keeps the time that it had: it is the day of a note that names none."""
    if 0 < step.modified < datetime.now().timestamp():
        with suppress(OSError):
            os.utime(safe_write.place_of(index.workspace.root, step.path), (step.modified, step.modified))


# --- the text index -------------------------------------------------------------------------------------------


def verify_text(worker: Worker, ns: str) -> int:
    """Compare a text index with the ledger, after making it anew if it cannot be read; returns what differed."""
    return worker.repair_text(worker.stores.index(ns), deep=True)


def use_built_text(worker: Worker, index: OwnIndex, fresh: Path) -> None:
    """Use a text index that another process built, and add what changed meanwhile."""
    if worker.stores.indexes.get(index.workspace.ns) is index:
        worker.stores.swap_text(index, fresh)
        worker.repair_text(index)


def use_joined_text(worker: Worker, index: OwnIndex, fresh: Path, joined: Sequence[Any]) -> bool:
    """Use what another process made of some segments; says whether they are still there."""
    if worker.stores.indexes.get(index.workspace.ns) is not index or not index.text.adopt(fresh, joined):
        return False
    worker.stores.have_texts_read_again()
    return True


# --- the model and its vectors --------------------------------------------------------------------------------


def mark_multilingual(stores: OwnStores, names: Iterable[str], why: str) -> None:
    """Note that workspaces were asked in another language, and what showed it: all chunks get vectors for that."""
    indexes = [stores.index(ns) for ns in names]
    with stores.ledger.write() as connection:
        for index in indexes:
            catalog.mark_multilingual(connection, index.id)
            stores.ledger.save_setting(connection, catalog.multilingual_key(index.id), why)
    for index in indexes:
        index.multilingual = True


def rebuild_vectors(stores: OwnStores, ns: str) -> None:
    """Have a workspace's mirror and collection made anew from the vectors in the ledger."""
    index = stores.index(ns)
    index.drop_mirrors()
    stores.renew_collection(index)


def forget_old_models(stores: OwnStores) -> None:
    """Drop the vectors and collections of models that are no longer used; those for other languages stay."""
    if stores.model is None:
        return
    stores.drop_former()
    with stores.ledger.write() as connection:
        vector_table.forget_other_models(connection, stores.model.embedder.fingerprint, multilingual.FINGERPRINT)
        vector_table.sweep(connection)
    if stores.vectors is not None:
        stores.vectors.sweep()


# --- all of them ----------------------------------------------------------------------------------------------


def examine_stores(worker: Worker, settings: Settings, ledger: DoctorFinding, fix: bool) -> list[DoctorFinding]:
    """Check the stores against each other, and repair them with `fix`; no other write may happen meanwhile."""
    stores = worker.stores
    findings = doctor.examine(stores, settings, ledger, fix, running=True)
    if findings[0].state == "broken" and stores.ledger.place is LedgerPlace.HERE:
        worker.guard.explain(LedgerDamaged(findings[0].detail, findings[0].fix))
        if fix:
            findings = [doctor.mend_ledger(stores.folder, findings[0].detail)]
            stores.ledger.is_replaced = True
    return findings


# --- the lives of memories ----

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
    moves = lives.last_moves(worker.stores.reader, [memory for _, memory, _ in keyed])
    for ns, memory, key in keyed:
        worker.events.tell(MOVED, ns=ns, key=key, **moves[memory])


def announce_moved_by(worker: Worker, action: int) -> None:
    """The same of what an action moved."""
    if worker.events.watched(MOVED):
        changes = actions.changes_of(worker.stores.reader, action)
        announce_moved(worker, [change.memory for change in changes if change.what == "tier"])


def _keys_of(worker: Worker, memories: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Workspace, number and key of the memories that are still in a file."""
    reader, numbers = worker.stores.reader, sorted(set(memories))
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
        worker.stores.ledger.transact(overview.keep_exam, index.id, day, result)


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
