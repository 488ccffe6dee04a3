"""What the memory holds, without a question: `peek`, `stats`, `tree` and `timeline`. None counts as an access."""

from __future__ import annotations

from memd.daemon.handler_context import HandlerContext, Result, namespaces
from memd.daemon.handlers.registry import handles
from memd.daemon.server import IncomingCall
from memd.indexer.views import overview
from memd.protocol.methods.overview import PeekRequest, StatsRequest, TimelineRequest, TreeRequest


@handles(PeekRequest)
async def peek(ctx: HandlerContext, request: PeekRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    summary = await ctx.read(overview.peek, ctx.stores, indexes)
    return {**summary, "ns": namespaces(indexes)}


@handles(StatsRequest)
async def stats(ctx: HandlerContext, request: StatsRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    return {**await ctx.read(overview.stats, ctx.stores, indexes), "ns": namespaces(indexes)}


@handles(TreeRequest)
async def tree(ctx: HandlerContext, request: TreeRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    folders = await ctx.read(overview.tree, ctx.stores, indexes, request.path, request.offset, request.limit)
    return {**folders, "ns": namespaces(indexes)}


@handles(TimelineRequest)
async def timeline(ctx: HandlerContext, request: TimelineRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    days = await ctx.read(overview.timeline, ctx.stores, indexes, request.since, request.until, request.limit)
    return {**days, "ns": namespaces(indexes)}
