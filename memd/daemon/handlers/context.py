"""Context for a task: `context`, and the summaries that stand for others: `consolidate`, `expand`."""

from dataclasses import replace

from memd.config.schema import ContextSettings
from memd.daemon.handlers import memories, search
from memd.daemon.handlers.handler_context import filters_of
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles, shows
from memd.daemon.handlers.workspace_writer import workspace_writer
from memd.daemon.writer.tasks import ShownMemories
from memd.errors import Refused, in_shell
from memd.indexer.context.assemble import AssembledContext, ContextTask, assemble
from memd.indexer.lifecycle import edges
from memd.indexer.views import keys
from memd.lifecycle.lives import CONTAINS
from memd.models import Ask
from memd.notes import metadata, sections
from memd.protocol.methods.context import ConsolidateRequest, ContextRequest, ExpandRequest


@handles(ContextRequest)
async def context(ctx: HandlerContext, request: ContextRequest, call: IncomingCall) -> Result:
    settings = ctx.settings.search
    names = ctx.names(request)
    ask = Ask(request.query, names, filters=filters_of(request), fusion=settings.fusion, rrf_k=settings.rrf_k,
              all_tiers=request.all or settings.include_all, today=request.local_time().date())  # fmt: skip
    task = ContextTask(ask, request.budget, request.min_score, request.min_spread, *_limits(ctx, request))
    await ctx.catch_up(request.sync, names)
    if request.sync != "none":
        # A summary that was just written stands for its sources already.
        await ctx.link(ctx.indexes(request))
    # Without the model meaning is not heard and tokens are only estimated: the answer would be another one.
    await ctx.model_loaded()
    ready = await ctx.meaning_ready(request.query, names)
    assembled = await _assemble(ctx, task)
    # What does not wait for changes, as a hook, does not wait for this either.
    waits = not (ready or assembled.memories) and request.sync != "none"
    if waits and await ctx.meaning_made(request.query, names):
        assembled = await _assemble(ctx, task)
    if not assembled.memories and request.sync != "none":
        # Never a "nothing" without a look at the files themselves.
        await ctx.scan(names)
        assembled = await _assemble(ctx, task)
    if request.observer:
        ctx.access_log.saw(ShownMemories(request.observer, assembled.memories, together=True))
    return {"ns": list(names), **assembled.result}


def _limits(ctx: HandlerContext, request: ContextRequest) -> tuple[int, ContextSettings]:
    """How many tokens one memory may have, and how edges are followed: as asked, else as the settings say."""
    settings = ctx.settings.context
    tokens = settings.memory_tokens if request.memory_tokens is None else request.memory_tokens
    followed = replace(settings, edges=settings.edges and not request.no_edges)
    return tokens if tokens >= 0 else request.budget, followed


async def _assemble(ctx: HandlerContext, task: ContextTask) -> AssembledContext:
    assembled = await search.repairing_text(ctx, task.ask.ns, assemble, ctx.stores, task)
    ctx.answer.unheard = assembled.unheard
    return assembled


@handles(ConsolidateRequest)
async def consolidate(ctx: HandlerContext, request: ConsolidateRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    memories.check(request.key, request.text, {}, (), ctx.max_bytes)
    writer.refuse_secrets(request.text)
    await ctx.catch_up()
    target = await ctx.read(keys.existing_or_new, ctx.stores, writer.index, request.key, writer.layout)
    sources = request.sources
    if not await writer.repeated():
        sources = tuple(await ctx.read(edges.summary_sources, ctx.stores, writer.index, target, sources))

    def edit(text: str | None) -> str:
        facts = memories.facts_now(target, text, request.local_time(), {}, ())
        facts["links"] = _summary_links(target, text, sources)
        return sections.put(target.path, target.slug, text, request.text, facts)

    return {**await writer.edit_version("consolidate", target, edit), "sources": list(sources)}


def _summary_links(target: keys.KeyTarget, text: str | None, sources: tuple[str, ...]) -> list[str]:
    """The links of a summary: those that it had, but for what it contains, which is the sources."""
    before = sections.metadata_of(target.path, target.slug, text).links
    others = [entry for entry in before if (link := metadata.declared_link(entry)) is None or link.rel != CONTAINS]
    if len(others) == len(before) and text and sections.memory_in(target.path, text, target.slug) is not None:
        raise Refused(f"`{target.key}` is no summary, and its text would be replaced",
                      f"choose another key, or replace the text: memd put {in_shell(target.key)}")  # fmt: skip
    return [*others, *(metadata.entry_of(CONTAINS, source, None) for source in sources)]


shows(ExpandRequest, edges.expand, "key", linked=True)
