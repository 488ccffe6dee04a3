"""Standing queries: `subscribe` and `unsubscribe`."""

from __future__ import annotations

from pathlib import Path

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.talk import MAX_QUERY
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.daemon.subscriptions import SubscriptionQuery
from memd.errors import NotFound, TooLarge, UsageError
from memd.indexer.indexing.subscription_match import AwaitedTerms, awaited_terms
from memd.models import KINDS, Filters


async def subscribe(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    filters = Filters(
        kind=params.choice("kind", ("", *KINDS), ""),
        tags=params.texts("tags"),
        role=params.text("role"),
        path=params.text("path"),
    )
    terms = SubscriptionQuery(_wanted(params), filters, scope(ctx, params), params.flag("marks"))
    params.done()
    # Nothing is awaited from here on, so the answer goes out before the first notification.
    return {"subscription": ctx.parts.subscriptions.subscribe(tell.line, terms), "ns": sorted(terms.ns)}


def _wanted(params: Params) -> AwaitedTerms:
    query, match = params.text("query"), params.choice("match", ("all", "any"), "all")
    if len(query) > MAX_QUERY:
        raise TooLarge(f"a question may have {MAX_QUERY} characters, this one has {len(query)}", "ask in fewer words")
    found = awaited_terms(query, every=match == "all")
    if query.strip() and not found.words:
        raise UsageError(f"there is no word in {query!r}", "leave `query` out to be told of every memory")
    return found


def scope(ctx: HandlerContext, params: Params) -> frozenset[str]:
    """The workspaces that were named or the one around `cwd`; empty for all, also for those to come."""
    names, cwd = ctx.names(params), params.place("cwd")
    roots = [ctx.parts.stores.index(ns).workspace.root for ns in names]
    meant = params.texts("ns") or (cwd and any(Path(cwd).is_relative_to(root) for root in roots))
    return frozenset(names) if meant else frozenset()


async def unsubscribe(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    number = params.number("subscription", 0, 1, 10**9)
    params.done()
    if not number:
        raise UsageError("`unsubscribe` needs `subscription`")
    if not (ctx.parts.subscriptions.end(tell.line, number) or ctx.parts.events.watching.end(tell.line, number)):
        raise NotFound(f"this connection has no subscription {number}", "`subscribe` and `watch` answer their number")
    return {"unsubscribed": True}
