"""Keeping memd in step and in order: `sync`, `rebuild`, `doctor`, `job.list` and `job.run`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict

from memd.daemon import status, tasks
from memd.daemon.handler_context import POLL_SECONDS, HandlerContext, Result, progress_reporter
from memd.daemon.handlers.registry import handles
from memd.daemon.indexing import IndexingOptions
from memd.daemon.server import IncomingCall
from memd.errors import Busy
from memd.indexer.maintenance import doctor as doctor_checks
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.views import secret_scan
from memd.protocol.methods.maintenance import DoctorRequest, JobListRequest, JobRunRequest, RebuildRequest, SyncRequest

START_SECONDS = 30.0
"""How long a call waits for a daemon that is only just starting."""


@handles(SyncRequest)
async def sync(ctx: HandlerContext, request: SyncRequest, call: IncomingCall) -> Result:
    names, told = ctx.names(request), progress_reporter(request, call)
    report = await ctx.scan(names, IndexingOptions(accept_missing=request.accept_missing), told)
    if request.vectors:
        await ctx.vectors_made(told)
    files = sum(len(index.files) for index in ctx.indexes(request))
    return {"files": files, "changed": report.files, "removed": report.removed, "held": report.held,
            "took_ms": round(report.took_ms, 1)}  # fmt: skip


@handles(RebuildRequest)
async def rebuild(ctx: HandlerContext, request: RebuildRequest, call: IncomingCall) -> Result:
    started, names = time.monotonic(), ctx.names(request)
    await ctx.model_loaded()
    await ctx.scan(names, IndexingOptions(deep=True), progress_reporter(request, call))
    for name in names:
        fresh = await ctx.read(build_elsewhere, ctx.stores.folder, ctx.stores.index(name).id)
        await ctx.run(tasks.SwapText(name, fresh))
        await ctx.run(tasks.RenewVectors(name))
    found = [await ctx.read(status.workspace_status, ctx.parts, ctx.stores.index(name)) for name in names]
    totals = {what: sum(entry[what] for entry in found) for what in ("files", "chunks", "vectors")}
    return {**totals, "took_ms": round((time.monotonic() - started) * 1000, 1)}


@handles(DoctorRequest)
async def doctor(ctx: HandlerContext, request: DoctorRequest, call: IncomingCall) -> Result:
    findings = await ctx.run(tasks.Examine(ctx.parts.settings, request.fix))
    ok = doctor_checks.sound(findings)
    if not request.secrets:
        return {"ok": ok, "findings": [asdict(finding) for finding in findings]}
    workspaces = [index.workspace for index in ctx.stores.indexes.values()]
    seen, places = await ctx.read(secret_scan.scan_workspaces, workspaces, ctx.max_bytes)
    return {"ok": ok, "findings": [asdict(finding) for finding in (*findings, *seen)],
            "secrets": [asdict(place) for place in places]}  # fmt: skip


# --- jobs ---------------------------------------------------------------------------------------------------------


@handles(JobListRequest)
async def job_list(ctx: HandlerContext, request: JobListRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"jobs": ctx.parts.scheduler.states()}


@handles(JobRunRequest)
async def job_run(ctx: HandlerContext, request: JobRunRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"job": await asyncio.wrap_future(ctx.parts.scheduler.ask(request.name))}


async def _scheduler_ready(ctx: HandlerContext) -> None:
    until = time.monotonic() + START_SECONDS
    while not ctx.parts.scheduler.ready:
        if time.monotonic() > until:
            raise Busy("memd is still starting, and knows no jobs yet", "try again in a moment")
        await asyncio.sleep(POLL_SECONDS)
