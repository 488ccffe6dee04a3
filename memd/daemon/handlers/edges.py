"""What belongs together: `edge.add`, `edge.rm`, `edge.list`, `related`, `clusters` and `edge_candidates`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from sqlite3 import Row
from typing import Any

from memd.daemon import linking
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.hand import Hand, hand
from memd.daemon.handlers.keyed import edit_of, needed, repeated, untouched
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, Refused, UsageError
from memd.indexer.actions.writing import Change
from memd.indexer.living import edges, related
from memd.indexer.store.stores import Shelf
from memd.indexer.views import keys
from memd.indexer.views.keys import Target
from memd.lifecycle.edges import RELATED, Edge
from memd.models import RELATIONS
from memd.notes import revise
from memd.notes.links import declared_link, entry_of, folded

MOST = 1_000
DEEPEST = 3
EMPTY = re.compile(r"\A---[ \t\r]*\n---[ \t\r]*\n(?:[ \t\r]*\n)?")
"""Front matter that declares nothing."""


async def add(desk: Desk, params: Params, tell: Tell) -> Result:
    one, rel, other = params.text("from"), params.choice("rel", tuple(RELATIONS), RELATED), params.text("to")
    weight, writer = params.share("weight"), hand(desk, params)
    params.done()
    source, target = await _ends(writer, "edge.add", one, other)
    if source.memory == target.memory:
        raise UsageError(f"`{one}` cannot have an edge to itself")
    said, key = await desk.read(_said, writer, source, target, rel), await desk.read(_key, writer, target)
    names = {folded(key), *(row["target"] for row in said if row["memory"] == source.memory)}
    entry = entry_of(rel, key, weight)
    change = _links(source, lambda links: [*(kept for kept in links if not _says(kept, rel, names)), entry])
    done = await writer.write("edge.add", source.key, Change(source.path, edit=edit_of(source, change)))
    await _follow(writer)
    found = await desk.read(_between, writer, source, target, rel)
    return {**done, "edge": next(iter(await desk.read(_told, writer, found)), None)}


async def rm(desk: Desk, params: Params, tell: Tell) -> Result:
    one, rel, other = params.text("from"), params.choice("rel", tuple(RELATIONS), RELATED), params.text("to")
    writer = hand(desk, params)
    params.done()
    source, target = await _ends(writer, "edge.rm", one, other)
    if await repeated(writer):
        return {**await writer.write("edge.rm", source.key), "removed": []}
    found = await desk.read(_between, writer, source, target, rel)
    if not found:
        raise NotFound(f"there is no edge `{one}` {rel} `{other}`", await desk.read(_others, writer, source, target))
    told = await desk.read(_told, writer, found)
    said = [row for row in await desk.read(_said, writer, source, target, rel) if row["origin"] == "declared"]
    done = await (_undeclare(writer, source, target, rel, said) if said else _unlink(writer, source, found))
    return {**done, "removed": told}


async def listed(desk: Desk, params: Params, tell: Tell) -> Result:
    key, rel = params.text("key"), params.choice("rel", ("", *RELATIONS), "")
    least, limit = params.share("min_weight") or 0.0, params.number("limit", MOST, 1, MOST)
    shelves = desk.shelves(params)
    params.done()
    await linked(desk, shelves)
    found = await desk.read(related.listed, desk.parts.stores, shelves, key, rel, least, limit)
    return {"ns": _names(shelves), "edges": found}


async def near(desk: Desk, params: Params, tell: Tell) -> Result:
    key, depth = params.text("key"), params.number("depth", 1, 1, DEEPEST)
    least, limit = params.share("min_weight") or 0.0, params.number("limit", 50, 1, MOST)
    shelves = desk.shelves(params)
    params.done()
    needed("related", key=key)
    await linked(desk, shelves)
    return await desk.read(related.related, desk.parts.stores, shelves, key, depth, least, limit)


async def clusters(desk: Desk, params: Params, tell: Tell) -> Result:
    least, weight = params.number("min", 3, 2, MOST), params.share("min_weight")
    shelves = desk.shelves(params)
    params.done()
    await linked(desk, shelves)
    wanted = related.GROUPED if weight is None else weight
    found = await desk.read(related.clusters, desk.parts.stores, shelves, least, wanted)
    return {"ns": _names(shelves), "min_weight": wanted, "clusters": found}


async def candidates(desk: Desk, params: Params, tell: Tell) -> Result:
    limit, shelves = params.number("limit", 20, 1, MOST), desk.shelves(params)
    params.done()
    await linked(desk, shelves)
    found = await desk.read(related.candidates, desk.parts.stores, shelves, limit)
    return {"ns": _names(shelves), "relations": RELATIONS, "candidates": found}


# --- who is meant ---------------------------------------------------------------------------------------------


async def _ends(writer: Hand, method: str, one: str, other: str) -> tuple[Target, Target]:
    needed(method, **{"from": one, "to": other})
    await writer.desk.catch_up("auto", ())
    await linked(writer.desk, [writer.shelf])
    stores, shelf = writer.desk.parts.stores, writer.shelf
    return (
        await writer.desk.read(keys.existing, stores, shelf, one),
        await writer.desk.read(keys.existing, stores, shelf, other),
    )


def _names(shelves: Sequence[Shelf]) -> list[str]:
    return [shelf.workspace.ns for shelf in shelves]


async def linked(desk: Desk, shelves: Sequence[Shelf]) -> None:
    """What was just saved counts: its mentions are looked up before anyone is told of edges."""
    await desk.catch_up("auto", ())
    for shelf in shelves:
        if shelf.unlinked:
            await asyncio.wrap_future(desk.parts.worker.submit(linking.Resolve(shelf.workspace.ns)))


async def _follow(writer: Hand) -> None:
    """The answer tells of the edge: it waits until the ledger has what the file says now."""
    await asyncio.wrap_future(writer.desk.parts.worker.applied())
    await linked(writer.desk, [writer.shelf])


def _between(writer: Hand, source: Target, target: Target, rel: str) -> list[Edge]:
    assert source.memory is not None and target.memory is not None
    found = edges.between(writer.desk.parts.stores.ledger.reader, source.memory, target.memory)
    return [edge for edge in found if edge.rel == rel and (rel == RELATED or edge.one == source.memory)]


def _told(writer: Hand, found: Sequence[Edge]) -> list[Result]:
    reader = writer.desk.parts.stores.ledger.reader
    names = edges.named(reader, writer.shelf.id, {end for edge in found for end in (edge.one, edge.other)})
    return edges.told(found, names)


def _others(writer: Hand, source: Target, target: Target) -> str:
    assert source.memory is not None and target.memory is not None
    found = edges.between(writer.desk.parts.stores.ledger.reader, source.memory, target.memory)
    there = ", ".join(f"{told['from']} {told['rel']} {told['to']}" for told in _told(writer, found))
    return f"there is: {there}" if there else f"memd edge list {source.key}"


def _key(writer: Hand, target: Target) -> str:
    assert target.memory is not None
    reader = writer.desk.parts.stores.ledger.reader
    return str(edges.named(reader, writer.shelf.id, [target.memory])[target.memory]["key"])


def _said(writer: Hand, source: Target, target: Target, rel: str) -> list[Row]:
    """The mentions that say this edge, whichever of the two has them."""
    return writer.desk.parts.stores.ledger.reader.execute(
        "SELECT memory, target, origin FROM mentions WHERE rel = ?3 AND ((memory = ?1 AND found = ?2)"
        " OR (?4 AND memory = ?2 AND found = ?1))",
        (source.memory, target.memory, rel, rel == RELATED),
    ).fetchall()


# --- what is declared -----------------------------------------------------------------------------------------


def _links(target: Target, change: Callable[[tuple[str, ...]], list[str]]) -> Callable[[str | None], str]:
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


async def _undeclare(writer: Hand, source: Target, target: Target, rel: str, said: Sequence[Row]) -> Result:
    """Take an edge out of the files that declare it."""
    changes = []
    for end in (source, target):
        names = {row["target"] for row in said if row["memory"] == end.memory}
        if names:
            changes.append(Change(end.path, edit=edit_of(end, _without(end, rel, names))))
    done = await writer.write("edge.rm", source.key, *changes)
    await _follow(writer)
    if rel == RELATED:
        assert source.memory is not None and target.memory is not None
        refuse = linking.Refuse(writer.shelf.workspace.ns, source.memory, target.memory)
        await asyncio.wrap_future(writer.desk.parts.worker.submit(refuse))
    return done


def _without(end: Target, rel: str, names: set[str]) -> Callable[[str | None], str]:
    change = _links(end, lambda links: [entry for entry in links if not _says(entry, rel, names)])

    def edit(text: str | None) -> str:
        # What edges alone had made necessary goes with the last of them.
        made = EMPTY.sub("", change(text))
        left = revise.memory_in(end.path, made, end.slug)
        if left is not None and any(_says(entry, rel, names) for entry in left.declared.links):
            raise Refused(f"the front matter of {end.path} declares it for every memory of the file", "edit it there")
        return made

    return edit


async def _unlink(writer: Hand, source: Target, found: Sequence[Edge]) -> Result:
    """Take away what nobody declared: the ledger remembers it, and no pass makes it again."""
    task = linking.Unlink(writer.shelf.workspace.ns, writer.who, source.key, tuple(found), writer.request)
    action = await asyncio.wrap_future(writer.desk.parts.worker.submit(task))
    return {**untouched(writer, source.key), "action": action}
