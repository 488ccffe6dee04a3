"""What is related: edges listed and followed, clusters, summaries, and pairs without a relation type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.errors import UsageError
from memd.indexer.lifecycle import edges
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import inventory, keys
from memd.lifecycle.edges import CONTAINS, RELATED, Edge, ReachedMemory, components, reach, summary_of
from memd.models import RELATIONS, Filters, Relation

FEWEST = 2
"""A summary of one memory is another version of it."""

EdgeRow = dict[str, Any]


def list_edges(
    stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, rel: Relation | None, least: float, limit: int
) -> dict[str, Any]:
    """The edges of one memory, or of some workspaces, the strongest first."""
    connection, rows = stores.ledger.reader, list[EdgeRow]()
    if key:
        index, row = keys.find_memory(stores, indexes, key)
        found = [(index, edges.of(connection, [row["id"]], rel=rel, least=least)[:limit])]
    else:
        found = [(index, edges.all_of(connection, index.id, rel=rel, least=least, most=limit)) for index in indexes]
    for index, some in found:
        names = edges.named(connection, index.id, _ends(some))
        rows += [{"ns": index.workspace.ns, **row} for row in edges.edge_rows(some, names)]
    return {"edges": _strongest(rows, limit)}


def _strongest(rows: Iterable[EdgeRow], limit: int) -> list[EdgeRow]:
    return sorted(rows, key=lambda row: -row["weight"])[:limit]


def _ends(some: Iterable[Edge]) -> set[int]:
    return {end for edge in some for end in (edge.one, edge.other)}


def related(
    stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, depth: int, least: float, limit: int
) -> dict[str, Any]:
    """The memories that edges lead to from one, each with the path; the nearest and strongest first."""
    connection = stores.ledger.reader
    index, row = keys.find_memory(stores, indexes, key)
    ways = reach(row["id"], partial(edges.of, connection, least=least), depth)[:limit]
    names = edges.named(connection, index.id, {row["id"], *_ends(edge for way in ways for edge in way.path)})
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "key": names[row["id"]]["key"],
        "memories": [_reached_row(way, names) for way in ways if way.memory in names],
    }


def _reached_row(way: ReachedMemory, names: dict[int, dict[str, Any]]) -> dict[str, Any]:
    steps = edges.edge_rows(way.path, names)
    brief = [{name: step[name] for name in ("from", "rel", "to", "weight")} for step in steps]
    return {**names[way.memory], "weight": round(way.weight, 4), "way": brief}


def candidates(stores: Stores, indexes: Sequence[WorkspaceIndex], limit: int) -> dict[str, Any]:
    """Linked pairs without a relation type, with the beginning of both texts; and the types that there are."""
    connection, rows = stores.ledger.reader, list[EdgeRow]()
    for index in indexes:
        some = edges.untyped(connection, index.id, limit)
        texts = edges.excerpts(connection, _ends(some))
        names = edges.named(connection, index.id, _ends(some))
        shown = [
            (number, {**{part: name[part] for part in ("key", "path", "heading")}, "text": texts.get(number, "")})
            for number, name in names.items()
        ]
        ends = dict(zip(names, history.with_authors(connection, shown), strict=True))
        rows += [{"ns": index.workspace.ns, "from": ends[edge.one], "to": ends[edge.other],
                  "weight": round(edge.weight, 4), "origin": edge.origin} for edge in some]  # fmt: skip
    return {"relations": RELATIONS, "candidates": _strongest(rows, limit)}


# --- clusters and summaries -----------------------------------------------------------------------------------


def clusters(stores: Stores, indexes: Sequence[WorkspaceIndex], least: int, weight: float) -> list[dict[str, Any]]:
    """Groups of memories that edges connect, the largest first; a group without a summary needs one."""
    return sorted(
        (row for index in indexes for row in _clusters(stores.ledger.reader, index, least, weight)),
        key=lambda row: (-row["size"], row["ns"], row["memories"][0]["key"]),
    )


def _clusters(connection: Connection, index: WorkspaceIndex, least: int, weight: float) -> list[dict[str, Any]]:
    links = edges.all_of(connection, index.id, rel=RELATED, least=weight)
    groups = components(((link.one, link.other) for link in links), least)
    contained = edges.contained(connection, index.id) if groups else {}
    summaries = {group: summary_of(group, contained) for group in groups}
    numbers = {memory for group in groups for memory in group} | {one for one in summaries.values() if one is not None}
    names = edges.named(connection, index.id, numbers)
    return [
        {
            "ns": index.workspace.ns,
            "size": len(group),
            "summary": names[summary]["key"] if summary in names else None,
            "wants_summary": summary is None,
            "memories": sorted((names[memory] for memory in group if memory in names), key=_by_place),
        }
        for group, summary in summaries.items()
    ]


def _by_place(row: dict[str, Any]) -> tuple[str, str, int]:
    return (row.get("ns", ""), row["path"], row["start_line"])


def summary_sources(stores: Stores, index: WorkspaceIndex, target: keys.KeyTarget, sources: Sequence[str]) -> list[str]:
    """The keys that a summary is to contain, each memory once, checked."""
    found: dict[int | None, str] = {}
    for key in sources:
        found.setdefault(keys.existing(stores, index, key).memory, key)
    if target.memory in found:
        raise UsageError(f"`{target.key}` cannot contain itself", "give the summary a key of its own")
    if len(found) < FEWEST:
        raise UsageError("a summary needs at least two different sources", "for example: --sources KEY,KEY")
    above = _containing(stores.ledger.reader, target.memory) & set(found)
    if above:
        raise UsageError(f"`{found[min(above, key=str)]}` contains `{target.key}` itself", "leave it out")
    return list(found.values())


def _containing(connection: Connection, memory: int | None) -> set[int | None]:
    """Every memory that contains this one, directly or through others."""
    rows = connection.execute(
        "WITH RECURSIVE above(id) AS (SELECT one FROM edges WHERE other = :memory AND rel = :rel AND NOT removed"
        " UNION SELECT e.one FROM edges e JOIN above a ON e.other = a.id WHERE e.rel = :rel AND NOT e.removed)"
        " SELECT id FROM above",
        {"memory": memory, "rel": CONTAINS},
    )
    return {row["id"] for row in rows}


def list_summaries(stores: Stores, indexes: Iterable[WorkspaceIndex]) -> dict[str, Any]:
    """The memories that contain others, with how many."""
    connection, rows = stores.ledger.reader, list[dict[str, Any]]()
    for index in indexes:
        contained = edges.contained(connection, index.id)
        entries = inventory.entries(connection, index, Filters(), contained)
        listed = [(entry.id, {**entry.as_object(), "children": len(contained[entry.id])}) for entry in entries]
        rows += history.with_authors(connection, listed)
    return {"summaries": sorted(rows, key=_by_place)}


def children(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> dict[str, Any]:
    """What one memory contains, each with its text, in the order of the files."""
    index, row = keys.find_memory(stores, indexes, key)
    connection = stores.ledger.reader
    contained = edges.contained(connection, index.id).get(row["id"], [])
    entries = inventory.entries(connection, index, Filters(), contained)
    texts = [{**one.as_object(), "text": history.text_of(connection, one.row["digest"]) or ""} for one in entries]
    rows = history.with_authors(connection, [(one.id, text) for one, text in zip(entries, texts, strict=True)])
    return {"ns": index.workspace.ns, "key": key, "children": sorted(rows, key=_by_place)}
