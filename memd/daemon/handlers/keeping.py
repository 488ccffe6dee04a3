"""Keeping in step: `sync`, `rebuild` and `doctor`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict

from memd.daemon import status, tasks
from memd.daemon.handler_context import HandlerContext, Result, progress_reporter
from memd.daemon.indexing import IndexingOptions
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.maintenance import doctor as doctor_checks
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.views import secret_scan


async def sync(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    ns = ctx.names(params)
    vectors, accept = params.flag("vectors"), params.flag("accept_missing")
    params.done()
    report = await ctx.scan(ns, IndexingOptions(accept_missing=accept), progress_reporter(params, tell))
    if vectors:
        await ctx.vectors_made(progress_reporter(params, tell))
    files = sum(len(ctx.parts.stores.index(name).files) for name in ns)
    return {"files": files, "changed": report.files, "removed": report.removed, "held": report.held,
            "took_ms": round(report.took_ms, 1)}  # fmt: skip


async def rebuild(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    ns = ctx.names(params)
    params.done()
    told = progress_reporter(params, tell)
    await ctx.model_loaded()
    await ctx.scan(ns, IndexingOptions(deep=True), told)
    for name in ns:
        fresh = await ctx.read(build_elsewhere, ctx.parts.stores.folder, ctx.parts.stores.index(name).id)
        await asyncio.wrap_future(ctx.parts.worker.submit(tasks.SwapText(name, fresh)))
        await asyncio.wrap_future(ctx.parts.worker.submit(tasks.RenewVectors(name)))
    found = [await ctx.read(status.workspace_status, ctx.parts, ctx.parts.stores.index(name)) for name in ns]
    totals = {what: sum(entry[what] for entry in found) for what in ("files", "chunks", "vectors")}
    return {**totals, "took_ms": round((time.monotonic() - started) * 1000, 1)}


async def doctor(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    fix, secrets = params.flag("fix"), params.flag("secrets")
    params.done()
    work = tasks.CallTask(lambda: doctor_checks.examine(ctx.parts.stores, ctx.parts.settings, fix, running=True))
    findings = await asyncio.wrap_future(ctx.parts.worker.submit(work))
    if not secrets:
        return {"ok": doctor_checks.sound(findings), "findings": [asdict(finding) for finding in findings]}
    workspaces = [index.workspace for index in ctx.parts.stores.indexes.values()]
    seen, places = await ctx.read(secret_scan.scan_workspaces, workspaces, ctx.parts.worker.max_bytes)
    return {"ok": doctor_checks.sound(findings), "findings": [asdict(finding) for finding in (*findings, *seen)],
            "secrets": [asdict(secret) for secret in places]}  # fmt: skip
