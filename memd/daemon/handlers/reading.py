"""Reading without ranking by meaning: `grep`, `list` and `bus`."""

from __future__ import annotations

import time
from dataclasses import asdict

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.talk import MAX_HITS, MAX_QUERY
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import TooLarge
from memd.indexer.query import grep as exact
from memd.indexer.query.pattern import Pattern
from memd.indexer.views import bus as entries
from memd.indexer.views import inventory

MAX_BLOCKS = 1_000
MAX_ROWS = 1_000
ROWS = 200
MAX_CONTEXT = 1_000
MAX_SKIPPED = 50
FAR = 10**9


async def grep(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    pattern = _short("pattern", params)
    regular, case = params.flag("regex"), params.flag("case")
    context, limit = params.number("context", 3, 0, MAX_CONTEXT), params.number("max_results", 10, 0, MAX_BLOCKS)
    path, after = params.text("path"), params.text("after")
    ns = ctx.names(params)
    params.done()
    # In a thread: what somebody else wrote may take its time to be read.
    compiled = await ctx.read(Pattern, pattern, regular, case)
    wanted = exact.GrepQuery(compiled, context, limit or MAX_BLOCKS, path, after)
    indexes = [ctx.parts.stores.index(name) for name in ns]
    found = await ctx.read(exact.grep, indexes, wanted, ctx.parts.worker.max_bytes)
    took = round((time.monotonic() - started) * 1000, 2)
    return {"blocks": [asdict(block) for block in found.blocks], "next": found.next,
            "skipped": found.skipped[:MAX_SKIPPED], "ns": list(ns), "took_ms": took}  # fmt: skip


async def listed(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    filters = params.filters()
    sort = params.choice("sort", (*inventory.BY_TIME, *inventory.SORTS), "newest")
    offset, limit = params.number("offset", 0, 0, FAR), params.number("limit", ROWS, 0, MAX_ROWS)
    ns = ctx.names(params)
    params.done()
    await ctx.catch_up("auto", ns)
    indexes = [ctx.parts.stores.index(name) for name in ns]
    page = await ctx.read(inventory.listed, ctx.parts.stores, indexes, filters, sort, offset, limit or MAX_ROWS)
    return {**page, "ns": list(ns)}


async def bus(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    query, filters = _short("query", params), params.filters()
    sync = params.choice("sync", ("auto", "none", "full"), "auto")
    offset = params.number("offset", 0, 0, FAR)
    limit = params.number("limit", ctx.parts.settings.search.limit, 0, MAX_HITS) or MAX_HITS
    ns = ctx.names(params)
    params.done()
    await ctx.catch_up(sync, ns)
    indexes = [ctx.parts.stores.index(name) for name in ns]
    asked = (ctx.parts.stores, indexes, query, filters, offset, limit, ctx.parts.worker.max_bytes)
    page = await ctx.read(entries.ranked, *asked)
    checked = not page["total"] and sync != "none"
    if checked:
        # Never an empty answer without a look at the files themselves.
        await ctx.scan(ns)
        page = await ctx.read(entries.ranked, *asked)
    took = round((time.monotonic() - started) * 1000, 2)
    return {**page, "checked": checked, "ns": list(ns), "took_ms": took}


def _short(name: str, params: Params) -> str:
    text = params.required(name)
    if len(text) > MAX_QUERY:
        raise TooLarge(f"`{name}` may have {MAX_QUERY} characters, this one has {len(text)}", "look for less")
    return text
