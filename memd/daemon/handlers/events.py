"""Being told of changes: `subscribe`, `unsubscribe` and `watch`."""

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.serving.events import Subscription, Watch
from memd.errors import NotFound, UsageError
from memd.indexer.indexing.subscription_match import AwaitedTerms, awaited_terms
from memd.protocol.methods.base import Scoped
from memd.protocol.methods.events import SubscribeRequest, UnsubscribeRequest, WatchRequest


@handles(SubscribeRequest)
async def subscribe(ctx: HandlerContext, request: SubscribeRequest, call: IncomingCall) -> Result:
    names = _scope(ctx, request)
    wanted = Subscription(call.connection, _terms(request), request.filters, names, request.marks)
    # Nothing is awaited from here on, so the answer goes out before the first notification.
    return {"subscription": ctx.subscriptions.add(wanted), "ns": sorted(names)}


def _terms(request: SubscribeRequest) -> AwaitedTerms:
    terms = awaited_terms(request.query, every=request.match == "all")
    if request.query.strip() and not terms.words:
        raise UsageError(f"there is no word in {request.query!r}", "leave `query` out to be told of every memory")
    return terms


def _scope(ctx: HandlerContext, request: Scoped) -> frozenset[str]:
    """The workspaces that were named or the one around `cwd`; empty for all, also for those to come."""
    names = ctx.names(request)
    return frozenset(names) if request.ns or ctx.around(request.cwd) else frozenset()


@handles(WatchRequest)
async def watch(ctx: HandlerContext, request: WatchRequest, call: IncomingCall) -> Result:
    names = _scope(ctx, request)
    # Changes that were seen before this call are not announced to it.
    await ctx.catch_up()
    # Nothing is awaited from here on, so the answer goes out before the first notification.
    number = ctx.events.watching.add(Watch(call.connection, names, frozenset(request.events)))
    return {"subscription": number, "ns": sorted(names)}


@handles(UnsubscribeRequest)
async def unsubscribe(ctx: HandlerContext, request: UnsubscribeRequest, call: IncomingCall) -> Result:
    number = request.subscription
    if (end := call.connection.subscriptions.get(number)) is None:
        raise NotFound(f"this connection has no subscription {number}", "`subscribe` and `watch` return the number")
    end()
    return {"unsubscribed": True}
