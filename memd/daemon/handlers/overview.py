"""What the memory holds, without a question: `peek`, `stats`, `tree` and `timeline`. None counts as an access."""

from __future__ import annotations

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, from_view, handles
from memd.indexer.views import overview
from memd.protocol.methods.overview import PeekRequest, StatsRequest, TimelineRequest, TreeRequest


@handles(PeekRequest)
async def peek(ctx: HandlerContext, request: PeekRequest, call: IncomingCall) -> Result:
    return await from_view(ctx, request, overview.peek)


@handles(StatsRequest)
async def stats(ctx: HandlerContext, request: StatsRequest, call: IncomingCall) -> Result:
    return await from_view(ctx, request, overview.stats, request.days)


@handles(TreeRequest)
async def tree(ctx: HandlerContext, request: TreeRequest, call: IncomingCall) -> Result:
    return await from_view(ctx, request, overview.tree, request.path, request.offset, request.limit)


@handles(TimelineRequest)
async def timeline(ctx: HandlerContext, request: TimelineRequest, call: IncomingCall) -> Result:
    return await from_view(ctx, request, overview.timeline, request.since, request.until, request.limit,
                           request.only_counts)  # fmt: skip
