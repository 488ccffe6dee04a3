"""What the writer does to files, and to what the ledger knows of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from memd.config.tokens import AccessToken
from memd.daemon.events import WRITTEN, written
from memd.daemon.tasks.indexing import repair_dirty
from memd.daemon.tasks.lifecycle import announce_moved_by
from memd.daemon.worker import Worker
from memd.indexer.record import actions
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.transfer import import_plan
from memd.indexer.writing import write_files
from memd.indexer.writing.write_files import ActionResult, WriteAction
from memd.notes import safe_write


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


def recover_actions(worker: Worker) -> list[str]:
    """Decide what became of actions that a killed process left half-way, before anything else is read or written.

    What it promised to have indexed comes first, in the order of the promises.
    """
    indexes = {index.id: index for index in worker.stores.indexes.values()}
    copies = [copy for index in indexes.values() for copy in write_files.recover(worker.stores, index)]
    for workspace, (_, paths) in sorted(worker.stores.ledger.promises().items(), key=lambda one: one[1]):
        if index := indexes.get(workspace):
            # What the ledger has decided about already, only the text index may lack.
            repair_dirty(worker, index)
            worker.mark_written(index.workspace.ns, paths)
    return copies


# --- imports --------------------------------------------------------------------------------------------------


def import_files(
    worker: Worker, index: OwnIndex, action: WriteAction, steps: Sequence[import_plan.FileImport]
) -> ActionResult:
    """Write one batch of an import and index it, so that the memories are there for what is restored next."""
    done = write_files.perform(worker.stores, index, action)
    if not done.repeated:
        for step in steps:
            _keep_time(index, step)
        worker.events.tell(WRITTEN, ns=index.workspace.ns, **written(action.who, action.what, done))
        worker.index_own(index, tuple(done.paths))
    return done


def _keep_time(index: OwnIndex, step: import_plan.FileImport) -> None:
    """A new file keeps the time that it had: it is the day of a note that names none."""
    modified = step.incoming.modified
    if step.new and modified and modified < datetime.now().timestamp():
        with suppress(OSError):
            os.utime(safe_write.place_of(index.workspace.root, step.incoming.path), (modified, modified))
