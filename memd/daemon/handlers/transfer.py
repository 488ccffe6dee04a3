"""Out and in: `export`, `import`, `ingest` and `backup`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memd.daemon.handler_context import HandlerContext, Result, progress_reporter
from memd.daemon.handlers.registry import handles
from memd.daemon.import_runner import ImportTally, carry_out, refuse_secrets, restore
from memd.daemon.server import IncomingCall
from memd.errors import UnknownWorkspace, UsageError
from memd.indexer.maintenance import backups
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.transfer import export as exporting
from memd.indexer.transfer import import_plan, import_sources
from memd.indexer.transfer.import_plan import ExportedWorkspace, ImportPlan
from memd.notes.layout import layout_of
from memd.protocol.methods.transfer import BackupRequest, ExportRequest, ImportRequest, Incoming, IngestRequest


@handles(ExportRequest)
async def export(ctx: HandlerContext, request: ExportRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    if not request.after:
        await ctx.scan(ctx.names(request))
    page = await ctx.read(exporting.page, ctx.stores, indexes, request.after, request.limit, ctx.max_bytes)
    return {**page, "workspaces": [index.place for index in indexes]}


@handles(ImportRequest)
async def import_(ctx: HandlerContext, request: ImportRequest, call: IncomingCall) -> Result:
    names, told = ctx.names(request), progress_reporter(request, call)
    exported_workspaces = await ctx.read(import_plan.load, _place(request.path))
    aimed = [(ctx.stores.index(ns), exported) for ns, exported in _aims(names, exported_workspaces)]
    await ctx.scan(tuple(index.workspace.ns for index, _ in aimed))
    tally, plans = ImportTally(), list[tuple[WorkspaceIndex, ExportedWorkspace, ImportPlan]]()
    for index, exported in aimed:
        plan = await ctx.read(import_plan.plan, index, exported.incoming_files, request.overwrite)
        tally.count(index, plan)
        plans.append((index, exported, plan))
    refuse_secrets(tally, request)
    for index, exported, plan in plans:
        if request.dry_run:
            tally.gone += len(await ctx.read(import_plan.absent, ctx.stores, index, exported))
        else:
            await carry_out(ctx, index, plan, "import", request, tally, told)
            await restore(ctx, index, exported, tally)
    return _answer(ctx, [index for index, _ in aimed], request, tally)


def _aims(
    names: Sequence[str], exported_workspaces: Sequence[ExportedWorkspace]
) -> list[tuple[str, ExportedWorkspace]]:
    """Which workspace each part of an export goes to: the one that is meant, or the one of the same name."""
    if len(exported_workspaces) == 1 and len(names) == 1:
        return [(names[0], exported_workspaces[0])]
    aims = [(exported.ns, exported) for exported in exported_workspaces if exported.ns in names]
    if not aims or (len(names) > 1 and len(aims) < len(exported_workspaces)):
        held = ", ".join(exported.ns for exported in exported_workspaces) or "nothing"
        raise UnknownWorkspace(
            f"the export has {held}; known here: {', '.join(names)}",
            "make the workspace with memd add, or name one: -n NS",
        )
    return aims


@handles(IngestRequest)
async def ingest(ctx: HandlerContext, request: IngestRequest, call: IncomingCall) -> Result:
    names, told = ctx.names(request), progress_reporter(request, call)
    if len(names) > 1:
        raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
    await ctx.scan(names)
    stores, worker = ctx.stores, ctx.parts.worker
    index, tally = stores.index(names[0]), ImportTally()
    files = sorted(index.files)
    here = [_place(place) for place in request.paths]
    found = await ctx.read(import_sources.gather, here, layout_of(files), files, index.workspace.root, worker.max_bytes)
    known = await ctx.read(import_plan.known_texts, stores, index)
    plan = await ctx.read(import_plan.plan, index, found.incoming_files, request.overwrite, known)
    tally.problems += found.problems
    tally.count(index, plan)
    refuse_secrets(tally, request)
    if not request.dry_run:
        await carry_out(ctx, index, plan, "ingest", request, tally, told)
    return _answer(ctx, [index], request, tally)


def _answer(ctx: HandlerContext, indexes: Sequence[WorkspaceIndex], request: Incoming, tally: ImportTally) -> Result:
    return {
        "ns": [index.workspace.ns for index in indexes],
        "dry_run": request.dry_run,
        **tally.told(),
        "visible": ctx.stores.ledger.clock,
    }


@handles(BackupRequest)
async def backup(ctx: HandlerContext, request: BackupRequest, call: IncomingCall) -> Result:
    folder = _place(request.path) if request.path else ctx.stores.folder / backups.FOLDER
    made = await ctx.read(backups.make, ctx.stores.ledger, folder, datetime.now().astimezone())
    return {"backup": str(made.file), "bytes": made.size}


def _place(given: str) -> Path:
    try:
        place = Path(given).expanduser()
    except RuntimeError:
        raise UsageError(f"{given} is of no user of this machine") from None
    if not place.is_absolute() or "\0" in given:
        raise UsageError(f"a path must be absolute, not {given!r}")
    return place
