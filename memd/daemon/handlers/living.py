"""What memories live by: `useful` and `reflect`."""

from __future__ import annotations

import asyncio

from memd.daemon import living
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.hand import hand
from memd.daemon.handlers.keyed import needed
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.views import keys


async def useful(desk: Desk, params: Params, tell: Tell) -> Result:
    key, writer = params.text("key"), hand(desk, params)
    params.done()
    needed("useful", key=key)
    await desk.catch_up("auto", ())
    target = await desk.read(keys.existing, desk.parts.stores, writer.shelf, key)
    assert target.memory is not None
    ns = writer.shelf.workspace.ns
    task = living.Useful(ns, target.memory, key, writer.who, writer.request)
    action, count = await asyncio.wrap_future(desk.parts.worker.submit(task))
    return {"ns": ns, "key": key, "action": action, "useful": count}


async def reflect(desk: Desk, params: Params, tell: Tell) -> Result:
    names, dry_run, who = desk.names(params), params.flag("dry_run"), params.text("who") or "socket"
    params.done()
    await desk.catch_up("auto", ())
    # What was shown just before counts.
    await asyncio.wrap_future(desk.parts.observing.hand_over())
    # Not among the readers: it takes its time, and they are few.
    run = asyncio.get_running_loop().run_in_executor
    found = [await run(None, desk.parts.reflecting.reflect, ns, who, dry_run) for ns in names]
    return {"ns": list(names), "dry_run": dry_run, "workspaces": found}
