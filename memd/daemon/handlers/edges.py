"""Edges between memories: `edge.add`, `edge.rm`, `edge.list`, `edge.candidates`, `related` and `clusters`."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from sqlite3 import Connection, Row

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles, shows
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, edit_of, in_memory, workspace_writer
from memd.errors import NotFound, Refused, UsageError, in_shell
from memd.indexer.lifecycle import edges, mentions, similarity
from memd.indexer.views.keys import KeyTarget
from memd.lifecycle.lives import RELATED, Edge
from memd.models import Memory
from memd.notes import metadata, sections
from memd.protocol.methods import edges as methods

EMPTY = re.compile(r"\A---[ \t\r]*\n---[ \t\r]*\n(?:[ \t\r]*\n)?")
"""Front matter that declares nothing."""


@handles(methods.EdgeAddRequest)
async def edge_add(ctx: HandlerContext, request: methods.EdgeAddRequest, call: IncomingCall) -> Result:
    rel, writer = request.rel, workspace_writer(ctx, request)
    source, target = await _ends(writer, request.from_, request.to)
    if source.memory == target.memory:
        raise UsageError(f"`{request.from_}` cannot have an edge to itself")
    key, mentioned = await ctx.read(_key, writer, target), await ctx.read(_mentions, writer, source, target, rel)
    names = {metadata.folded(key), *(row["target"] for row in mentioned if row["memory"] == source.memory)}
    entry = metadata.entry_of(rel, key, request.weight)
    edit = _edit_links(source, lambda links: [*(kept for kept in links if not _declares(kept, rel, names)), entry])
    done = await writer.edit("edge.add", source, edit)
    await _edges_updated(writer)
    added = await ctx.read(_between, writer, source, target, rel)
    return {**done, "edge": next(iter(await ctx.read(_rows, writer, added)), None)}


@handles(methods.EdgeRmRequest)
async def edge_rm(ctx: HandlerContext, request: methods.EdgeRmRequest, call: IncomingCall) -> Result:
    rel, writer = request.rel, workspace_writer(ctx, request)
    source, target = await _ends(writer, request.from_, request.to)
    if await writer.repeated():
        return {**await writer.write("edge.rm", source.key), "removed": []}
    if not (found := await ctx.read(_between, writer, source, target, rel)):
        raise NotFound(f"there is no edge `{request.from_}` {rel} `{request.to}`",
                       await ctx.read(_other_edges, writer, source, target))  # fmt: skip
    removed = await ctx.read(_rows, writer, found)
    mentioned = await ctx.read(_mentions, writer, source, target, rel)
    declared = [row for row in mentioned if row["origin"] == "declared"]
    done = await (_undeclare(writer, source, target, rel, declared) if declared else _unlink(writer, source, found))
    return {**done, "removed": removed}


shows(methods.EdgeListRequest, edges.list_edges, "key", "rel", "min_weight", "limit", linked=True)
shows(methods.EdgeCandidatesRequest, edges.candidates, "limit", linked=True)
shows(methods.RelatedRequest, edges.related, "key", "depth", "min_weight", "limit", linked=True)
shows(methods.ClustersRequest, edges.clusters, "min", "min_weight", linked=True)


# --- what the ledger has of two memories ----------------------------------------------------------------------


async def _ends(writer: WorkspaceWriter, source: str, target: str) -> tuple[KeyTarget, KeyTarget]:
    await writer.ctx.link([writer.index])
    return await writer.target(source), await writer.target(target)


async def _edges_updated(writer: WorkspaceWriter) -> None:
    """Wait until the edges follow from what the files say now: the answer shows them."""
    await writer.ctx.applied()
    await writer.ctx.link([writer.index])


def _all_between(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget) -> list[Edge]:
    return edges.between(writer.ctx.stores.reader, source.number, target.number)


def _between(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str) -> list[Edge]:
    found = _all_between(writer, source, target)
    return [edge for edge in found if edge.rel == rel and (rel == RELATED or edge.one == source.memory)]


def _rows(writer: WorkspaceWriter, found: Sequence[Edge]) -> list[Result]:
    """Edges as results have them."""
    reader = writer.ctx.stores.reader
    names = edges.named(reader, writer.index.id, {end for edge in found for end in (edge.one, edge.other)})
    return edges.edge_rows(found, names)


def _other_edges(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget) -> str:
    """A hint that names the edges that there are."""
    rows = _rows(writer, _all_between(writer, source, target))
    there = ", ".join(f"{row['from']} {row['rel']} {row['to']}" for row in rows)
    return f"there is: {there}" if there else f"memd edge list {in_shell(source.key)}"


def _key(writer: WorkspaceWriter, target: KeyTarget) -> str:
    reader, workspace = writer.ctx.stores.reader, writer.index.id
    key = str(edges.named(reader, workspace, [target.number])[target.number]["key"])
    return edges.linkable(reader, workspace, target.number, key)


def _mentions(writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str) -> list[Row]:
    """The mentions that make this edge, whichever of the two has them."""
    return mentions.between(writer.ctx.stores.reader, source.number, target.number, rel)


# --- what the files declare -----------------------------------------------------------------------------------


def _edit_links(target: KeyTarget, change: Callable[[tuple[str, ...]], list[str]]) -> Callable[[str | None], str]:
    """An edit that changes the links of one memory; those of the file's front matter count as its own."""

    def edit(text: str, memory: Memory) -> str:
        return sections.with_metadata(target.path, target.slug, text, {"links": change(memory.declared.links)})

    return in_memory(target, edit)


def _declares(entry: str, rel: str, names: set[str]) -> bool:
    link = metadata.declared_link(entry)
    return link is not None and link.rel == rel and link.target in names


async def _undeclare(
    writer: WorkspaceWriter, source: KeyTarget, target: KeyTarget, rel: str, declared: Sequence[Row]
) -> Result:
    """Take an edge out of the files that declare it."""
    ends = [(end, {row["target"] for row in declared if row["memory"] == end.memory}) for end in (source, target)]
    changes = [edit_of(end, _without(end, rel, names)) for end, names in ends if names]
    done = await writer.write("edge.rm", source.key, *changes)
    await _edges_updated(writer)
    if rel == RELATED:
        pair = writer.index.id, source.number, target.number
        await writer.ctx.write(writer.ctx.stores.ledger.transact, similarity.refuse, *pair, datetime.now(UTC))
    return done


def _without(end: KeyTarget, rel: str, names: set[str]) -> Callable[[str | None], str]:
    change = _edit_links(end, lambda links: [entry for entry in links if not _declares(entry, rel, names)])

    def edit(text: str | None) -> str:
        # Front matter that only edges had made necessary goes with the last of them.
        edited = EMPTY.sub("", change(text))
        left = sections.memory_in(end.path, edited, end.slug)
        if left is not None and any(_declares(entry, rel, names) for entry in left.declared.links):
            raise Refused(f"the front matter of {end.path} declares it for every memory of the file", "edit it there")
        return edited

    return edit


async def _unlink(writer: WorkspaceWriter, source: KeyTarget, found: Sequence[Edge]) -> Result:
    """Take away what nobody declared: the ledger remembers it, and no pass makes it again."""

    def remove(connection: Connection, action: int) -> Result:
        edges.remove(connection, action, found)
        return {"removed": len(found)}

    return await writer.act("edge.rm", source.key, remove)
