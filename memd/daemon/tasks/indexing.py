"""What the writer does to bring the index in step with the files of a workspace."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from memd.daemon.indexing import PLAIN, IndexingJob, IndexingOptions
from memd.daemon.tasks.stores import repair_text
from memd.daemon.worker import Worker
from memd.indexer.indexing.ingest import IngestReport
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import ScanResult, newest_first, scan
from memd.indexer.store import catalog
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.models import Workspace
from memd.notes import parse

log = logging.getLogger("memd.tasks")

NOTES_FORMAT = "notes_format"
"""The ledger's setting that says by which `FORMAT` the notes were parsed."""


def open_workspace(stores: OwnStores, workspace: Workspace) -> OwnIndex:
    """Begin to keep a workspace: open its index and repair what a killed process left."""
    index = stores.open_index(workspace)
    stores.open_collections(index)
    return index


def forget_workspace(worker: Worker, ns: str) -> None:
    """Drop a workspace's index and rows, never its files."""
    worker.stores.forget(worker.stores.index(ns))
    worker.health.clear(f"held:{ns}")


def forget_unlisted(stores: OwnStores) -> None:
    """Forget the workspaces that are no longer in the config; it moves the clock, so what was promised comes first."""
    known = {index.id for index in stores.indexes.values()}
    for row in catalog.workspace_rows(stores.ledger.reader):
        if row["id"] not in known:
            log.info("forgetting ns=%s, which is no longer in the config", row["ns"])
            stores.forget_number(row["id"])


def scan_workspaces(
    worker: Worker, names: tuple[str, ...] = (), options: IndexingOptions = PLAIN
) -> IngestReport | IndexingJob:
    """Compare every file with the ledger and import what differs; without names, in all workspaces."""
    known = worker.stores.indexes
    # One of several may have been removed since; the only one that was named must be there.
    indexes = [known[ns] for ns in names or known if ns in known] or [worker.stores.index(ns) for ns in names]
    scans = [(index, _scan(worker, index)) for index in indexes]
    todo = [(index, seen, _reading_order(index, seen, options.deep)) for index, seen in scans]
    job = IndexingJob()
    for index, seen, paths in todo:
        worker.enqueue(index, paths, _sizes(seen), job, options)
    return job


def reread_files(worker: Worker, ns: str, paths: Sequence[str]) -> IngestReport | IndexingJob:
    """Read some files whatever their stamps say, and compare the text index: they have a word that it lacks."""
    index = worker.stores.index(ns)
    repair_text(worker, index)
    job = IndexingJob()
    worker.enqueue(index, list(paths), {}, job, IndexingOptions(deep=True))
    return job


def read_files_first(worker: Worker, ns: str, paths: Sequence[str]) -> IngestReport | IndexingJob:
    """Index some files before whatever else an import has to do; what vanished comes before them, as in a scan."""
    index = worker.stores.index(ns)
    seen = scan(index.workspace)
    job = IndexingJob()
    gone = sorted(index.files.keys() - seen.files.keys())
    worker.enqueue(index, [*gone, *paths], _sizes(seen), job, IndexingOptions(first=True))
    return job


def save_notes_format(ledger: Ledger) -> None:
    """Remember that all notes have been parsed by the present `FORMAT`."""
    ledger.remember(NOTES_FORMAT, str(parse.FORMAT))


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
    stores = worker.stores
    row = stores.ledger.reader.execute("SELECT * FROM workspaces WHERE id = ?", (index.id,)).fetchone()
    if row["text_dirty"] or not stores.has_text(index):
        repair_text(worker, index)
    if index.collection is not None and row["vectors_dirty"] and not index.collection.behind:
        index.collection.compare()


def _reading_order(index: OwnIndex, seen: ScanResult, deep: bool) -> list[str]:
    """What vanished first, so that a renamed file finds its memories; then the newest."""
    paths = changed_paths(index, seen) | (seen.files.keys() if deep else set())
    gone = sorted(path for path in paths if path not in seen.files)
    return gone + list(newest_first(paths - set(gone), seen.files))


def _sizes(seen: ScanResult) -> dict[str, int]:
    return {path: stat.size for path, stat in seen.files.items()}
