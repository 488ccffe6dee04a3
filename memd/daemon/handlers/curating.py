"""What people and agents decide about memories: `consolidate`, `expand` and `curate`."""

from __future__ import annotations

import asyncio
import json
from sqlite3 import Row
from typing import Any

from memd.daemon import lifecycle
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.edges import linked
from memd.daemon.handlers.keyed import ANY, KeyedWrite, check, edit_of, facts_now, needed, repeated, untouched, version
from memd.daemon.handlers.write_request import WriteRequest, write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Refused, UsageError
from memd.indexer.lifecycle import summaries
from memd.indexer.views import get, keys
from memd.indexer.views.keys import KeyTarget
from memd.indexer.writing.write_files import FileChange
from memd.lifecycle import curation
from memd.lifecycle.edges import CONTAINS
from memd.lifecycle.lives import BASE
from memd.notes import revise
from memd.notes.links import declared_link, entry_of

# --- summaries ----------------------------------------------------------------------------------------------


async def consolidate(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, text, sources = params.text("key"), params.text("text"), params.texts("sources")
    wish, writer = KeyedWrite(key, text, params.moment("now"), ANY), write_request(ctx, params)
    params.done()
    check(wish, ctx.parts.worker.max_bytes)
    writer.may_hold(text)
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.wanted, ctx.parts.stores, writer.index, key, writer.layout)
    if not await repeated(writer):
        sources = tuple(await ctx.read(summaries.sources, ctx.parts.stores, writer.index, target, sources))
    return await _consolidated(writer, wish, target, sources)


async def _consolidated(writer: WriteRequest, wish: KeyedWrite, target: KeyTarget, sources: tuple[str, ...]) -> Result:
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


async def expand(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, names = params.text("key"), ctx.names(params)
    params.done()
    indexes = [ctx.parts.stores.index(ns) for ns in names]
    await linked(ctx, indexes)
    if key:
        return await ctx.read(summaries.children, ctx.parts.stores, indexes, key)
    return {"ns": list(names), "summaries": await ctx.read(summaries.summaries, ctx.parts.stores, indexes)}


# --- one memory ---------------------------------------------------------------------------------------------


async def curate(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, verb, writer = params.text("key"), params.text("verb"), write_request(ctx, params)
    params.done()
    needed("curate", key=key, verb=verb)
    if verb not in curation.VERBS:
        raise UsageError(f"`verb` must be one of {', '.join(curation.VERBS)}, not {verb!r}")
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.existing, ctx.parts.stores, writer.index, key)
    _, row = await ctx.read(get.named, ctx.parts.stores, [writer.index], key)
    done = await (_moved if verb in curation.MOVES else _declared)(writer, target, row, verb)
    return {**done, "verb": verb}


async def _moved(writer: WriteRequest, target: KeyTarget, row: Row, verb: str) -> Result:
    tier, after = row["tier"], curation.tier_after(verb, row["tier"], row["home"])
    again = await repeated(writer)
    if verb != "promote" and json.loads(row["declared"]).get("pinned") and not again:
        raise Refused(f"`{target.key}` is pinned, so it stays at hand", f"memd curate {target.key} unpin")
    if tier == after and not again:
        return {**untouched(writer, target.key), **_told("tier", tier, tier)}
    ns, parts = writer.index.workspace.ns, writer.ctx.parts
    move = lifecycle.MoveTiers(
        ns, f"curate {verb}", writer.who, target.key, ((row["id"], after, verb),), writer.request
    )
    action, _ = await asyncio.wrap_future(parts.worker.submit(move))
    told = _told("tier", tier, tier if again else after)
    return {**untouched(writer, target.key), **told, "action": action, "repeated": again}


async def _declared(writer: WriteRequest, target: KeyTarget, row: Row, verb: str) -> Result:
    fact, facts = curation.fact_of(verb), json.loads(row["declared"])
    before = bool(facts.get("pinned")) if fact == "pinned" else _importance(facts.get("importance"))
    changes: list[Any] = [before, before]

    def change(text: str | None) -> str:
        memory = revise.memory_in(target.path, text or "", target.slug)
        if memory is None or text is None:
            raise KeyError(target.slug)
        changes[0] = getattr(memory.declared, fact) if fact == "pinned" else _importance(memory.declared.importance)
        changes[1] = curation.fact_after(verb, changes[0])
        if verb == "unpin" and changes[0] and not revise.declared_here(target.path, target.slug, text).pinned:
            raise Refused(f"`{target.key}` is pinned by the front matter of {target.path}", "unpin it there")
        return revise.declare(target.path, target.slug, text, {fact: changes[1]})

    if curation.fact_after(verb, before) == before and not await repeated(writer):
        return {**untouched(writer, target.key), **_told(fact, before, before)}
    done = await writer.write(f"curate {verb}", target.key, FileChange(target.path, edit=edit_of(target, change)))
    await writer.ctx.catch_up("auto", ())
    return {**done, **_told(fact, *changes)}


def _importance(declared: float | None) -> float:
    return BASE if declared is None else declared


def _told(what: str, before: Any, after: Any) -> Result:
    return {"what": what, "before": before, "after": after, "changed": before != after}
