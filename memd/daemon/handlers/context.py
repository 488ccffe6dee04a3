"""What an agent should know for a task: `context`."""

from __future__ import annotations

import asyncio

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.asking import observer, question
from memd.daemon.handlers.edges import linked
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import StoreBroken
from memd.indexer.context.assemble import assemble
from memd.indexer.context.inputs import ContextTask
from memd.indexer.context.render import AssembledContext
from memd.models import Ask

BUDGET, LEAST, MOST = 2_000, 50, 200_000
"""Tokens: when nothing is said, and what can be said."""


async def context(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    wanted, client = _wanted(ctx, params), observer(params)
    sync = params.choice("sync", ("auto", "none", "full"), "auto")
    params.done()
    await ctx.catch_up(sync, wanted.ask.ns)
    if sync != "none":
        # A summary that was just written stands for its sources already.
        await linked(ctx, [ctx.parts.stores.index(ns) for ns in wanted.ask.ns])
    # Without the model meaning is not heard and tokens are only estimated: the answer would be another one.
    await ctx.model_loaded()
    made = await _assembled(ctx, wanted)
    if not made.memories and sync != "none":
        # Never a "nothing" without a look at the files themselves.
        await ctx.scan(wanted.ask.ns)
        made = await _assembled(ctx, wanted)
    if client:
        ctx.parts.access_log.saw(made.memories, client, together=True)
    return {"ns": list(wanted.ask.ns), **made.told}


def _wanted(ctx: HandlerContext, params: Params) -> ContextTask:
    budget = params.number("budget", BUDGET, LEAST, MOST)
    least, spread = params.share("min_score") or 0.0, params.share("min_spread") or 0.0
    settings = ctx.parts.settings.search
    names, filters, query = ctx.names(params), params.filters(), question(params)
    return ContextTask(
        Ask(query, names, filters=filters, fusion=settings.fusion, rrf_k=settings.rrf_k), budget, least, spread
    )


async def _assembled(ctx: HandlerContext, wanted: ContextTask) -> AssembledContext:
    """Assemble it; a text index that turns out to be torn is made again first."""
    try:
        return await ctx.read(assemble, ctx.parts.stores, wanted)
    except StoreBroken:
        for ns in wanted.ask.ns:
            await asyncio.wrap_future(ctx.parts.worker.submit(tasks.RenewText(ns)))
        return await ctx.read(assemble, ctx.parts.stores, wanted)
