"""Carries out what a plan says, some files at a time, so that other writers get in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from memd.daemon import tasks
from memd.daemon.events import INDEXED, WRITTEN, written
from memd.daemon.handler_context import HandlerContext, ReportProgress, Result
from memd.errors import SecretFound
from memd.indexer.indexing import ingest
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.transfer import import_plan, imported_lives
from memd.indexer.transfer.import_plan import ExportedWorkspace, FileImport, ImportPlan
from memd.indexer.writing import write_files
from memd.indexer.writing.write_files import ActionResult, FileChange, WriteAction
from memd.notes import incoming_file, safe_write
from memd.protocol.methods.transfer import Incoming

BATCH = 50
"""Files that are one action."""
LIVES = 500
LISTED = 1_000
"""The most that an answer lists of one thing."""
SHOWN = 10


@dataclass(slots=True)
class ImportTally:
    """What came of it, over all workspaces."""

    files: int = 0
    paths: list[str] = field(default_factory=list)
    added: int = 0
    replaced: int = 0
    same: int = 0
    gone: int = 0
    kept: list[Result] = field(default_factory=list)
    problems: list[Result] = field(default_factory=list)
    secrets: list[Result] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def count(self, index: WorkspaceIndex, plan: ImportPlan) -> None:
        ns = index.workspace.ns
        self.files += len(plan.steps)
        self.paths += [step.incoming.path for step in plan.steps]
        self.added, self.replaced, self.same = (
            self.added + plan.added, self.replaced + plan.replaced, self.same + plan.same,
        )  # fmt: skip
        self.kept += [{"ns": ns, **conflict} for conflict in plan.conflicts]
        self.problems += plan.problems
        self.secrets += plan.secrets

    def told(self) -> Result:
        listed = {name: getattr(self, name)[:LISTED] for name in ("paths", "kept", "problems", "secrets", "conflicts")}
        counted = {name: getattr(self, name) for name in ("files", "added", "replaced", "same", "gone", "actions")}
        return {**counted, **listed, "kept_count": len(self.kept)}


def refuse_secrets(tally: ImportTally, request: Incoming) -> None:
    """Refuse all of it, and say where; never what it is."""
    if not tally.secrets or request.allow_secret or request.dry_run:
        return
    places = "\n".join(f"{found['place']}: {found['kind']}" for found in tally.secrets[:SHOWN])
    more = f"\nand {len(tally.secrets) - SHOWN} more" if len(tally.secrets) > SHOWN else ""
    raise SecretFound(
        f"{len(tally.secrets)} places look like secrets; nothing was written\n{places}{more}",
        "take them out, or say --allow-secret",
    )


async def carry_out(
    ctx: HandlerContext,
    index: WorkspaceIndex,
    plan: ImportPlan,
    what: str,
    request: Incoming,
    tally: ImportTally,
    told: ReportProgress | None,
) -> None:
    """Write what was planned; each batch is an action that can be undone as one."""
    for nth in range(0, len(plan.steps), BATCH):
        steps = plan.steps[nth : nth + BATCH]
        changes = tuple(FileChange(step.incoming.path, edit=_edit(step, request.overwrite)) for step in steps)
        request_id = f"{request.request_id}:{index.workspace.ns}:{nth}" if request.request_id else ""
        write_action = WriteAction(what, request.who or "socket", changes, request=request_id)
        done: ActionResult = await _on_writer(ctx, partial(_carry, ctx, index, write_action, steps))
        tally.actions.append(done.action)
        tally.conflicts += done.conflicts
        if told:
            await told(what, nth + len(steps), len(plan.steps))


async def restore(ctx: HandlerContext, index: WorkspaceIndex, exported: ExportedWorkspace, tally: ImportTally) -> None:
    """Give the memories back what was observed of them, the gone ones their history, and all of them their links."""
    stores, paths = ctx.stores, [each.path for each in exported.incoming_files]
    for nth in range(0, len(paths), LIVES):
        await _on_writer(ctx, partial(import_plan.restore_lives, stores, index, exported, paths[nth : nth + LIVES]))
    gone = await ctx.read(import_plan.absent, stores, index, exported)
    for nth in range(0, len(gone), LIVES):
        await _on_writer(ctx, partial(import_plan.restore_gone, stores, index, gone[nth : nth + LIVES]))
    tally.gone += len(gone)
    places = import_plan.places(exported)
    for nth in range(0, len(exported.edges), LIVES):
        edges = exported.edges[nth : nth + LIVES]
        await _on_writer(ctx, partial(imported_lives.restore_edges, stores, index, places, edges))


async def _on_writer(ctx: HandlerContext, work: Callable[[], Any]) -> Any:
    return await ctx.run(tasks.CallTask(work))


def _edit(step: FileImport, overwrite: bool) -> safe_write.Edit:
    """Decided anew on the bytes that are there when it is written."""
    return lambda found: incoming_file.merged(step.incoming, found, overwrite).data


def _carry(
    ctx: HandlerContext, index: WorkspaceIndex, write_action: WriteAction, steps: Sequence[FileImport]
) -> ActionResult:
    """One batch, on the writer's thread: the files, then the index."""
    worker = ctx.parts.worker
    done = write_files.perform(worker.stores, index, write_action)
    if done.repeated:
        return done
    for step in steps:
        _date(index, step)
    saved: list[SavedMemory] = []
    report = ingest.apply(worker.stores, index, done.paths, worker.max_bytes, saved=saved)
    worker.on_saved(index, saved)
    worker.events.tell(WRITTEN, ns=index.workspace.ns, **written(write_action.who, write_action.what, done))
    worker.events.tell(INDEXED, ns=index.workspace.ns, **report.figures)
    worker.on_applied(index, tuple(done.paths))
    if report.to_embed:
        worker.on_text(report.to_embed)
    return done


def _date(index: WorkspaceIndex, step: FileImport) -> None:
    """A file that came as it is keeps its time: the day of a note that names none."""
    if step.new and step.incoming.modified and step.incoming.modified < datetime.now().timestamp():
        with suppress(OSError):
            os.utime(safe_write.place_of(index.workspace.root, step.incoming.path), (step.incoming.modified,) * 2)
