"""What memories live by: `useful` and `reflect`."""

from __future__ import annotations

import asyncio

from memd.daemon import lifecycle
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.keyed import needed
from memd.daemon.handlers.write_request import write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.views import keys


async def useful(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, writer = params.text("key"), write_request(ctx, params)
    params.done()
    needed("useful", key=key)
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.existing, ctx.parts.stores, writer.index, key)
    assert target.memory is not None
    ns = writer.index.workspace.ns
    task = lifecycle.CountUseful(ns, target.memory, key, writer.who, writer.request)
    action, count = await asyncio.wrap_future(ctx.parts.worker.submit(task))
    return {"ns": ns, "key": key, "action": action, "useful": count}


async def reflect(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    names, dry_run, who = ctx.names(params), params.flag("dry_run"), params.text("who") or "socket"
    params.done()
    await ctx.catch_up("auto", ())
    # What was shown just before counts.
    await asyncio.wrap_future(ctx.parts.access_log.hand_over())
    # Not among the readers: it takes its time, and they are few.
    run = asyncio.get_running_loop().run_in_executor
    found = [await run(None, ctx.parts.reflection.reflect, ns, who, dry_run) for ns in names]
    return {"ns": list(names), "dry_run": dry_run, "workspaces": found}
