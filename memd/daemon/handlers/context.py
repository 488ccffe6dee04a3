"""What an agent should know for a task: `context`, and the summaries that stand for others: `consolidate`, `expand`."""

from __future__ import annotations

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.edges import linked
from memd.daemon.handlers.memories import KeyedWrite, check, edit_of, facts_now, version
from memd.daemon.handlers.registry import handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, workspace_writer
from memd.daemon.server import IncomingCall
from memd.errors import Refused, StoreBroken
from memd.indexer.context.assemble import assemble
from memd.indexer.context.inputs import ContextTask
from memd.indexer.context.render import AssembledContext
from memd.indexer.lifecycle import summaries
from memd.indexer.views import keys
from memd.indexer.views.keys import KeyTarget
from memd.indexer.writing.write_files import FileChange
from memd.lifecycle.edges import CONTAINS
from memd.models import Ask
from memd.notes import revise
from memd.notes.links import declared_link, entry_of
from memd.protocol.methods.context import ConsolidateRequest, ContextRequest, ExpandRequest


@handles(ContextRequest)
async def context(ctx: HandlerContext, request: ContextRequest, call: IncomingCall) -> Result:
    settings = ctx.parts.settings.search
    names = ctx.names(request)
    ask = Ask(request.query, names, filters=request.filters, fusion=settings.fusion, rrf_k=settings.rrf_k)
    task = ContextTask(ask, request.budget, request.min_score, request.min_spread)
    await ctx.catch_up(request.sync, names)
    if request.sync != "none":
        # A summary that was just written stands for its sources already.
        await linked(ctx, ctx.indexes(request))
    # Without the model meaning is not heard and tokens are only estimated: the answer would be another one.
    await ctx.model_loaded()
    made = await _assembled(ctx, task)
    if not made.memories and request.sync != "none":
        # Never a "nothing" without a look at the files themselves.
        await ctx.scan(names)
        made = await _assembled(ctx, task)
    if request.observer:
        ctx.parts.access_log.saw(made.memories, request.observer, together=True)
    return {"ns": list(names), **made.told}


async def _assembled(ctx: HandlerContext, task: ContextTask) -> AssembledContext:
    """Assemble it; a text index that turns out to be torn is made again first."""
    try:
        return await ctx.read(assemble, ctx.stores, task)
    except StoreBroken:
        for ns in task.ask.ns:
            await ctx.run(tasks.RenewText(ns))
        return await ctx.read(assemble, ctx.stores, task)


@handles(ConsolidateRequest)
async def consolidate(ctx: HandlerContext, request: ConsolidateRequest, call: IncomingCall) -> Result:
    wish, writer = KeyedWrite(request.key, request.text, request.local_time()), workspace_writer(ctx, request)
    check(wish, ctx.max_bytes)
    writer.may_hold(request.text)
    await ctx.catch_up("auto", ())
    target, sources = await ctx.read(keys.wanted, ctx.stores, writer.index, request.key, writer.layout), request.sources
    if not await writer.repeated():
        sources = tuple(await ctx.read(summaries.sources, ctx.stores, writer.index, target, sources))
    return await _consolidated(writer, wish, target, sources)


async def _consolidated(
    writer: WorkspaceWriter, wish: KeyedWrite, target: KeyTarget, sources: tuple[str, ...]
) -> Result:
    written: list[str | None] = []

    def change(text: str | None) -> str:
        had = revise.declared_here(target.path, target.slug, text).links
        others = [entry for entry in had if (link := declared_link(entry)) is None or link.rel != CONTAINS]
        if len(others) == len(had) and text and revise.memory_in(target.path, text, target.slug) is not None:
            raise Refused(f"`{target.key}` is no summary, and its text would be replaced",
                          f"choose another key; or say it yourself: memd put {target.key}")  # fmt: skip
        links = [*others, *(entry_of(CONTAINS, source, None) for source in sources)]
        facts = {**facts_now(wish, target, text), "links": links}
        made = revise.put(target.path, target.slug, text, wish.text, facts)
        written[:] = [keys.digest_in(target, made)]
        return made

    done = await writer.write("consolidate", target.key, FileChange(target.path, edit=edit_of(target, change)))
    return {**done, "sources": list(sources), "version": await version(writer, target, written)}


@handles(ExpandRequest)
async def expand(ctx: HandlerContext, request: ExpandRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await linked(ctx, indexes)
    if request.key:
        return await ctx.read(summaries.children, ctx.stores, indexes, request.key)
    return {"ns": ctx.namespaces(indexes), "summaries": await ctx.read(summaries.summaries, ctx.stores, indexes)}
