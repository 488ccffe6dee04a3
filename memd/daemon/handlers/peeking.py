"""Looking in: `peek`, `stats`, `tree` and `timeline`. None of them counts as an access."""

from __future__ import annotations

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import peek as looking
from memd.indexer.views import stats as counting
from memd.indexer.views import timeline as days

ROWS = 1_000
MOST_ROWS = 5_000
DAYS = 14
MOST_DAYS = 1_000
FAR = 10**9


async def peek(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    indexes = ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(lambda: looking.peek(ctx.parts.stores.ledger.reader, indexes))
    return {**found, "ns": _names(indexes)}


async def stats(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    indexes = ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    return {**await ctx.read(counting.stats, ctx.parts.stores, indexes), "ns": _names(indexes)}


async def tree(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    path, offset = params.text("path"), params.number("offset", 0, 0, FAR)
    limit, indexes = params.number("limit", ROWS, 1, MOST_ROWS), ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(lambda: looking.tree(ctx.parts.stores.ledger.reader, indexes, path, offset, limit))
    return {**found, "ns": _names(indexes)}


async def timeline(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    since, until = params.date("since"), params.date("until")
    limit, indexes = params.number("limit", DAYS, 1, MOST_DAYS), ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(lambda: days.timeline(ctx.parts.stores.ledger.reader, indexes, since, until, limit))
    return {**found, "ns": _names(indexes)}


def _names(indexes: list[WorkspaceIndex]) -> list[str]:
    return [index.workspace.ns for index in indexes]
