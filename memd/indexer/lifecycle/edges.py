"""Edges in the ledger: which there are, how use and time change them, and what they lead to: clusters, summaries."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from sqlite3 import Connection
from typing import TypeVar

from memd.errors import Refused, UsageError
from memd.indexer.indexing import memory_names
from memd.indexer.query import lookup
from memd.indexer.record import actions, history
from memd.indexer.store import catalog
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views import inventory, keys
from memd.lifecycle import lives
from memd.models import RELATIONS, Filters, JsonObject, Relation, grouped, pick
from memd.notes import metadata

SQL = queries(__file__, one_alive=lookup.ALIVE.replace("m.", "a."), other_alive=lookup.ALIVE.replace("m.", "b."))
INSERT = SQL["insert"]
STRONGEST = "ORDER BY e.weight DESC, e.one, e.other, e.rel"
STRONG = f"(?2 IS NULL OR e.rel = ?2) AND e.weight >= ?3 {STRONGEST}"
OF_MEMORIES = "e.id IN (" + SQL["of_memories"] + f") AND {STRONG}"
UNTYPED = f"""e.workspace = ? AND e.rel = ? AND NOT EXISTS (
    SELECT 1 FROM edges t WHERE t.rel <> e.rel AND t.removed = 0
    AND ((t.one = e.one AND t.other = e.other) OR (t.one = e.other AND t.other = e.one))
) {STRONGEST} LIMIT ?"""
TAKEN, WITHERED = 1, 2
"""Why an edge is removed: someone took it away, or it faded away."""

PAGE = 500
"""Rows of one transaction."""
EXCERPT = 300
TINY = 1e-8

Triple = tuple[int, int, str]
"""An edge by its ends and its relation."""
T = TypeVar("T")


def batches(rows: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """The rows in batches, each for a short transaction."""
    return (rows[at : at + size] for at in range(0, len(rows), size))


def insert(connection: Connection, workspace: int, edge: Triple, weight: float, origin: str, now: str) -> int:
    """Add an edge unless there is one, also a removed one; returns how many were added."""
    return connection.execute(INSERT, (workspace, *edge, weight, origin, now)).rowcount


def select(connection: Connection, which: str, values: Sequence[object]) -> list[lives.Edge]:
    """The living edges that meet a clause, which may have their order."""
    return [lives.Edge(**dict(row)) for row in connection.execute(SQL["living"].format(which=which), values)]


def of(
    connection: Connection, memories: Collection[int], *, rel: Relation | None = None, least: float = 0.0
) -> list[lives.Edge]:
    """The edges of some memories, in both directions, the strongest first."""
    return select(connection, OF_MEMORIES, (json.dumps(list(memories)), rel, least))


def all_of(
    connection: Connection, workspace: int, *, rel: Relation | None = None, least: float = 0.0, most: int = -1
) -> list[lives.Edge]:
    """The edges of a workspace, the strongest first."""
    return select(connection, f"e.workspace = ?1 AND {STRONG} LIMIT ?4", (workspace, rel, least, most))


def between(connection: Connection, one: int, other: int) -> list[lives.Edge]:
    """The edges between two memories, in either direction."""
    return [edge for edge in of(connection, [one]) if edge.far(one) == other]


def untyped(connection: Connection, workspace: int, most: int) -> list[lives.Edge]:
    """Linked pairs without a relation type, the strongest first."""
    return select(connection, UNTYPED, (workspace, lives.RELATED, most))


def contents(connection: Connection, workspace: int) -> dict[int, list[int]]:
    """The memories that each summary contains."""
    return grouped((edge.one, edge.other) for edge in all_of(connection, workspace, rel=lives.CONTAINS))


def remove(connection: Connection, action: int, edges: Sequence[lives.Edge]) -> None:
    """Remove edges, as part of an action that can be undone."""
    for nth, edge in enumerate(edges):
        row = connection.execute("SELECT removed FROM edges WHERE id = ?", (edge.id,)).fetchone()
        connection.execute("UPDATE edges SET removed = ? WHERE id = ?", (TAKEN, edge.id))
        keep_change(connection, action, nth, (edge.one, edge.other, edge.rel), row["removed"], TAKEN)


def keep_change(connection: Connection, action: int, nth: int, edge: Triple, before: int, after: int) -> None:
    """Keep whether an edge was removed before an action, and after it."""
    ends = dict(zip(("one", "other", "rel"), edge, strict=True))
    was, became = {**ends, "removed": before}, {**ends, "removed": after}
    actions.keep_change(connection, action, nth, edge[0], "edge", was, became)


# --- use and time -------------------------------------------------------------------------------------------


def count_uses(connection: Connection, workspace: int) -> int:
    """Add up some entries of what was shown together, each once; returns how many there were."""
    rows = connection.execute(SQL["shown_together"], (workspace, PAGE)).fetchall()
    for (one, other), hours in grouped(((row["one"], row["other"]), row["hour"]) for row in rows).items():
        _strengthen(connection, one, other, hours)
    connection.executemany(SQL["count_shown"], [tuple(row) for row in rows])
    return len(rows)


def _strengthen(connection: Connection, one: int, other: int, hours: Sequence[str]) -> None:
    """Strengthen the edges of two memories that were shown together; one that had faded away is back."""
    for row in connection.execute(SQL["between"], (one, other, TAKEN)).fetchall():
        base = lives.strengthened(row["base"], len(hours)) if row["base"] else 0.0
        last = max(row["accessed"] or "", f"{max(hours)}:59:59.999+00:00")
        connection.execute(SQL["strengthen"], (len(hours), base, last, row["id"]))


def fading(connection: Connection, workspace: int, now: datetime) -> list[tuple[int, float]]:
    """The edges that time has changed, with their new weight; reads only."""
    unused = (lives.USED, actions.in_utc(now - lives.REST))
    rows = connection.execute(SQL["fading"], (workspace, *lives.OBSERVED, *unused))
    found = []
    for row in rows:
        idle = now - datetime.fromisoformat(row["used"])
        weight = round(lives.faded_weight(row["base"], row["accesses"], idle, row["origin"]), 9)
        if abs(weight - row["weight"]) > TINY:
            found.append((row["id"], weight))
    return found


def fade(connection: Connection, weights: Iterable[tuple[int, float]]) -> int:
    """Write the faded weights; an edge below `PRUNE` withers. Returns how many did."""
    rows = [(weight, WITHERED if weight < lives.PRUNE else 0, number) for number, weight in weights]
    connection.executemany(SQL["weaken"], rows)
    return sum(removed == WITHERED for _, removed, _ in rows)


# --- in answers ------------------------------------------------------------------------------------------------


def named(connection: Connection, workspace: int, memories: Iterable[int]) -> dict[int, JsonObject]:
    """Memories of a workspace as answers name them: key, path, line, heading, tier; those that are in a file."""
    clause = "m.id IN (SELECT value FROM json_each(?)) AND +m.workspace = ?"
    values = (json.dumps(sorted(set(memories))), workspace)
    keyed = lookup.keyed_rows(connection, "m.start_line, m.heading, m.tier", clause, values)
    return {row["id"]: {"key": key, **pick(row, *keys.PLACE, "tier")} for key, row in keyed}


def edge_rows(edges: Iterable[lives.Edge], names: dict[int, JsonObject]) -> list[JsonObject]:
    """Edges as answers show them."""
    return [
        {
            "from": names[edge.one]["key"],
            "rel": edge.rel,
            "to": names[edge.other]["key"],
            "weight": round(edge.weight, 4),
            "origin": edge.origin,
            "accesses": edge.accesses,
            "titles": [names[end]["heading"] for end in (edge.one, edge.other)],
        }
        for edge in edges
        if edge.one in names and edge.other in names
    ]


def excerpts(connection: Connection, memories: Iterable[int]) -> dict[int, str]:
    """The beginning of each memory."""
    firsts = dict(catalog.among(connection, SQL["first_texts"], memories))
    return {memory: text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…" for memory, text in firsts.items()}


# --- what is related ----------------------------------------------------------------------------------------


FEWEST = 2
"""A summary of one memory is another version of it."""


def list_edges(
    stores: Stores, indexes: Indexes, key: str, rel: Relation | None, least: float, limit: int
) -> JsonObject:
    """The edges of one memory, or of some workspaces, the strongest first."""
    connection, rows = stores.reader, list[JsonObject]()
    if key:
        index, row = keys.find_memory(stores, indexes, key)
        found = [(index, of(connection, [row["id"]], rel=rel, least=least)[:limit])]
    else:
        found = [(index, all_of(connection, index.id, rel=rel, least=least, most=limit)) for index in indexes]
    for index, some in found:
        names = named(connection, index.id, _ends(some))
        rows += [{"ns": index.workspace.ns, **row} for row in edge_rows(some, names)]
    return {"edges": _strongest(rows, limit)}


def _strongest(rows: Iterable[JsonObject], limit: int) -> list[JsonObject]:
    return sorted(rows, key=lambda row: -row["weight"])[:limit]


def _ends(some: Iterable[lives.Edge]) -> set[int]:
    return {end for edge in some for end in (edge.one, edge.other)}


def related(stores: Stores, indexes: Indexes, key: str, depth: int, least: float, limit: int) -> JsonObject:
    """The memories that edges lead to from one, each with the path; the nearest and strongest first."""
    index, row = keys.find_memory(stores, indexes, key)
    ways = lives.reach(row["id"], partial(of, stores.reader, least=least), depth)[:limit]
    names = named(stores.reader, index.id, {row["id"], *_ends(edge for way in ways for edge in way.path)})
    memories = [_reached_row(way, names) for way in ways if way.memory in names]
    return {**index.place, "key": names[row["id"]]["key"], "memories": memories}


def _reached_row(way: lives.ReachedMemory, names: dict[int, JsonObject]) -> JsonObject:
    steps = [pick(step, "from", "rel", "to", "weight") for step in edge_rows(way.path, names)]
    return {**names[way.memory], "weight": round(way.weight, 4), "way": steps}


def candidates(stores: Stores, indexes: Indexes, limit: int) -> JsonObject:
    """Linked pairs without a relation type, with the beginning of both texts; and the types that there are."""
    connection, rows = stores.reader, list[JsonObject]()
    for index in indexes:
        some = untyped(connection, index.id, limit)
        texts = excerpts(connection, _ends(some))
        names = named(connection, index.id, _ends(some))
        shown = [
            (number, {**pick(name, "key", "path", "heading"), "text": texts.get(number, "")})
            for number, name in names.items()
        ]
        ends = dict(zip(names, history.with_authors(connection, shown), strict=True))
        rows += [{"ns": index.workspace.ns, "from": ends[edge.one], "to": ends[edge.other],
                  "weight": round(edge.weight, 4), "origin": edge.origin} for edge in some]  # fmt: skip
    return {"relations": RELATIONS, "candidates": _strongest(rows, limit)}


# --- clusters and summaries -----------------------------------------------------------------------------------


def clusters(stores: Stores, indexes: Indexes, least: int, weight: float) -> JsonObject:
    """Groups of memories that edges connect, the largest first; a group without a summary needs one."""
    rows = [row for index in indexes for row in _clusters(stores.reader, index, least, weight)]
    rows.sort(key=lambda row: (-row["size"], row["ns"], row["memories"][0]["key"]))
    return {"min_weight": weight, "clusters": rows}


def _clusters(connection: Connection, index: WorkspaceIndex, least: int, weight: float) -> list[JsonObject]:
    links = all_of(connection, index.id, rel=lives.RELATED, least=weight)
    groups = lives.components(((link.one, link.other) for link in links), least)
    contained = contents(connection, index.id) if groups else {}
    summaries = {group: lives.summary_of(group, contained) for group in groups}
    numbers = {memory for group in groups for memory in group} | {one for one in summaries.values() if one is not None}
    names = named(connection, index.id, numbers)
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


def _by_place(row: JsonObject) -> tuple[str, str, int]:
    return (row.get("ns", ""), row["path"], row["start_line"])


def summary_sources(stores: Stores, index: WorkspaceIndex, target: keys.KeyTarget, sources: Sequence[str]) -> list[str]:
    """The keys that a summary is to contain, each memory once, checked."""
    found: dict[int, str] = {}
    for key in sources:
        found.setdefault(keys.existing(stores, index, key).number, key)
    if target.memory in found:
        raise UsageError(f"`{target.key}` cannot contain itself", "give the summary a key of its own")
    if len(found) < FEWEST:
        raise UsageError("a summary needs at least two different sources", "for example: --sources KEY,KEY")
    containing = catalog.numbers_of(stores.reader, SQL["containing"], target.memory, lives.CONTAINS)
    above = found.keys() & containing
    if above:
        raise UsageError(f"`{found[min(above, key=str)]}` contains `{target.key}` itself", "leave it out")
    return [linkable(stores.reader, index.id, *source) for source in found.items()]


def linkable(connection: Connection, workspace: int, memory: int, key: str) -> str:
    """The key of a memory for a link, in which upper case makes no difference; refused if it names another one, too."""
    name = metadata.folded(key)
    if memory_names.found_by_name(connection, workspace, [name]).get(name) != memory:
        raise Refused(f"a link cannot name `{key}` alone", "another memory has this name but for its case: rename one")
    return key


def _with_texts(connection: Connection, index: WorkspaceIndex, memories: dict[int, JsonObject]) -> list[JsonObject]:
    """Memories as objects with their texts and authors, and with what else is to be said of each."""
    rows = []
    for one in inventory.entries(connection, index, Filters(), memories):
        text = lookup.text_of(connection, one.id, one.row["digest"])
        rows.append((one.id, {**one.as_object(), "text": text, **memories[one.id]}))
    return history.with_authors(connection, rows)


def expand(stores: Stores, indexes: Indexes, key: str) -> JsonObject:
    """The memories that one contains, each with its text, in the order of the files; without a key all summaries, each
    with how many it contains."""
    connection, rows = stores.reader, list[JsonObject]()
    if key:
        index, row = keys.find_memory(stores, indexes, key)
        contained = contents(connection, index.id).get(row["id"], ())
        rows = _with_texts(connection, index, {one: {} for one in contained})
        return {"ns": index.workspace.ns, "key": key, "children": sorted(rows, key=_by_place)}
    for index in indexes:
        counts = {one: {"children": len(some)} for one, some in contents(connection, index.id).items()}
        rows += _with_texts(connection, index, counts)
    return {"summaries": sorted(rows, key=_by_place)}
