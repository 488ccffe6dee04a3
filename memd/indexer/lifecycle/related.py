"""Answers what belongs together: edges listed and followed, groups of memories, pairs that have no type yet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from memd.indexer.lifecycle import edges
from memd.indexer.lifecycle.similarity import LINK
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import get
from memd.lifecycle.clusters import components, summary_of
from memd.lifecycle.edges import RELATED, Edge, ReachedMemory, reach

GROUPED = LINK
"""The weight from which an edge holds a group together: memories that are alike, not those that share a tag."""

Told = dict[str, Any]


def listed(
    stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, rel: str, least: float, limit: int
) -> list[Told]:
    """The edges of one memory, or of some workspaces, the strongest first."""
    connection, found = stores.ledger.reader, list[Told]()
    where, row = get.named(stores, indexes, key) if key else (None, None)
    for index in indexes if where is None else [where]:
        if row is not None:
            some = edges.of(connection, [row["id"]], rel=rel, least=least)[:limit]
        else:
            some = edges.all_of(connection, index.id, rel=rel, least=least, most=limit)
        names = edges.named(connection, index.id, _ends(some))
        found += [{"ns": index.workspace.ns, **told} for told in edges.told(some, names)]
    return sorted(found, key=lambda told: -told["weight"])[:limit]


def related(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, depth: int, least: float, limit: int) -> Told:
    """The memories that edges lead to from one, each with the way there; the nearest and strongest first."""
    connection = stores.ledger.reader
    index, row = get.named(stores, indexes, key)
    ways = reach(row["id"], partial(edges.of, connection, least=least), depth)[:limit]
    names = edges.named(connection, index.id, {row["id"], *_ends([edge for way in ways for edge in way.path])})
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "key": names[row["id"]]["key"],
        "memories": [_reached(way, names) for way in ways if way.memory in names],
    }


def _reached(way: ReachedMemory, names: dict[int, Told]) -> Told:
    steps = edges.told(way.path, names)
    brief = [{name: step[name] for name in ("from", "rel", "to", "weight")} for step in steps]
    return {**names[way.memory], "weight": round(way.weight, 4), "way": brief}


def clusters(stores: Stores, indexes: Sequence[WorkspaceIndex], least: int, weight: float) -> list[Told]:
    """Groups of memories that are held together by edges, the largest first; without a summary they want one."""
    return sorted(
        (told for index in indexes for told in _clusters(stores, index, least, weight)),
        key=lambda told: (-told["size"], told["ns"], told["memories"][0]["key"]),
    )


def _clusters(stores: Stores, index: WorkspaceIndex, least: int, weight: float) -> list[Told]:
    connection = stores.ledger.reader
    ties = edges.all_of(connection, index.id, rel=RELATED, least=weight)
    groups = components(((tie.one, tie.other) for tie in ties), least)
    contained = edges.contained(connection, index.id) if groups else {}
    summaries = {group: summary_of(group, contained) for group in groups}
    numbers = {memory for group in groups for memory in group}
    names = edges.named(connection, index.id, numbers | {one for one in summaries.values() if one is not None})
    return [
        {
            "ns": index.workspace.ns,
            "size": len(group),
            "summary": names[summary]["key"] if summary in names else None,
            "wants_summary": summary is None,
            "memories": sorted((names[memory] for memory in group if memory in names), key=_place),
        }
        for group, summary in summaries.items()
    ]


def _place(told: Told) -> tuple[str, int]:
    return (told["path"], told["start_line"])


def candidates(stores: Stores, indexes: Sequence[WorkspaceIndex], limit: int) -> list[Told]:
    """Pairs that belong together without its being said how, with the beginning of both texts."""
    connection, found = stores.ledger.reader, list[Told]()
    for index in indexes:
        some = edges.untyped(connection, index.id, limit)
        names = edges.named(connection, index.id, _ends(some))
        texts = edges.excerpts(connection, _ends(some))
        for edge in some:
            one, other = (
                {**{name: names[end][name] for name in ("key", "path", "heading")}, "text": texts.get(end, "")}
                for end in (edge.one, edge.other)
            )
            told = {"from": one, "to": other, "weight": round(edge.weight, 4), "origin": edge.origin}
            found.append({"ns": index.workspace.ns, **told})
    return sorted(found, key=lambda told: -told["weight"])[:limit]


def _ends(some: Sequence[Edge]) -> set[int]:
    return {end for edge in some for end in (edge.one, edge.other)}
