"""What belongs together: `edge.add`, `edge.rm`, `edge.list`, `edge.candidates`, `related` and `clusters`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from sqlite3 import Row
from typing import Any

from memd.daemon import edge_updates
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.memories import edit_of
from memd.daemon.handlers.registry import handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, workspace_writer
from memd.daemon.server import IncomingCall
from memd.errors import NotFound, Refused, UsageError
from memd.indexer.lifecycle import edges, related
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys
from memd.indexer.views.keys import KeyTarget
from memd.indexer.writing.write_files import FileChange
from memd.lifecycle.edges import RELATED, Edge
from memd.models import RELATIONS
from memd.notes import revise
from memd.notes.links import declared_link, entry_of, folded
from memd.protocol.methods.edges import (
    ClustersRequest,
    EdgeAddRequest,
    EdgeCandidatesRequest,
    EdgeListRequest,
    EdgeRmRequest,
    RelatedRequest,
)

EMPTY = re.compile(r"\A---[ \t\r]*\n---[ \t\r]*\n(?:[ \t\r]*\n)?")
"""Front matter that declares nothing."""


@handles(EdgeAddRequest)
async def edge_add(ctx: HandlerContext, request: EdgeAddRequest, call: IncomingCall) -> Result:
    rel, writer = request.rel, workspace_writer(ctx, request)
    source, target = await _ends(writer, request.from_, request.to)
    if source.memory == target.memory:
        raise UsageError(f"`{request.from_}` cannot have an edge to itself")
    said, key = await ctx.read(_said, writer, source, target, rel), await ctx.read(_key, writer, target)
    names = {folded(key), *(row["target"] for row in said if row["memory"] == source.memory)}
    entry = entry_of(rel, key, request.weight)
    change = _links(source, lambda links: [*(kept for kept in links if not _says(kept, rel, names)), entry])
    done = await writer.write("edge.add", source.key, FileChange(source.path, edit=edit_of(source, change)))
    await _follow(writer)
    found = await ctx.read(_between, writer, source, target, rel)
    return {**done, "edge": next(iter(await ctx.read(_told, writer, found)), None)}


@handles(EdgeRmRequest)
async def edge_rm(ctx: HandlerContext, request: EdgeRmRequest, call: IncomingCall) -> Result:
    rel, writer = request.rel, workspace_writer(ctx, request)
    source, target = await _ends(writer, request.from_, request.to)
    if await writer.repeated():
        return {**await writer.write("edge.rm", source.key), "removed": []}
    found = await ctx.read(_between, writer, source, target, rel)
    if not found:
        no_edge = f"there is no edge `{request.from_}` {rel} `{request.to}`"
        raise NotFound(no_edge, await ctx.read(_others, writer, source, target))
    told = await ctx.read(_told, writer, found)
    said = [row for row in await ctx.read(_said, writer, source, target, rel) if row["origin"] == "declared"]
    done = await (_undeclare(writer, source, target, rel, said) if said else _unlink(writer, source, found))
    return {**done, "removed": told}


@handles(EdgeListRequest)
async def edge_list(ctx: HandlerContext, request: EdgeListRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await linked(ctx, indexes)
    wanted = (request.key, request.rel or "", request.min_weight, request.limit)
    return {"ns": ctx.namespaces(indexes), "edges": await ctx.read(related.listed, ctx.stores, indexes, *wanted)}


@handles(EdgeCandidatesRequest)
async def edge_candidates(ctx: HandlerContext, request: EdgeCandidatesRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await linked(ctx, indexes)
    found = await ctx.read(related.candidates, ctx.stores, indexes, request.limit)
    return {"ns": ctx.namespaces(indexes), "relations": RELATIONS, "candidates": found}


@handles(RelatedRequest)
async def related_memories(ctx: HandlerContext, request: RelatedRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await linked(ctx, indexes)
    wanted = (request.key, request.depth, request.min_weight, request.limit)
    return await ctx.read(related.related, ctx.stores, indexes, *wanted)


@handles(ClustersRequest)
async def clusters(ctx: HandlerContext, request: ClustersRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await linked(ctx, indexes)
    found = await ctx.read(related.clusters, ctx.stores, indexes, request.min, request.min_weight)
    return {"ns": ctx.namespaces(indexes), "min_weight": request.min_weight, "clusters": found}


# --- who is meant ---------------------------------------------------------------------------------------------


async def _ends(writer: WorkspaceWriter, one: str, other: str) -> tuple[KeyTarget, KeyTarget]:
    await writer.ctx.catch_up("auto", ())
    await linked(writer.ctx, [writer.index])
    stores, index = writer.ctx.stores, writer.index
    return (
        await writer.ctx.read(keys.existing, stores, index, one),
        await writer.ctx.read(keys.existing, stores, index, other),
    )


async def linked(ctx: HandlerContext, indexes: Sequence[WorkspaceIndex]) -> None:
    """What was just saved counts: its mentions are looked up before anyone is told of edges."""
    await ctx.catch_up("auto", ())
    for index in indexes:
        if index.unlinked:
            await ctx.run(edge_updates.ResolveMentions(index.workspace.ns))


async def _follow(writer: WorkspaceWriter) -> None:
    """The answer tells of the edge: it waits until the ledger has what the file says now."""
    await asyncio.wrap_future(writer.ctx.parts.worker.applied())
    await linked(writer.ctx, [writer.index])


def _between(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str) -> list[Edge]:
    assert source.memory is not None and target.memory is not None
    found = edges.between(writer.ctx.stores.ledger.reader, source.memory, target.memory)
    return [edge for edge in found if edge.rel == rel and (rel == RELATED or edge.one == source.memory)]


def _told(writer: WorkspaceWriter, found: Sequence[Edge]) -> list[Result]:
    reader = writer.ctx.stores.ledger.reader
    names = edges.named(reader, writer.index.id, {end for edge in found for end in (edge.one, edge.other)})
    return edges.told(found, names)


def _others(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget) -> str:
    assert source.memory is not None and target.memory is not None
    found = edges.between(writer.ctx.stores.ledger.reader, source.memory, target.memory)
    there = ", ".join(f"{told['from']} {told['rel']} {told['to']}" for told in _told(writer, found))
    return f"there is: {there}" if there else f"memd edge list {source.key}"


def _key(writer: WorkspaceWriter, target: KeyTarget) -> str:
    assert target.memory is not None
    reader = writer.ctx.stores.ledger.reader
    return str(edges.named(reader, writer.index.id, [target.memory])[target.memory]["key"])


def _said(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str) -> list[Row]:
    """The mentions that say this edge, whichever of the two has them."""
    return writer.ctx.stores.ledger.reader.execute(
        "SELECT memory, target, origin FROM mentions WHERE rel = ?3 AND ((memory = ?1 AND found = ?2)"
        " OR (?4 AND memory = ?2 AND found = ?1))",
        (source.memory, target.memory, rel, rel == RELATED),
    ).fetchall()


# --- what is declared -----------------------------------------------------------------------------------------


def _links(target: KeyTarget, change: Callable[[tuple[str, ...]], list[str]]) -> Callable[[str | None], str]:
    """An edit of a file that changes the links of one memory; those of the file's front matter count as its own."""

    def edit(text: str | None) -> str:
        memory = revise.memory_in(target.path, text or "", target.slug)
        if text is None or memory is None:
            raise KeyError(target.slug)
        facts: dict[str, Any] = {"links": change(memory.declared.links)}
        return revise.declare(target.path, target.slug, text, facts)

    return edit


def _says(entry: str, rel: str, names: set[str]) -> bool:
    link = declared_link(entry)
    return link is not None and link.rel == rel and link.target in names


async def _undeclare(
    writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str, said: Sequence[Row]
) -> Result:
    """Take an edge out of the files that declare it."""
    changes = []
    for end in (source, target):
        names = {row["target"] for row in said if row["memory"] == end.memory}
        if names:
            changes.append(FileChange(end.path, edit=edit_of(end, _without(end, rel, names))))
    done = await writer.write("edge.rm", source.key, *changes)
    await _follow(writer)
    if rel == RELATED:
        assert source.memory is not None and target.memory is not None
        refuse = edge_updates.RefuseEdge(writer.index.workspace.ns, source.memory, target.memory)
        await writer.ctx.run(refuse)
    return done


def _without(end: KeyTarget, rel: str, names: set[str]) -> Callable[[str | None], str]:
    change = _links(end, lambda links: [entry for entry in links if not _says(entry, rel, names)])

    def edit(text: str | None) -> str:
        # What edges alone had made necessary goes with the last of them.
        made = EMPTY.sub("", change(text))
        left = revise.memory_in(end.path, made, end.slug)
        if left is not None and any(_says(entry, rel, names) for entry in left.declared.links):
            raise Refused(f"the front matter of {end.path} declares it for every memory of the file", "edit it there")
        return made

    return edit


async def _unlink(writer: WorkspaceWriter, source: KeyTarget, found: Sequence[Edge]) -> Result:
    """Take away what nobody declared: the ledger remembers it, and no pass makes it again."""
    task = edge_updates.RemoveEdges(writer.index.workspace.ns, writer.who, source.key, tuple(found), writer.request)
    action = await writer.ctx.run(task)
    return {**writer.untouched(source.key), "action": action}
