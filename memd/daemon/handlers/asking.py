"""Questions: `query` and `get`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace

from memd.daemon import rereading, tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.talk import MAX_HITS, MAX_QUERY
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, StoreBroken, TooLarge, UsageError
from memd.indexer.query import grep
from memd.indexer.query.search import search
from memd.indexer.query.why_not import why_not as explain_absence
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import as_of as as_of_view
from memd.indexer.views import get as getting
from memd.indexer.views import past
from memd.models import MODES, Answer, Ask

NUMBERED = 3
"""How often a memory is looked at until the ledger has the text that the file has."""

LOOK_SECONDS = 0.05
"""How long the files are read for words that the index does not know."""


async def query(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    ask = _ask(ctx, params)
    ask = replace(ask, as_of=_past(params))
    sync, client = params.choice("sync", ("auto", "none", "full"), "auto"), observer(params)
    params.done()
    await ctx.catch_up(sync, ask.ns)
    if ask.mode == "vector":
        await ctx.model_loaded()
    answer = await find(ctx, ask)
    if not answer.hits and ask.mode == "hybrid" and ctx.parts.embedding.warming:
        # No word of it was found, and meaning has not been asked yet.
        await ctx.model_loaded()
        answer = await find(ctx, ask)
    if answer.unread and sync != "none":
        # Letter by letter means every file that has them, also one that is being taken in just now.
        for ns, paths in answer.unread.items():
            await asyncio.wrap_future(ctx.parts.worker.submit(rereading.ReadFirst(ns, tuple(paths))))
        answer = await find(ctx, ask)
    # While an import goes on, only an answer without any hit is worth waiting for its end.
    doubtful = answer.verdict == "none" and ctx.parts.worker.importing is None
    checked = sync != "none" and not ask.as_of and (doubtful or not answer.hits)
    if checked:
        # Never a "no" without a look at the files themselves.
        await _make_sure(ctx, ask, answer)
        answer = await find(ctx, ask)
    if client and answer.verdict != "none" and not ask.as_of:
        ctx.parts.access_log.saw_chunks((hit.id for hit in answer.hits), client)
    hits = [{name: value for name, value in asdict(hit).items() if value is not None} for hit in answer.hits]
    took = round((time.monotonic() - started) * 1000, 2)
    return {"hits": hits, "verdict": answer.verdict, "confidence": answer.confidence, "checked": checked,
            "corrected": answer.corrected, "ns": list(ask.ns), "mode": ask.mode, "total": answer.total,
            "took_ms": took}  # fmt: skip


def observer(params: Params) -> str:
    """Who sees the answer; empty when nobody does who counts: a probe, a test, a hook."""
    who, observe = params.text("who") or "socket", params.flag("observe", True)
    return who if observe else ""


async def _make_sure(ctx: HandlerContext, ask: Ask, answer: Answer) -> None:
    """Compare every file's stamps, and read files again that have a word which the index does not know."""
    await ctx.scan(ask.ns)
    seconds = LOOK_SECONDS / len(ask.ns)
    for ns in ask.ns if answer.missing else ():
        index = ctx.parts.stores.index(ns)
        found = await ctx.read(grep.holding, index, answer.missing, ctx.parts.worker.max_bytes, seconds)
        # Some words are in no chunk for good, as those of front matter are: once is enough for them.
        new = [path for path, word in found.items() if (known := index.files.get(path)) is None
               or not ctx.tried(ns, path, known.digest, word)]  # fmt: skip
        if new:
            await asyncio.wrap_future(ctx.parts.worker.submit(rereading.ReadAgain(ns, tuple(new))))


def _ask(ctx: HandlerContext, params: Params) -> Ask:
    limit = params.number("limit", ctx.parts.settings.search.limit, 0, MAX_HITS)
    return Ask(
        query=question(params),
        ns=ctx.names(params),
        limit=limit or MAX_HITS,
        mode=params.choice("mode", MODES, "hybrid"),
        filters=params.filters(),
        explain=params.flag("explain"),
        marks=params.flag("marks"),
        fusion=ctx.parts.settings.search.fusion,
        rrf_k=ctx.parts.settings.search.rrf_k,
    )


def question(params: Params) -> str:
    query = params.required("query")
    if len(query) > MAX_QUERY:
        raise TooLarge(f"a question may have {MAX_QUERY} characters, this one has {len(query)}", "ask in fewer words")
    return query


async def find(ctx: HandlerContext, ask: Ask) -> Answer:
    """Search; a text index that turns out to be torn is made again first, rather than missing what it held."""
    max_bytes = ctx.parts.worker.max_bytes
    if ask.as_of:
        return await ctx.read(as_of_view.search_as_of, ctx.parts.stores, ask, as_of_view.moment(ask.as_of))
    try:
        return await ctx.read(search, ctx.parts.stores, ask, max_bytes)
    except StoreBroken:
        for ns in ask.ns:
            await asyncio.wrap_future(ctx.parts.worker.submit(tasks.RenewText(ns)))
        return await ctx.read(search, ctx.parts.stores, ask, max_bytes)


def _past(params: Params) -> str:
    """A moment that is asked about, checked."""
    given = params.text("as_of")
    if given:
        as_of_view.moment(given)
    return given


async def why_not(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    file, line = params.required("file"), params.number("line", 1, 1, 10**9)
    ask = _ask(ctx, params)
    params.done()
    index = _index_with(ctx, ask.ns, file)
    await ctx.catch_up("auto", ask.ns)
    if ask.mode != "text":
        await ctx.model_loaded()
    inside = getting.inside(index, file) or file
    return {"ns": index.workspace.ns, **await ctx.read(explain_absence, ctx.parts.stores, index, inside, line, ask)}


def _index_with(ctx: HandlerContext, names: tuple[str, ...], path: str) -> WorkspaceIndex:
    """The first workspace that has the file."""
    indexes = [ctx.parts.stores.index(ns) for ns in names]
    return next((index for index in indexes if getting.inside(index, path) in index.files), indexes[0])


async def get(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, path = params.text("key"), params.text("path")
    first, count = params.number("from", 1, 1, 10**9), params.number("lines", 0, 0, 10**9)
    version, as_of, client = params.number("version", 0, 1, 10**9), _past(params), observer(params)
    indexes = ctx.indexes(params)
    params.done()
    if bool(key) == bool(path):
        raise UsageError("`get` needs a `key` or a `path`")
    if ((path or as_of) and version) or (path and as_of):
        raise UsageError("`version` and `as_of` are of a memory: one of them, with a `key`")
    await ctx.catch_up("auto", ())
    if path:
        try:
            return await ctx.read(getting.by_path, indexes, path, first, count, ctx.parts.worker.max_bytes)
        except OSError as error:
            raise NotFound(f"that path cannot be read: {error.strerror}", "memd workspaces") from error
    if as_of:
        return await ctx.read(as_of_view.get_as_of, ctx.parts.stores, indexes, key, as_of_view.moment(as_of))
    if version:
        was = await ctx.read(past.known, ctx.parts.stores, indexes, key)
        return await ctx.read(getting.by_version, ctx.parts.stores, was.index, was.memory, key, version)
    memory, told = await _current(ctx, indexes, key)
    if client:
        ctx.parts.access_log.saw((memory,), client)
    return told


async def _current(ctx: HandlerContext, indexes: list[WorkspaceIndex], key: str) -> tuple[int, Result]:
    """A memory as its file has it; a text that was written this very moment has its number as soon as it is indexed."""
    for _ in range(NUMBERED):
        memory, told = await ctx.read(getting.by_key, ctx.parts.stores, indexes, key, ctx.parts.worker.max_bytes)
        if told["version"] is not None:
            break
        await ctx.catch_up("auto", ())
    return memory, told
