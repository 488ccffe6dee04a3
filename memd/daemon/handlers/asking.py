"""Questions: `query` and `get`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.talk import MAX_HITS, MAX_QUERY
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, StoreBroken, TooLarge, UsageError
from memd.indexer import get as getting
from memd.indexer.search import search
from memd.models import KINDS, MODES, Answer, Ask, Filters


async def query(desk: Desk, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    ask = _ask(desk, params)
    sync = params.choice("sync", ("auto", "none", "full"), "auto")
    params.done()
    await desk.catch_up(sync, ask.ns)
    if ask.mode == "vector":
        await desk.model_loaded()
    answer = await find(desk, ask)
    if not answer.hits and ask.mode == "hybrid" and desk.parts.embedding.warming:
        # No word of it was found, and meaning has not been asked yet.
        await desk.model_loaded()
        answer = await find(desk, ask)
    checked = not answer.hits and sync != "none"
    if checked:
        # Never an empty answer without a look at the files themselves.
        await desk.scan(ask.ns)
        answer = await find(desk, ask)
    hits = [{name: value for name, value in asdict(hit).items() if value is not None} for hit in answer.hits]
    took = round((time.monotonic() - started) * 1000, 2)
    return {"hits": hits, "verdict": answer.verdict, "confidence": answer.confidence, "checked": checked,
            "corrected": answer.corrected, "ns": list(ask.ns), "mode": ask.mode, "total": answer.total,
            "took_ms": took}  # fmt: skip


def _ask(desk: Desk, params: Params) -> Ask:
    limit = params.number("limit", desk.parts.settings.search.limit, 0, MAX_HITS)
    filters = Filters(
        kind=params.choice("kind", ("", *KINDS), ""),
        tags=params.texts("tags"),
        role=params.text("role"),
        path=params.text("path"),
        since=params.date("since"),
        until=params.date("until"),
        tier=params.text("tier"),
    )
    return Ask(
        query=_question(params),
        ns=desk.names(params),
        limit=limit or MAX_HITS,
        mode=params.choice("mode", MODES, "hybrid"),
        filters=filters,
        explain=params.flag("explain"),
        marks=params.flag("marks"),
        fusion=desk.parts.settings.search.fusion,
        rrf_k=desk.parts.settings.search.rrf_k,
    )


def _question(params: Params) -> str:
    query = params.required("query")
    if len(query) > MAX_QUERY:
        raise TooLarge(f"a question may have {MAX_QUERY} characters, this one has {len(query)}", "ask in fewer words")
    return query


async def find(desk: Desk, ask: Ask) -> Answer:
    """Search; a text index that turns out to be torn is made again first, rather than missing what it held."""
    max_bytes = desk.parts.worker.max_bytes
    try:
        return await desk.read(search, desk.parts.stores, ask, max_bytes)
    except StoreBroken:
        for ns in ask.ns:
            await asyncio.wrap_future(desk.parts.worker.submit(tasks.RenewText(ns)))
        return await desk.read(search, desk.parts.stores, ask, max_bytes)


async def get(desk: Desk, params: Params, tell: Tell) -> Result:
    key, path = params.text("key"), params.text("path")
    first, count = params.number("from", 1, 1, 10**9), params.number("lines", 0, 0, 10**9)
    shelves = [desk.parts.stores.shelf(ns) for ns in desk.names(params)]
    params.done()
    if bool(key) == bool(path):
        raise UsageError("`get` needs a `key` or a `path`")
    await desk.catch_up("auto", ())
    if path:
        try:
            return await desk.read(getting.by_path, shelves, path, first, count, desk.parts.worker.max_bytes)
        except OSError as error:
            raise NotFound(f"that path cannot be read: {error.strerror}", "memd workspaces") from error
    return await desk.read(getting.by_key, desk.parts.stores, shelves, key, desk.parts.worker.max_bytes)
