"""Finding and reading: `query`, `why_not`, `get`, `grep`, `bus` and `list`."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import fields, replace
from operator import itemgetter
from typing import Any

from memd.daemon.handlers.handler_context import P, T, date_of, filters_of, namespaces
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, from_view, handles
from memd.daemon.writer.tasks import ShownMemories, read_files_first, reread_files, verify_text
from memd.errors import DiskFull, ModelUnavailable, NotFound, in_shell
from memd.indexer.language.question import without_operators
from memd.indexer.query import grep as grep_files
from memd.indexer.query.from_files import search_files
from memd.indexer.query.hits import newest_first
from memd.indexer.query.pattern import Pattern
from memd.indexer.query.search import search
from memd.indexer.query.why_not import why_not as explain_absence
from memd.indexer.record import history
from memd.indexer.store.segment import TextBroken
from memd.indexer.store.stores import Indexes, Stores
from memd.indexer.views import as_of as as_of_view, inventory, keys, past
from memd.models import Answer, Ask, Filters, Hit
from memd.protocol.methods import search as methods
from memd.protocol.methods.base import MAX_HITS, MAX_ROWS

CHECK_SECONDS = 2.0
"""How long an answer without hits waits for files that are not indexed yet."""
UNCHECKED = "files are still being indexed"
LOOK_SECONDS = 0.05
"""How long the files are read for words that the index does not know."""
MAX_SKIPPED = 50
NEWEST_AMONG = 8
"""For each hit that is wanted newest first, so many of the best are compared."""
HIT = tuple(field.name for field in fields(Hit))


@handles(methods.QueryRequest)
async def query(ctx: HandlerContext, request: methods.QueryRequest, call: IncomingCall) -> Result:
    ask = replace(_ask(ctx, request, _moment(request)), order=request.order)
    await ctx.catch_up(request.sync, ask.ns)
    answer = await _complete_answer(ctx, ask, request.sync)
    # While an import goes on, only an answer without any hit is worth a look.
    doubtful = answer.verdict == "none" and ctx.worker.importing is None
    doubtful = request.sync != "none" and not ask.as_of and (doubtful or not (answer.hits or answer.near))
    # Never a "no" without a look at the files themselves, or it says so.
    unchecked = await _unchecked(ctx, ask, answer, doubtful)
    if doubtful and ctx.answer.seq != ctx.stores.ledger.seq:
        # Something was committed since it was read.
        answer = await search_elsewhere(ctx, ask)
        if (answer.missing or answer.outside) and not (answer.hits or unchecked):
            unchecked = await _unchecked(ctx, ask, answer, doubtful)
    if not (doubtful or ask.as_of) and answer.verdict == "none" and ctx.worker.pending_files(ask.ns):
        unchecked = unchecked or UNCHECKED
    if request.observer and not ask.as_of:
        ctx.access_log.saw(ShownMemories(request.observer, chunks=tuple(hit.id for hit in answer.hits)))
    return {**_told(ctx, ask, answer), **_checked(doubtful, unchecked)}


@handles(methods.QueryRequest, without_ledger=True)
async def query_files(ctx: HandlerContext, request: methods.QueryRequest, call: IncomingCall) -> Result:
    ask = _ask(ctx, request, _moment(request))
    if ctx.stores.ledger.damage is not None and (ask.mode == "vector" or ask.as_of or ask.filters != Filters()):
        raise ctx.stores.ledger.damage
    workspaces = [ctx.stores.index(ns).workspace for ns in ask.ns]
    answer, skipped = await ctx.read(search_files, workspaces, ask, ctx.max_bytes)
    return {**_told(ctx, ask, answer), **_checked(True, _left_out([(one["path"], one["why"]) for one in skipped]))}


def _checked(looked: bool, unchecked: str) -> Result:
    """Whether every file was looked at, or why not."""
    return {"checked": looked and not unchecked, **({"unchecked": unchecked} if unchecked else {})}


def _told(ctx: HandlerContext, ask: Ask, answer: Answer) -> Result:
    hits, near = (_on_wire(found) for found in (answer.hits, answer.near))
    return {"hits": hits, "verdict": answer.verdict, "confidence": answer.confidence,
            "corrected": answer.corrected, "missing": list(answer.missing), "near": near,
            "resting": answer.resting, "expired": answer.expired, "ns": list(ask.ns),
            "mode": ask.mode, "total": answer.total, "took_ms": ctx.took_ms}  # fmt: skip


def _on_wire(found: list[Hit]) -> list[dict[str, Any]]:
    return [{name: value for name in HIT if (value := getattr(hit, name)) is not None} for hit in found]


async def _complete_answer(ctx: HandlerContext, ask: Ask, sync: str) -> Answer:
    """Search; and again once the model is loaded, or files are indexed, where the answer cannot do without them."""
    if ask.mode == "vector":
        await ctx.model_loaded()
    ready = ask.mode not in ("hybrid", "vector") or await ctx.meaning_ready(ask.query, ask.ns)
    answer = await search_elsewhere(ctx, ask)
    if not (ready or answer.hits) and await ctx.meaning_made(ask.query, ask.ns):
        answer = await search_elsewhere(ctx, ask)
    if not (answer.hits or answer.near) and ask.mode == "hybrid" and ctx.embedding.warming:
        # No word of it was found, and meaning has not been asked yet.
        await ctx.model_loaded()
        answer = await search_elsewhere(ctx, ask)
    if answer.unread and sync != "none":
        # Letter by letter means every file that has them, also one that is being indexed just now.
        for ns, paths in answer.unread.items():
            await ctx.write(read_files_first, ctx.worker, ns, paths)
        answer = await search_elsewhere(ctx, ask)
    return answer


async def _unchecked(ctx: HandlerContext, ask: Ask, answer: Answer, doubtful: bool) -> str:
    """Why an answer was not compared with every file; empty when it was, or need not be."""
    try:
        if doubtful and (why := await _check_files(ctx, ask, answer)):
            return why
    except DiskFull as error:
        return error.message
    if not doubtful and (ask.as_of or answer.verdict != "weak" or not answer.missing):
        return ""
    # Also where words are missing from a weak answer: what is left out may have them.
    return _left_out(await ctx.read(lambda: [one for ns in ask.ns for one in ctx.stores.index(ns).left_out()]))


def _left_out(left_out: Sequence[tuple[str, str]]) -> str:
    """The first of some files that are left out, and why; empty for none."""
    if not left_out:
        return ""
    more = f", and {len(left_out) - 1} more: memd status" if len(left_out) > 1 else ""
    return "{} is left out ({})".format(*left_out[0]) + more


async def _check_files(ctx: HandlerContext, ask: Ask, answer: Answer) -> str:
    """Compare every file's stamps, and read files again that have a word which the index does not know.

    Says why that is not all, as when there is more to index than a question should wait for; questions that ask
    meanwhile share that.
    """
    if not await _in_time(ctx.scan(ask.ns)):
        return UNCHECKED
    seconds, seq = LOOK_SECONDS / len(ask.ns), ctx.stores.ledger.seq
    # If something was committed since, it is asked again.
    if answer.outside and ctx.answer.seq == seq:
        return _stands(ask.query, answer.outside)
    for ns in ask.ns if answer.missing else ():
        index = ctx.stores.index(ns)
        found = await ctx.read(grep_files.holding, index, answer.missing, ctx.max_bytes, seconds)
        # Some words are in no chunk for good, as most of front matter: to read them again once is enough.
        new = [path for path, word in found.items() if (known := index.files.get(path)) is None
               or not ctx.reread_before(ns, path, known.digest, word)]  # fmt: skip
        # Aside: whether something changed since the answer was read is still to be seen.
        if new and not await _in_time(ctx.for_call(None).write(reread_files, ctx.worker, ns, new)):
            return UNCHECKED
        if found and ctx.stores.ledger.seq == seq:
            path, word = next(iter(found.items()))
            return _stands(word, path)
    return ""


def _stands(text: str, path: str) -> str:
    command = "memd grep --" if text.startswith("-") else "memd grep"
    return f"“{text}” stands in {path}, where no question looks: {command} {in_shell(text)}"


async def _in_time(work: Coroutine[Any, Any, Any]) -> bool:
    """Wait for something that goes on in any case; False when it takes too long."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=CHECK_SECONDS)
    if done:
        task.result()
    else:
        # The writer tells of its errors by itself.
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
    return bool(done)


def _ask(ctx: HandlerContext, request: methods.Search, as_of: str = "") -> Ask:
    if request.mode == "vector" and ctx.settings.embedding.provider == "none":
        hint = "ask with --mode text, or have vectors made: memd config set embedding.provider local"
        raise ModelUnavailable('vectors are off (embedding.provider = "none"), so --mode vector finds nothing', hint)
    settings = ctx.settings.search
    limit = settings.limit if request.limit is None else request.limit
    return Ask(
        query=request.query, ns=ctx.names(request), limit=limit or MAX_HITS, mode=request.mode,
        filters=filters_of(request), explain=request.explain, marks=request.marks, fusion=settings.fusion,
        rrf_k=settings.rrf_k, as_of=as_of, all_tiers=request.all or settings.include_all,
        today=request.local_time().date(),
    )  # fmt: skip


def _moment(request: methods.AtATime) -> str:
    """The moment of the past that a call is about, which words such as "yesterday" may name; empty for now."""
    return as_of_view.moment(date_of(request, "as_of", "until")) if request.as_of else ""


async def search_elsewhere(ctx: HandlerContext, ask: Ask) -> Answer:
    """Search the stores in a reader process, as `ctx.read_elsewhere` does."""
    if ask.order == "newest":
        among = replace(ask, order="best", limit=min(MAX_HITS, ask.limit * NEWEST_AMONG))
        return newest_first(await search_elsewhere(ctx, among), ask.limit)
    if ask.as_of:
        answer = await ctx.read_elsewhere(as_of_view.search_as_of, ctx.stores, ask, ask.as_of)
    else:
        if ask.mode in ("hybrid", "vector") and (text := without_operators(ask.query)):
            ctx.readers.embed_ahead(text, ask.ns)
        ctx.answer.partial = "text" in ctx.health.names
        answer = await repairing_text(ctx, ask.ns, search, ctx.stores, ask, ctx.max_bytes)
    ctx.answer.unheard = answer.unheard
    return answer


async def repairing_text(
    ctx: HandlerContext, names: tuple[str, ...], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Read; text indexes that turn out to be torn are repaired first, rather than missing what they held."""
    try:
        return await ctx.read_elsewhere(work, *args, **kwargs)
    except TextBroken:
        # Those that cannot be opened, or all of them: what is torn inside is found only by reading everything.
        for ns in await ctx.read(_unopenable, ctx.stores, names) or names:
            await ctx.write(verify_text, ctx.worker, ns)
        return await ctx.read_elsewhere(work, *args, **kwargs)


def _unopenable(stores: Stores, names: tuple[str, ...]) -> list[str]:
    def opens(ns: str) -> bool:
        try:
            return bool(stores.index(ns).text)
        except TextBroken:
            return False

    return [ns for ns in names if not opens(ns)]


@handles(methods.WhyNotRequest)
async def why_not(ctx: HandlerContext, request: methods.WhyNotRequest, call: IncomingCall) -> Result:
    ask = _ask(ctx, request)
    indexes = [ctx.stores.index(ns) for ns in ask.ns]
    index = next((index for index in indexes if keys.inside(index, request.file) in index.files), indexes[0])
    await ctx.catch_up()
    ns, path = index.workspace.ns, keys.inside(index, request.file) or request.file
    if ask.mode != "text":
        await ctx.model_loaded()
        await ctx.meaning_ready(ask.query, (ns,))
    told = await ctx.read(explain_absence, ctx.stores, index, path, request.line, ask)
    ctx.answer.unheard = told.pop("unheard", "")
    return {"ns": ns, **told}


@handles(methods.GetRequest)
async def get(ctx: HandlerContext, request: methods.GetRequest, call: IncomingCall) -> Result:
    moment = _moment(request)
    key, indexes = request.key, await ctx.current_indexes(request)
    if request.path:
        try:
            lines = (request.path, request.from_, request.lines, ctx.max_bytes)
            return await ctx.read(keys.by_path, ctx.stores, indexes, *lines)
        except OSError as error:
            raise NotFound(f"that path cannot be read: {error.strerror}", "memd workspaces") from error
    if moment:
        return await ctx.read_elsewhere(as_of_view.get_as_of, ctx.stores, indexes, key, moment)
    if request.version:
        return await ctx.read_elsewhere(past.by_version, ctx.stores, indexes, key, request.version)
    if day := await ctx.read(keys.day_with_sections, ctx.stores, indexes, key):
        return await ctx.read(keys.by_path, ctx.stores, [day[0]], day[1], 1, 0, ctx.max_bytes)
    memory, result = await _current(ctx, indexes, key)
    if request.observer:
        ctx.access_log.saw(ShownMemories(request.observer, (memory,)))
    return result


async def _current(ctx: HandlerContext, indexes: Indexes, key: str) -> tuple[int, Result]:
    """A memory as its file has it; a text that was written this very moment has its number as soon as it is indexed."""
    about = ctx.stores, indexes, key, ctx.max_bytes
    memory, result = await ctx.read_elsewhere(keys.by_key, *about)
    if result["version"] is None:
        await ctx.catch_up()
        # The writer looks when it has indexed all that it wrote, however fast others write.
        memory, result = await ctx.write(keys.by_key, *about)
    return memory, result


@handles(methods.GrepRequest, without_ledger=True)
@handles(methods.GrepRequest)
async def grep(ctx: HandlerContext, request: methods.GrepRequest, call: IncomingCall) -> Result:
    indexes, has_ledger = ctx.indexes(request), ctx.stores.ledger.damage is None
    # In a thread: what somebody else wrote may take its time to be read.
    pattern = await ctx.read(Pattern, request.pattern, request.regex, request.case)
    most = request.max_results or MAX_ROWS
    query = grep_files.GrepQuery(pattern, request.context, most, request.path, request.after)
    async with ctx.expressions if request.regex else contextlib.nullcontext():
        look = ctx.read_elsewhere if has_ledger else ctx.read
        found = await look(grep_files.grep, indexes, query, ctx.max_bytes)
    blocks = found.blocks
    if has_ledger:
        # Who wrote the lines is known once they are indexed.
        await ctx.catch_up()
        blocks = await ctx.read(_with_authors, ctx, blocks)
    return {"blocks": blocks, "next": found.next, "skipped": found.skipped[:MAX_SKIPPED], "ns": namespaces(indexes),
            "took_ms": ctx.took_ms}  # fmt: skip


def _with_authors(ctx: HandlerContext, blocks: list[Result]) -> list[Result]:
    """Blocks with who wrote them."""
    reader, place = ctx.stores.reader, itemgetter("path", "start_line", "end_line")
    return [block | history.authors_at(reader, ctx.stores.index(block["ns"]).id, *place(block)) for block in blocks]


@handles(methods.ListRequest)
async def list_memories(ctx: HandlerContext, request: methods.ListRequest, call: IncomingCall) -> Result:
    page = (filters_of(request), request.sort, request.offset, request.limit or MAX_ROWS, request.preview)
    return await from_view(ctx, request, inventory.list_memories, *page)


@handles(methods.BusRequest)
async def bus(ctx: HandlerContext, request: methods.BusRequest, call: IncomingCall) -> Result:
    indexes, names = ctx.indexes(request), ctx.names(request)
    limit = (ctx.settings.search.limit if request.limit is None else request.limit) or MAX_HITS
    await ctx.catch_up(request.sync, names)
    args = (ctx.stores, indexes, request.query, filters_of(request), request.offset, limit)
    page = await ctx.read_elsewhere(inventory.ranked_entries, *args)
    if checked := not page["total"] and request.sync != "none":
        # Never an empty answer without a look at the files themselves.
        await ctx.scan(names)
        page = await ctx.read_elsewhere(inventory.ranked_entries, *args)
    return {**page, "checked": checked, "ns": list(names), "took_ms": ctx.took_ms}
