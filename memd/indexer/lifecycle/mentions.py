"""Turns mentions of other memories, and shared tags, into edges.

A mention is resolved by name once. It stays with that memory when it is renamed, removed or restored; only another
memory that now has the name takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import combinations, islice
from sqlite3 import Connection, Row

from memd.indexer.indexing import memory_names
from memd.indexer.lifecycle import edges
from memd.indexer.record.actions import in_utc
from memd.indexer.store import catalog
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.queries import queries
from memd.lifecycle.lives import RELATED, ends, strengthened
from memd.models import RELATIONS
from memd.notes.metadata import DECLARED, WRITTEN

SQL = queries(__file__)

TAGGED = "tag"
TAG_WEIGHT = 0.3
RARE, COMMON = 2, 8
"""A tag on 2 to 8 memories links them; one on more says little."""

AT_ONCE = 200
"""Memories whose mentions are looked up in one transaction."""

TINY = 1e-9

Pair = tuple[int, int]
"""Two memories, the smaller number first."""
Memories = Collection[int] | None
"""The memories that it is about; None: all of a workspace."""


# --- planning: reads only -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """The changes that bring the edges in step with mentions and tags."""

    resolved: Sequence[tuple[int | None, int, str, str]] = ()
    """Mentions that name another memory than before: that memory, then the mention."""
    changed: Sequence[edges.Triple] = ()
    """Edges that differ from what the mentions say."""
    tagged: Sequence[Pair] = ()
    """Pairs that now share a tag."""
    untagged: Sequence[int] = ()
    """Edges between memories that no longer share a tag, by number."""

    def parts(self) -> Iterator[EdgePlan]:
        """The plan in parts, each for a short transaction; mentions before the edges that depend on them."""
        for name in ("resolved", "changed", "tagged", "untagged"):
            yield from (EdgePlan(**{name: some}) for some in edges.batches(getattr(self, name)))


def plan(connection: Connection, workspace: int, memories: Memories = None) -> EdgePlan:
    """The changes that these memories and those that mention them need."""
    rows = _mentions(connection, workspace, memories)
    by_name = memory_names.found_by_name(connection, workspace, {row["target"] for row in rows})
    resolved: list[tuple[int | None, int, str, str]] = []
    said: dict[edges.Triple, None] = {}
    moved: set[edges.Triple] = set()
    for row in rows:
        new = by_name.get(row["target"]) or row["found"]
        new = None if new == row["memory"] else new
        triples = {(*ends(row["memory"], other, row["rel"]), row["rel"]) for other in (row["found"], new) if other}
        if new != row["found"]:
            resolved.append((new, row["memory"], row["rel"], row["target"]))
            moved |= triples
        said |= dict.fromkeys(triples)
    mentioned = _edges(connection, workspace, memories, "e.origin IN (?, ?)", (DECLARED, WRITTEN))
    said |= dict.fromkeys((row["one"], row["other"], row["rel"]) for row in mentioned)
    changed = [triple for triple in said if triple in moved or _difference(connection, workspace, triple)]
    return EdgePlan(resolved, changed, *_tags(connection, workspace, memories))


def _mentions(connection: Connection, workspace: int, memories: Memories) -> list[Row]:
    """The mentions in some memories, and those that may name one of them."""
    there = "CROSS JOIN memories m ON m.id = t.memory WHERE m.workspace = ? AND m.file IS NOT NULL"
    if memories is None:
        return connection.execute(f"SELECT t.* FROM mentions t {there}", (workspace,)).fetchall()
    about = json.dumps(list(memories))
    forms, whole = memory_names.forms(connection, about)
    # Any heading of a whole file: `$` follows `#`.
    inside = "t.target >= w.value || '#' AND t.target < w.value || '$'"
    wanted = {"t.memory = w.value": about, "t.target = w.value": json.dumps(forms), inside: json.dumps(whole)}
    found: dict[tuple[int, str, str], Row] = {}
    for which, among in wanted.items():
        query = f"SELECT t.* FROM json_each(?) w CROSS JOIN mentions t ON {which} {there}"
        rows = connection.execute(query, (among, workspace))
        found |= {(row["memory"], row["rel"], row["target"]): row for row in rows}
    return list(found.values())


def _edges(connection: Connection, workspace: int, memories: Memories, clause: str, values: Sequence[str]) -> list[Row]:
    """The edges that meet a clause, of these memories or of all."""
    if memories is None:
        wanted, among = ["edges e ON e.workspace = w.value"], json.dumps([workspace])
    else:
        # Without the workspace: SQLite would use its index and read all edges.
        wanted, among = [f"edges e ON e.{end} = w.value" for end in ("one", "other")], json.dumps(list(memories))
    select = "SELECT e.id, e.one, e.other, e.rel, e.origin, e.removed FROM json_each(?) w CROSS JOIN"
    queries = (f"{select} {joined} WHERE {clause}" for joined in wanted)
    return [row for query in queries for row in connection.execute(query, (among, *values))]


# --- tags ---------------------------------------------------------------------------------------------------


def _tags(connection: Connection, workspace: int, memories: Memories) -> tuple[list[Pair], list[int]]:
    """The pairs that share a tag and have no edge yet, and the edges of pairs that no longer share one."""
    groups = _groups(connection, workspace, memories)
    linked = _tag_pairs(groups)
    if memories is not None:
        # A tag may have become too common: its memories are checked too, with all their tags.
        crowded = {memory for group in groups if len(group) > COMMON for memory in group}
        memories = {*memories, *crowded}
        linked |= _tag_pairs(_groups(connection, workspace, crowded))
        linked = {pair for pair in linked if not memories.isdisjoint(pair)}
    known, tagged = _pairs(connection, workspace, memories)
    return sorted(linked - known), sorted(number for pair, number in tagged.items() if pair not in linked)


def _tag_pairs(groups: Iterable[tuple[int, ...]]) -> set[Pair]:
    return {pair for group in groups if len(group) <= COMMON for pair in combinations(group, 2)}


def _groups(connection: Connection, workspace: int, memories: Memories) -> list[tuple[int, ...]]:
    """The memories that share a tag with one of these, tag by tag; tags on too many memories are left out."""
    about = None if memories is None else json.dumps(list(memories))
    most = COMMON if memories is None else COMMON + len(memories)
    mine = "n.name IN (SELECT name FROM json_each(:about) w CROSS JOIN names ON memory = w.value WHERE rank = :tag)"
    values = {"workspace": workspace, "tag": memory_names.TAG, "about": about, "rare": RARE, "most": most}
    rows = connection.execute(SQL["tag_groups"].format(which="1" if about is None else mine), values)
    return [tuple(sorted(int(member) for member in row["members"].split(","))) for row in rows]


def _pairs(connection: Connection, workspace: int, memories: Memories) -> tuple[set[Pair], dict[Pair, int]]:
    """Every pair with an untyped edge, also a removed one; and the living edges that a tag made."""
    rows = _edges(connection, workspace, memories, "e.rel = ?", (RELATED,))
    tagged = [row for row in rows if row["origin"] == TAGGED and not row["removed"]]
    ends = json.dumps([end for row in tagged for end in (row["one"], row["other"])])
    there = catalog.numbers_of(connection, SQL["in_files"], ends)
    live = [row for row in tagged if {row["one"], row["other"]} <= there]
    return {(row["one"], row["other"]) for row in rows}, {(row["one"], row["other"]): row["id"] for row in live}


# --- writing ------------------------------------------------------------------------------------------------


def carry_out(connection: Connection, workspace: int, plan: EdgePlan, now: datetime) -> int:
    """Write a plan, or a part of one; returns how many edges changed."""
    connection.executemany("UPDATE mentions SET found = ? WHERE memory = ? AND rel = ? AND target = ?", plan.resolved)
    changed = sum(_update_edge(connection, workspace, triple, in_utc(now)) for triple in plan.changed)
    exists = "SELECT 1 FROM memories WHERE id = ?"
    for pair in plan.tagged:
        if all(connection.execute(exists, (end,)).fetchone() for end in pair):
            changed += edges.insert(connection, workspace, (*pair, RELATED), TAG_WEIGHT, TAGGED, in_utc(now))
    for number in plan.untagged:
        changed += connection.execute("DELETE FROM edges WHERE id = ? AND origin = ?", (number, TAGGED)).rowcount
    return changed


def resolve(connection: Connection, workspace: int, memories: Memories, now: datetime) -> int:
    """Plan and write in one transaction, for a few memories; returns how many edges changed."""
    return carry_out(connection, workspace, plan(connection, workspace, memories), now)


def resolve_some(ledger: Ledger, index: OwnIndex) -> None:
    """Bring the edges of a few memories of those that changed in step, in one transaction."""
    some = set(islice(index.unlinked, AT_ONCE))
    ledger.transact(resolve, index.id, some, datetime.now(UTC))
    index.unlinked -= some


def relink(reader: Connection, workspace: int, write: Callable[[Callable[..., int]], int], now: datetime) -> int:
    """Bring all edges of a workspace in step with mentions and tags; returns how many changed.

    Reads on the caller's thread; `write` runs a function in a transaction of its own.
    """
    parts = plan(reader, workspace).parts()
    return sum(write(partial(carry_out, workspace=workspace, plan=part, now=now)) for part in parts)


def _update_edge(connection: Connection, workspace: int, triple: edges.Triple, now: str) -> int:
    """Make an edge what the mentions say."""
    change = _difference(connection, workspace, triple, now)
    if change is None:
        return 0
    query, values = change
    if query == DROP:
        # Compare the two again: declared edges kept similar ones out.
        connection.execute("UPDATE memories SET compared = '' WHERE id = ?", (triple[0],))
    return connection.execute(query, values).rowcount


DROP = "DELETE FROM edges WHERE id = ?"


def _difference(
    connection: Connection, workspace: int, triple: edges.Triple, now: str = ""
) -> tuple[str, tuple[object, ...]] | None:
    """The statement that makes an edge what the mentions say; None where it is."""
    one, other, rel = triple
    said = _said(connection, one, other, rel)
    row = connection.execute(SQL["edge"], triple).fetchone()
    if said is None:
        gone = row is not None and row["origin"] in (DECLARED, WRITTEN) and not row["removed"]
        return (DROP, (row["id"],)) if gone else None
    weight, origin = said
    if row is None:
        return edges.INSERT, (workspace, *triple, weight, origin, now)
    base = strengthened(weight, row["accesses"])
    # Declaring an edge again restores a removed one; a mention in the text does not.
    removed = 1 if row["removed"] == 1 and origin == WRITTEN else 0
    same = (row["origin"], row["removed"]) == (origin, removed)
    same = same and all(abs(row[name] - base) < TINY for name in ("base", "weight"))
    return None if same else (SQL["change_edge"], (origin, base, removed, row["id"]))


def _said(connection: Connection, one: int, other: int, rel: str) -> tuple[float, str] | None:
    """The weight and origin that mentions give an edge: declared ones count before written ones, then the heaviest."""
    rows = between(connection, one, other, rel)
    usual = RELATIONS[rel]
    said = [(row["origin"] == DECLARED, usual if row["weight"] is None else row["weight"]) for row in rows]
    best = max(said, default=None)
    return (best[1], DECLARED if best[0] else WRITTEN) if best else None


def between(connection: Connection, one: int, other: int, rel: str) -> list[Row]:
    """The mentions that make an edge of two memories; without a direction, those of either."""
    return connection.execute(SQL["between"], (one, other, rel, rel == RELATED)).fetchall()
