"""What the memory holds, without a question: `peek`, `stats`, `tree` and `timeline`. None counts as an access."""

from __future__ import annotations

from memd.daemon.handler_context import HandlerContext, Result, namespaces
from memd.daemon.handlers.registry import handles
from memd.daemon.server import IncomingCall
from memd.indexer.views import peek as peek_view
from memd.indexer.views import stats as stats_view
from memd.indexer.views import timeline as timeline_view
from memd.protocol.methods.overview import PeekRequest, StatsRequest, TimelineRequest, TreeRequest


@handles(PeekRequest)
async def peek(ctx: HandlerContext, request: PeekRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    summary = await ctx.read(lambda: peek_view.peek(ctx.stores.ledger.reader, indexes))
    return {**summary, "ns": namespaces(indexes)}


@handles(StatsRequest)
async def stats(ctx: HandlerContext, request: StatsRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    return {**await ctx.read(stats_view.stats, ctx.stores, indexes), "ns": namespaces(indexes)}


@handles(TreeRequest)
async def tree(ctx: HandlerContext, request: TreeRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    page = (request.path, request.offset, request.limit)
    folders = await ctx.read(lambda: peek_view.tree(ctx.stores.ledger.reader, indexes, *page))
    return {**folders, "ns": namespaces(indexes)}


@handles(TimelineRequest)
async def timeline(ctx: HandlerContext, request: TimelineRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    span = (request.since, request.until, request.limit)
    days = await ctx.read(lambda: timeline_view.timeline(ctx.stores.ledger.reader, indexes, *span))
    return {**days, "ns": namespaces(indexes)}
