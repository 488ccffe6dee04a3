"""What runs by the clock: `jobs.list` and `jobs.run`."""

from __future__ import annotations

import asyncio
import time

from memd.daemon.desk import POLL_SECONDS, Desk, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Busy

PATIENCE = 30.0
"""Seconds for which a call waits for a daemon that is only just starting."""


async def listed(desk: Desk, params: Params, tell: Tell) -> Result:
    params.done()
    await _ready(desk)
    return {"jobs": desk.parts.scheduler.states()}


async def run(desk: Desk, params: Params, tell: Tell) -> Result:
    name = params.required("name")
    params.done()
    await _ready(desk)
    return {"job": await asyncio.wrap_future(desk.parts.scheduler.ask(name))}


async def _ready(desk: Desk) -> None:
    until = time.monotonic() + PATIENCE
    while not desk.parts.scheduler.ready:
        if time.monotonic() > until:
            raise Busy("memd is still starting, and knows no jobs yet", "try again in a moment")
        await asyncio.sleep(POLL_SECONDS)
