"""Questions: `query` and `get`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace

from memd.daemon import rereading, tasks
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.talk import MAX_HITS, MAX_QUERY
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, StoreBroken, TooLarge, UsageError
from memd.indexer.actions import asof, past
from memd.indexer.asking import grep
from memd.indexer.asking.search import search
from memd.indexer.asking.whynot import why_not as explain_absence
from memd.indexer.store.stores import Shelf
from memd.indexer.views import get as getting
from memd.models import MODES, Answer, Ask

NUMBERED = 3
"""How often a memory is looked at until the ledger has the text that the file has."""

LOOK_SECONDS = 0.05
"""How long the files are read for words that the index does not know."""


async def query(desk: Desk, params: Params, tell: Tell) -> Result:
    started = time.monotonic()
    ask = _ask(desk, params)
    ask = replace(ask, as_of=_past(params))
    sync, client = params.choice("sync", ("auto", "none", "full"), "auto"), observer(params)
    params.done()
    await desk.catch_up(sync, ask.ns)
    if ask.mode == "vector":
        await desk.model_loaded()
    answer = await find(desk, ask)
    if not answer.hits and ask.mode == "hybrid" and desk.parts.embedding.warming:
        # No word of it was found, and meaning has not been asked yet.
        await desk.model_loaded()
        answer = await find(desk, ask)
    if answer.unread and sync != "none":
        # Letter by letter means every file that has them, also one that is being taken in just now.
        for ns, paths in answer.unread.items():
            await asyncio.wrap_future(desk.parts.worker.submit(rereading.ReadFirst(ns, tuple(paths))))
        answer = await find(desk, ask)
    # While an import goes on, only an answer without any hit is worth waiting for its end.
    doubtful = answer.verdict == "none" and desk.parts.worker.importing is None
    checked = sync != "none" and not ask.as_of and (doubtful or not answer.hits)
    if checked:
        # Never a "no" without a look at the files themselves.
        await _make_sure(desk, ask, answer)
        answer = await find(desk, ask)
    if client and answer.verdict != "none" and not ask.as_of:
        desk.parts.observing.saw_chunks((hit.id for hit in answer.hits), client)
    hits = [{name: value for name, value in asdict(hit).items() if value is not None} for hit in answer.hits]
    took = round((time.monotonic() - started) * 1000, 2)
    return {"hits": hits, "verdict": answer.verdict, "confidence": answer.confidence, "checked": checked,
            "corrected": answer.corrected, "ns": list(ask.ns), "mode": ask.mode, "total": answer.total,
            "took_ms": took}  # fmt: skip


def observer(params: Params) -> str:
    """Who sees the answer; empty when nobody does who counts: a probe, a test, a hook."""
    who, observe = params.text("who") or "socket", params.flag("observe", True)
    return who if observe else ""


async def _make_sure(desk: Desk, ask: Ask, answer: Answer) -> None:
    """Compare every file's stamps, and read files again that have a word which the index does not know."""
    await desk.scan(ask.ns)
    seconds = LOOK_SECONDS / len(ask.ns)
    for ns in ask.ns if answer.missing else ():
        shelf = desk.parts.stores.shelf(ns)
        found = await desk.read(grep.holding, shelf, answer.missing, desk.parts.worker.max_bytes, seconds)
        # Some words are in no chunk for good, as those of front matter are: once is enough for them.
        new = [path for path, word in found.items() if (known := shelf.files.get(path)) is None
               or not desk.tried(ns, path, known.digest, word)]  # fmt: skip
        if new:
            await asyncio.wrap_future(desk.parts.worker.submit(rereading.ReadAgain(ns, tuple(new))))


def _ask(desk: Desk, params: Params) -> Ask:
    limit = params.number("limit", desk.parts.settings.search.limit, 0, MAX_HITS)
    return Ask(
        query=question(params),
        ns=desk.names(params),
        limit=limit or MAX_HITS,
        mode=params.choice("mode", MODES, "hybrid"),
        filters=params.filters(),
        explain=params.flag("explain"),
        marks=params.flag("marks"),
        fusion=desk.parts.settings.search.fusion,
        rrf_k=desk.parts.settings.search.rrf_k,
    )


def question(params: Params) -> str:
    query = params.required("query")
    if len(query) > MAX_QUERY:
        raise TooLarge(f"a question may have {MAX_QUERY} characters, this one has {len(query)}", "ask in fewer words")
    return query


async def find(desk: Desk, ask: Ask) -> Answer:
    """Search; a text index that turns out to be torn is made again first, rather than missing what it held."""
    max_bytes = desk.parts.worker.max_bytes
    if ask.as_of:
        return await desk.read(asof.search_as_of, desk.parts.stores, ask, asof.moment(ask.as_of))
    try:
        return await desk.read(search, desk.parts.stores, ask, max_bytes)
    except StoreBroken:
        for ns in ask.ns:
            await asyncio.wrap_future(desk.parts.worker.submit(tasks.RenewText(ns)))
        return await desk.read(search, desk.parts.stores, ask, max_bytes)


def _past(params: Params) -> str:
    """A moment that is asked about, checked."""
    given = params.text("as_of")
    if given:
        asof.moment(given)
    return given


async def why_not(desk: Desk, params: Params, tell: Tell) -> Result:
    file, line = params.required("file"), params.number("line", 1, 1, 10**9)
    ask = _ask(desk, params)
    params.done()
    shelf = _shelf_with(desk, ask.ns, file)
    await desk.catch_up("auto", ask.ns)
    if ask.mode != "text":
        await desk.model_loaded()
    inside = getting.inside(shelf, file) or file
    return {"ns": shelf.workspace.ns, **await desk.read(explain_absence, desk.parts.stores, shelf, inside, line, ask)}


def _shelf_with(desk: Desk, names: tuple[str, ...], path: str) -> Shelf:
    """The first workspace that has the file."""
    shelves = [desk.parts.stores.shelf(ns) for ns in names]
    return next((shelf for shelf in shelves if getting.inside(shelf, path) in shelf.files), shelves[0])


async def get(desk: Desk, params: Params, tell: Tell) -> Result:
    key, path = params.text("key"), params.text("path")
    first, count = params.number("from", 1, 1, 10**9), params.number("lines", 0, 0, 10**9)
    version, as_of, client = params.number("version", 0, 1, 10**9), _past(params), observer(params)
    shelves = desk.shelves(params)
    params.done()
    if bool(key) == bool(path):
        raise UsageError("`get` needs a `key` or a `path`")
    if ((path or as_of) and version) or (path and as_of):
        raise UsageError("`version` and `as_of` are of a memory: one of them, with a `key`")
    await desk.catch_up("auto", ())
    if path:
        try:
            return await desk.read(getting.by_path, shelves, path, first, count, desk.parts.worker.max_bytes)
        except OSError as error:
            raise NotFound(f"that path cannot be read: {error.strerror}", "memd workspaces") from error
    if as_of:
        return await desk.read(asof.get_as_of, desk.parts.stores, shelves, key, asof.moment(as_of))
    if version:
        was = await desk.read(past.known, desk.parts.stores, shelves, key)
        return await desk.read(getting.by_version, desk.parts.stores, was.shelf, was.memory, key, version)
    memory, told = await _current(desk, shelves, key)
    if client:
        desk.parts.observing.saw((memory,), client)
    return told


async def _current(desk: Desk, shelves: list[Shelf], key: str) -> tuple[int, Result]:
    """A memory as its file has it; a text that was written this very moment has its number as soon as it is indexed."""
    for _ in range(NUMBERED):
        memory, told = await desk.read(getting.by_key, desk.parts.stores, shelves, key, desk.parts.worker.max_bytes)
        if told["version"] is not None:
            break
        await desk.catch_up("auto", ())
    return memory, told
