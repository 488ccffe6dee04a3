"""Watching: `watch`."""

from __future__ import annotations

from memd.daemon import events
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.standing import scope
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import UsageError


async def watch(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    kinds, ns = params.texts("events"), scope(ctx, params)
    params.done()
    unknown = next((kind for kind in kinds if kind not in events.KINDS), None)
    if unknown is not None:
        raise UsageError(f"`events` must be among {', '.join(events.KINDS)}, not {unknown!r}")
    # What was seen before is told to nobody who asks after it.
    await ctx.catch_up("auto", ())
    # Nothing is awaited from here on, so the answer goes out before the first notification.
    return {"subscription": ctx.parts.events.watch(tell.line, ns, frozenset(kinds)), "ns": sorted(ns)}
