"""What an agent should know for a task: `context`."""

from __future__ import annotations

import asyncio

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.asking import observer, question
from memd.daemon.handlers.edges import linked
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import StoreBroken
from memd.indexer.contexts.context import assemble
from memd.indexer.contexts.pasted import Context
from memd.indexer.contexts.scene import Wanted
from memd.models import Ask

BUDGET, LEAST, MOST = 2_000, 50, 200_000
"""Tokens: when nothing is said, and what can be said."""


async def context(desk: Desk, params: Params, tell: Tell) -> Result:
    wanted, client = _wanted(desk, params), observer(params)
    sync = params.choice("sync", ("auto", "none", "full"), "auto")
    params.done()
    await desk.catch_up(sync, wanted.ask.ns)
    if sync != "none":
        # A summary that was just written stands for its sources already.
        await linked(desk, [desk.parts.stores.shelf(ns) for ns in wanted.ask.ns])
    # Without the model meaning is not heard and tokens are only estimated: the answer would be another one.
    await desk.model_loaded()
    made = await _assembled(desk, wanted)
    if not made.memories and sync != "none":
        # Never a "nothing" without a look at the files themselves.
        await desk.scan(wanted.ask.ns)
        made = await _assembled(desk, wanted)
    if client:
        desk.parts.observing.saw(made.memories, client, together=True)
    return {"ns": list(wanted.ask.ns), **made.told}


def _wanted(desk: Desk, params: Params) -> Wanted:
    budget = params.number("budget", BUDGET, LEAST, MOST)
    least, spread = params.share("min_score") or 0.0, params.share("min_spread") or 0.0
    settings = desk.parts.settings.search
    names, filters, query = desk.names(params), params.filters(), question(params)
    return Wanted(
        Ask(query, names, filters=filters, fusion=settings.fusion, rrf_k=settings.rrf_k), budget, least, spread
    )


async def _assembled(desk: Desk, wanted: Wanted) -> Context:
    """Assemble it; a text index that turns out to be torn is made again first."""
    try:
        return await desk.read(assemble, desk.parts.stores, wanted)
    except StoreBroken:
        for ns in wanted.ask.ns:
            await asyncio.wrap_future(desk.parts.worker.submit(tasks.RenewText(ns)))
        return await desk.read(assemble, desk.parts.stores, wanted)
