"""Keeping in step: `sync`, `rebuild` and `doctor`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict

from memd.daemon import status, tasks
from memd.daemon.desk import Desk, Result, teller
from memd.daemon.imports import How
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.upkeep import check
from memd.indexer.upkeep.rebuild import build_elsewhere
from memd.indexer.views import leaks


async def sync(desk: Desk, params: Params, tell: Tell) -> Result:
    ns = desk.names(params)
    vectors, accept = params.flag("vectors"), params.flag("accept_missing")
    params.done()
    report = await desk.scan(ns, How(accept_missing=accept), teller(params, tell))
    if vectors:
        await desk.vectors_made(teller(params, tell))
    files = sum(len(desk.parts.stores.shelf(name).files) for name in ns)
    return {"files": files, "changed": report.files, "removed": report.removed, "held": report.held,
            "took_ms": round(report.took_ms, 1)}  # fmt: skip


async def rebuild(desk: Desk, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    ns = desk.names(params)
    params.done()
    told = teller(params, tell)
    await desk.model_loaded()
    await desk.scan(ns, How(deep=True), told)
    for name in ns:
        fresh = await desk.read(build_elsewhere, desk.parts.stores.folder, desk.parts.stores.shelf(name).id)
        await asyncio.wrap_future(desk.parts.worker.submit(tasks.SwapText(name, fresh)))
        await asyncio.wrap_future(desk.parts.worker.submit(tasks.RenewVectors(name)))
    found = [await desk.read(status.workspace_status, desk.parts, desk.parts.stores.shelf(name)) for name in ns]
    totals = {what: sum(entry[what] for entry in found) for what in ("files", "chunks", "vectors")}
    return {**totals, "took_ms": round((time.monotonic() - started) * 1000, 1)}


async def doctor(desk: Desk, params: Params, tell: Tell) -> Result:
    fix, secrets = params.flag("fix"), params.flag("secrets")
    params.done()
    work = tasks.Call(lambda: check.examine(desk.parts.stores, desk.parts.settings, fix, running=True))
    findings = await asyncio.wrap_future(desk.parts.worker.submit(work))
    if not secrets:
        return {"ok": check.sound(findings), "findings": [asdict(finding) for finding in findings]}
    workspaces = [shelf.workspace for shelf in desk.parts.stores.shelves.values()]
    seen, places = await desk.read(leaks.examine, workspaces, desk.parts.worker.max_bytes)
    return {"ok": check.sound(findings), "findings": [asdict(finding) for finding in (*findings, *seen)],
            "secrets": [asdict(leak) for leak in places]}  # fmt: skip
