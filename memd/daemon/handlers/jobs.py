"""What runs by the clock: `jobs.list` and `jobs.run`."""

from __future__ import annotations

import asyncio
import time

from memd.daemon.handler_context import POLL_SECONDS, HandlerContext, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Busy

PATIENCE = 30.0
"""Seconds for which a call waits for a daemon that is only just starting."""


async def listed(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    params.done()
    await _ready(ctx)
    return {"jobs": ctx.parts.scheduler.states()}


async def run(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    name = params.required("name")
    params.done()
    await _ready(ctx)
    return {"job": await asyncio.wrap_future(ctx.parts.scheduler.ask(name))}


async def _ready(ctx: HandlerContext) -> None:
    until = time.monotonic() + PATIENCE
    while not ctx.parts.scheduler.ready:
        if time.monotonic() > until:
            raise Busy("memd is still starting, and knows no jobs yet", "try again in a moment")
        await asyncio.sleep(POLL_SECONDS)
