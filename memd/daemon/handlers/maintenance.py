"""Keeping memd in step and in order: `sync`, `rebuild`, `doctor`, `job.list` and `job.run`."""

import asyncio
import time

from memd.daemon.handlers.handler_context import POLL_SECONDS
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.server import workspace_status
from memd.daemon.handlers.workspace_writer import absolute_path
from memd.daemon.serving.events import PUT_BACK
from memd.daemon.writer.tasks import examine_stores, rebuild_vectors, use_built_text
from memd.errors import Busy
from memd.indexer.indexing.ingest import IndexingOptions
from memd.indexer.maintenance import doctor as doctor_checks
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.store.ledger import LedgerPlace
from memd.protocol.methods.workspaces import DoctorRequest, JobListRequest, JobRunRequest, RebuildRequest, SyncRequest

START_SECONDS = 30.0
"""How long a call waits for a daemon that is only just starting."""


@handles(SyncRequest)
async def sync(ctx: HandlerContext, request: SyncRequest, call: IncomingCall) -> Result:
    options = IndexingOptions(accept_missing=request.accept_missing)
    done = await ctx.scan(ctx.names(request), options, ctx.answer.report)
    if request.vectors:
        await ctx.vectors_made()
    files = sum(len(index.files) for index in ctx.indexes(request))
    return {"files": files, "changed": done.files, "removed": done.removed, "held": done.held,
            "took_ms": round(done.took_ms, 1)}  # fmt: skip


@handles(RebuildRequest)
async def rebuild(ctx: HandlerContext, request: RebuildRequest, call: IncomingCall) -> Result:
    names = ctx.names(request)
    await ctx.model_loaded()
    await ctx.scan(names, IndexingOptions(deep=True), ctx.answer.report)
    for name in names:
        index = ctx.stores.index(name)
        fresh = await ctx.read(build_elsewhere, ctx.stores.folder, index.id)
        await ctx.write(use_built_text, ctx.worker, index, fresh)
        await ctx.write(rebuild_vectors, ctx.stores, name)
    rows = [await ctx.read(workspace_status, ctx, ctx.stores.index(name)) for name in names]
    totals = {what: sum(row[what] for row in rows) for what in ("files", "chunks", "vectors")}
    return {**totals, "took_ms": ctx.took_ms}


@handles(DoctorRequest)
async def doctor(ctx: HandlerContext, request: DoctorRequest, call: IncomingCall) -> Result:
    workspaces = [index.workspace for index in ctx.stores.indexes.values()]
    if request.file:
        file = absolute_path(request.file)
        return await ctx.read(doctor_checks.explain_file, file, workspaces, ctx.max_bytes)
    ledger = await ctx.read(doctor_checks.examine_ledger, ctx.stores.ledger)
    findings = await ctx.write(examine_stores, ctx.worker, ctx.settings, ledger, request.fix)
    if ctx.stores.ledger.damage is None:
        findings += await asyncio.to_thread(doctor_checks.examine_collections, ctx.stores, request.fix)
    secrets = await ctx.read(doctor_checks.find_secrets, workspaces, ctx.max_bytes) if request.secrets else None
    if ctx.stores.ledger.place is LedgerPlace.PUT_BACK:
        # Last, so that the answer is out before memd starts again with the ledger that was mended.
        ctx.events.tell(PUT_BACK)
    return doctor_checks.report(findings, secrets)


# --- jobs ---------------------------------------------------------------------------------------------------------


@handles(JobListRequest)
async def job_list(ctx: HandlerContext, request: JobListRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"jobs": ctx.scheduler.states()}


@handles(JobRunRequest)
async def job_run(ctx: HandlerContext, request: JobRunRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"job": await asyncio.wrap_future(ctx.scheduler.ask(request.name))}


async def _scheduler_ready(ctx: HandlerContext) -> None:
    until = time.monotonic() + START_SECONDS
    while not ctx.scheduler.ready:
        if time.monotonic() > until:
            raise Busy("memd is still starting, and knows no jobs yet", "try again in a moment")
        await asyncio.sleep(POLL_SECONDS)
