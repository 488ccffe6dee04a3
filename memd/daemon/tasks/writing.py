"""Tasks that change files, and those that change what the ledger knows of the past."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from memd.config.tokens import AccessToken
from memd.daemon.events import WRITTEN, written
from memd.daemon.task_queue import Task, WriteTask
from memd.daemon.tasks.lifecycle import announce_moved_by
from memd.daemon.worker import Worker
from memd.indexer.record import actions, history, proposals
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.transfer import import_plan
from memd.indexer.writing import purge, write_files
from memd.indexer.writing.undo import undo
from memd.indexer.writing.write_files import ActionResult, WriteAction
from memd.notes import safe_write


class WriteFiles(WriteTask[ActionResult]):
    """Change files for someone; done when they are on the disk, the index follows at once."""

    ns: str
    write_action: WriteAction

    def run(self, worker: Worker) -> ActionResult:
        done = write_files.perform(worker.stores, worker.stores.index(self.ns), self.write_action)
        if not done.repeated:
            worker.events.tell(WRITTEN, ns=self.ns, **written(self.write_action.who, self.write_action.what, done))
        return _with_tick(worker, self.ns, done)


class UndoChanges(Task[ActionResult]):
    """Undo what an action changed."""

    ns: str
    action: int
    who: str
    request_id: str = ""

    def run(self, worker: Worker) -> ActionResult:
        done = undo(worker.stores, worker.stores.index(self.ns), self.action, self.who, self.request_id)
        if not done.repeated:
            worker.events.tell(WRITTEN, ns=self.ns, **written(self.who, "undo", done))
            announce_moved_by(worker, done.action)
        return _with_tick(worker, self.ns, done)


class UndoFileChanges(UndoChanges, WriteTask[ActionResult]):
    """Undo what an action wrote to files."""


class UndoLifeChanges(UndoChanges):
    """Undo what an action changed of memories' lives. It moves the clock, so it comes after memd's own writes."""


def _with_tick(worker: Worker, ns: str, done: ActionResult) -> ActionResult:
    """The action with the clock at which questions see it; only this thread moves the clock."""
    ledger = worker.stores.ledger
    ticks = worker.mark_written(ns, done.paths if done.changed else ())
    return replace(done, visible=f"c:{ledger.id}:{ledger.seq + ticks}")


class LogTokenChange(Task[None]):
    """Write down that a token of the hub was made or taken back, in the log of each of its workspaces."""

    token: AccessToken
    what: str
    who: str

    def run(self, worker: Worker) -> None:
        # An entry a workspace, which names no other: who sees one may not know of the rest.
        indexes = [index for ns, index in worker.stores.indexes.items() if ns in self.token.ns]
        may = "write" if self.token.write else "read"
        with worker.stores.ledger.write() as connection:
            for index in indexes:
                actions.add(
                    connection, index.id, self.who, self.what, token=self.token.who, may=may, expires=self.token.expires
                )


class RecoverActions(Task[list[str]]):
    """Decide what became of actions that a killed process left half-way, before anything else is read or written."""

    def run(self, worker: Worker) -> list[str]:
        return [copy for index in worker.stores.indexes.values() for copy in write_files.recover(worker.stores, index)]


# --- imports --------------------------------------------------------------------------------------------------


class ImportFiles(Task[ActionResult]):
    """Write one batch of an import and index it, so that the memories are there for what is restored next."""

    index: WorkspaceIndex
    write_action: WriteAction
    steps: Sequence[import_plan.FileImport]

    def run(self, worker: Worker) -> ActionResult:
        action = self.write_action
        done = write_files.perform(worker.stores, self.index, action)
        if not done.repeated:
            for step in self.steps:
                _keep_time(self.index, step)
            worker.events.tell(WRITTEN, ns=self.index.workspace.ns, **written(action.who, action.what, done))
            worker.index_paths(self.index, tuple(done.paths))
        return done


def _keep_time(index: WorkspaceIndex, step: import_plan.FileImport) -> None:
    """A new file keeps the time that it had: it is the day of a note that names none."""
    modified = step.incoming.modified
    if step.new and modified and modified < datetime.now().timestamp():
        with suppress(OSError):
            os.utime(safe_write.place_of(index.workspace.root, step.incoming.path), (modified, modified))


class RestoreLives(Task[None]):
    """Give some imported memories what they had: lives and versions, the history of gone ones, links where both are."""

    index: WorkspaceIndex
    lives: import_plan.Lives
    paths: Sequence[str] = ()
    gone: Sequence[dict[str, Any]] = ()
    edges: Sequence[dict[str, Any]] = ()

    def run(self, worker: Worker) -> None:
        import_plan.restore_lives(worker.stores, self.index, self.lives, self.paths)
        import_plan.restore_gone(worker.stores, self.index, self.gone)
        import_plan.restore_edges(worker.stores, self.index, self.lives, self.edges)


# --- proposals ------------------------------------------------------------------------------------------------


class KeepProposal(Task[int]):
    """Keep a write until a person decides about it; returns its number."""

    workspace: int
    who: str
    method: str
    params: dict[str, Any]

    def run(self, worker: Worker) -> int:
        with worker.stores.ledger.write() as connection:
            return proposals.add(connection, self.workspace, self.who, self.method, self.params)


class DropProposal(Task[None]):
    """Forget a proposal that was decided about."""

    proposal: int

    def run(self, worker: Worker) -> None:
        with worker.stores.ledger.write() as connection:
            proposals.drop(connection, self.proposal)


# --- forgetting -----------------------------------------------------------------------------------------------


class DropOldVersions(Task[int]):
    """Drop versions that ceased to be current before a moment; returns how many texts went."""

    before: str

    def run(self, worker: Worker) -> int:
        with worker.stores.ledger.write() as connection:
            return history.expire(connection, self.before)


class PurgeMemory(Task[tuple[dict[str, Any], purge.MemoryTrace]]):
    """Forget a memory that is gone from the files: its history, its vectors, every copy; says what to look for."""

    ns: str
    memory: int

    def run(self, worker: Worker) -> tuple[dict[str, Any], purge.MemoryTrace]:
        return purge.purge(worker.stores, worker.stores.index(self.ns), self.memory)
