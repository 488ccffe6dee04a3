"""Looking in: `peek`, `stats`, `tree` and `timeline`. None of them counts as an access."""

from __future__ import annotations

from memd.daemon.desk import Desk, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.store.stores import Shelf
from memd.indexer.views import peek as looking
from memd.indexer.views import stats as counting
from memd.indexer.views import timeline as days

ROWS = 1_000
MOST_ROWS = 5_000
DAYS = 14
MOST_DAYS = 1_000
FAR = 10**9


async def peek(desk: Desk, params: Params, tell: Tell) -> Result:
    shelves = desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    found = await desk.read(lambda: looking.peek(desk.parts.stores.ledger.reader, shelves))
    return {**found, "ns": _names(shelves)}


async def stats(desk: Desk, params: Params, tell: Tell) -> Result:
    shelves = desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    return {**await desk.read(counting.stats, desk.parts.stores, shelves), "ns": _names(shelves)}


async def tree(desk: Desk, params: Params, tell: Tell) -> Result:
    path, offset = params.text("path"), params.number("offset", 0, 0, FAR)
    limit, shelves = params.number("limit", ROWS, 1, MOST_ROWS), desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    found = await desk.read(lambda: looking.tree(desk.parts.stores.ledger.reader, shelves, path, offset, limit))
    return {**found, "ns": _names(shelves)}


async def timeline(desk: Desk, params: Params, tell: Tell) -> Result:
    since, until = params.date("since"), params.date("until")
    limit, shelves = params.number("limit", DAYS, 1, MOST_DAYS), desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    found = await desk.read(lambda: days.timeline(desk.parts.stores.ledger.reader, shelves, since, until, limit))
    return {**found, "ns": _names(shelves)}


def _names(shelves: list[Shelf]) -> list[str]:
    return [shelf.workspace.ns for shelf in shelves]
