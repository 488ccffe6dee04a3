"""In and out: `export`, `import`, `ingest` and `backup`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memd.daemon.handler_context import HandlerContext, Result, progress_reporter
from memd.daemon.import_runner import ImportOptions, ImportResult, carry_out, refuse_secrets, restore
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import UnknownWorkspace, UsageError
from memd.indexer.maintenance import backups
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.transfer import export as exporting
from memd.indexer.transfer import import_plan, import_sources
from memd.indexer.transfer.import_plan import ExportedWorkspace, ImportPlan
from memd.notes.layout import layout_of

MEMORIES = 500
MOST = 5_000


async def export(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    after, limit = params.text("after"), params.number("limit", MEMORIES, 1, MOST)
    ns = ctx.names(params)
    params.done()
    if not after:
        await ctx.scan(ns)
    stores = ctx.parts.stores
    indexes = [stores.index(name) for name in ns]
    page = await ctx.read(exporting.page, stores, indexes, after, limit, ctx.parts.worker.max_bytes)
    return {**page, "workspaces": [{"ns": one.workspace.ns, "root": str(one.workspace.root)} for one in indexes]}


async def bring(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    """`import`: what an export has, with the lives of its memories."""
    path, options = params.required("path"), ImportOptions.of(params)
    names, told = ctx.names(params), progress_reporter(params, tell)
    params.done()
    exported_workspaces = await ctx.read(import_plan.load, _place(path))
    aimed = [(ctx.parts.stores.index(ns), exported) for ns, exported in _aims(names, exported_workspaces)]
    await ctx.scan(tuple(index.workspace.ns for index, _ in aimed))
    result, plans = ImportResult(), list[tuple[WorkspaceIndex, ExportedWorkspace, ImportPlan]]()
    for index, exported in aimed:
        plan = await ctx.read(import_plan.plan, index, exported.incoming_files, options.overwrite)
        result.count(index, plan)
        plans.append((index, exported, plan))
    refuse_secrets(result, options)
    for index, exported, plan in plans:
        if options.dry_run:
            result.gone += len(await ctx.read(import_plan.absent, ctx.parts.stores, index, exported))
        else:
            await carry_out(ctx, index, plan, "import", options, result, told)
            await restore(ctx, index, exported, result)
    return _answer(ctx, [index for index, _ in aimed], options, result)


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


async def ingest(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    places, options = params.texts("paths"), ImportOptions.of(params)
    names, told = ctx.names(params), progress_reporter(params, tell)
    params.done()
    if not places:
        raise UsageError("`ingest` needs `paths`", "name a folder, a Markdown file or a file of JSON lines")
    if len(names) > 1:
        raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
    await ctx.scan(names)
    stores, worker = ctx.parts.stores, ctx.parts.worker
    index, result = stores.index(names[0]), ImportResult()
    files = sorted(index.files)
    here = [_place(place) for place in places]
    found = await ctx.read(import_sources.gather, here, layout_of(files), files, index.workspace.root, worker.max_bytes)
    known = await ctx.read(import_plan.known_texts, stores, index)
    plan = await ctx.read(import_plan.plan, index, found.incoming_files, options.overwrite, known)
    result.problems += found.problems
    result.count(index, plan)
    refuse_secrets(result, options)
    if not options.dry_run:
        await carry_out(ctx, index, plan, "ingest", options, result, told)
    return _answer(ctx, [index], options, result)


def _answer(
    ctx: HandlerContext, indexes: Sequence[WorkspaceIndex], options: ImportOptions, result: ImportResult
) -> Result:
    return {
        "ns": [index.workspace.ns for index in indexes],
        "dry_run": options.dry_run,
        **result.told(),
        "visible": ctx.parts.stores.ledger.clock,
    }


async def backup(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    path = params.text("path")
    params.done()
    stores = ctx.parts.stores
    folder = _place(path) if path else stores.folder / backups.FOLDER
    made = await ctx.read(backups.make, stores.ledger, folder, datetime.now().astimezone())
    return {"backup": str(made.file), "bytes": made.size}


def _place(given: str) -> Path:
    try:
        place = Path(given).expanduser()
    except RuntimeError:
        raise UsageError(f"{given} is of no user of this machine") from None
    if not place.is_absolute() or "\0" in given:
        raise UsageError(f"a path must be absolute, not {given!r}")
    return place
