"""Turns what memories say of each other, and the tags that they share, into edges.

A mention is found by name, and stays with the memory it was found to name when that one is renamed, leaves or comes
back; only another memory that is now called so takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import combinations
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.indexing import memory_names
from memd.indexer.indexing.memory_names import TAG
from memd.indexer.record.actions import in_utc
from memd.lifecycle.edges import RELATED, ends, strengthened
from memd.models import RELATIONS
from memd.notes.links import DECLARED, WRITTEN

TAGGED = "tag"
TAG_WEIGHT = 0.3
RARE, COMMON = 2, 8
"""A tag that so many memories have says that they belong together; one that more have says little."""

PAGE = 500
"""Rows of one transaction."""

TINY = 1e-9

Triple = tuple[int, int, str]
"""An edge by its ends and its relation."""
Work = Callable[[Connection], Any]


# --- planning: reads only -------------------------------------------------------------------------------------


@dataclass(slots=True)
class EdgePlan:
    """What is to be written so that the edges are what the memories say."""

    found: list[tuple[int | None, int, str, str]] = field(default_factory=list)
    """Mentions that name another memory than before: the memory found, then the mention."""
    doubtful: list[Triple] = field(default_factory=list)
    """Edges to be settled by what is mentioned."""
    tagged: list[tuple[int, int]] = field(default_factory=list)
    untagged: list[int] = field(default_factory=list)
    """Edges that no tag holds together any more, by number."""

    def __bool__(self) -> bool:
        return bool(self.found or self.doubtful or self.tagged or self.untagged)

    def parts(self, most: int = PAGE) -> Iterator[EdgePlan]:
        """The same in pieces of which each is a short transaction; mentions before the edges that they settle."""
        for at in range(0, len(self.found), most):
            yield EdgePlan(found=self.found[at : at + most])
        for at in range(0, len(self.doubtful), most):
            yield EdgePlan(doubtful=self.doubtful[at : at + most])
        for at in range(0, len(self.tagged), most):
            yield EdgePlan(tagged=self.tagged[at : at + most])
        for at in range(0, len(self.untagged), most):
            yield EdgePlan(untagged=self.untagged[at : at + most])


def plan(connection: Connection, workspace: int, memories: Collection[int] | None = None) -> EdgePlan:
    """What these memories (None: all) and whoever mentions them say, as far as the edges do not say it yet."""
    made, about = EdgePlan(), None if memories is None else json.dumps(list(memories))
    rows = _mentions(connection, workspace, about)
    resolved = memory_names.found_by_name(connection, workspace, {row["target"] for row in rows})
    said: dict[Triple, None] = {}
    moved: set[Triple] = set()
    for row in rows:
        new = resolved.get(row["target"]) or row["found"]
        new = None if new == row["memory"] else new
        triples = {(*ends(row["memory"], other, row["rel"]), row["rel"]) for other in (row["found"], new) if other}
        if new != row["found"]:
            made.found.append((new, row["memory"], row["rel"], row["target"]))
            moved |= triples
        said |= dict.fromkeys(triples)
    said |= dict.fromkeys(_made_by_hand(connection, workspace, about))
    made.doubtful = [triple for triple in said if triple in moved or _difference(connection, triple) is not None]
    made.tagged, made.untagged = _tags(connection, workspace, memories)
    return made


def _mentions(connection: Connection, workspace: int, about: str | None) -> list[Row]:
    """The mentions of some memories, and those that may name one of them."""
    there = "CROSS JOIN memories m ON m.id = t.memory WHERE m.workspace = ? AND m.file IS NOT NULL"
    if about is None:
        return connection.execute(f"SELECT t.* FROM mentions t {there}", (workspace,)).fetchall()
    forms, whole = memory_names.forms(connection, about)
    # Whatever heading of a whole file is meant counts: `#` and `$` are neighbours.
    inside = "t.target >= w.value || '#' AND t.target < w.value || '$'"
    rows = [
        row
        for among, which in (
            (about, "t.memory = w.value"),
            (_json(forms), "t.target = w.value"),
            (_json(whole), inside),
        )
        for row in connection.execute(
            f"SELECT t.* FROM json_each(?) w CROSS JOIN mentions t ON {which} {there}", (among, workspace)
        )
    ]
    return list({(row["memory"], row["rel"], row["target"]): row for row in rows}.values())


def _json(values: Collection[str]) -> str:
    return json.dumps(list(values))


def _made_by_hand(connection: Connection, workspace: int, about: str | None) -> list[Triple]:
    """The edges that mentions made, of some memories or of all."""
    rows = _edges(connection, workspace, about, "e.origin IN (?, ?)", (DECLARED, WRITTEN))
    return [(row["one"], row["other"], row["rel"]) for row in rows]


def _edges(
    connection: Connection, workspace: int, about: str | None, clause: str, values: tuple[str, ...]
) -> list[Row]:
    """The edges that pass a clause, of some memories or of all."""
    asked = "SELECT e.id, e.one, e.other, e.rel, e.origin, e.removed FROM"
    if about is None:
        found = connection.execute(f"{asked} edges e WHERE e.workspace = ? AND {clause}", (workspace, *values))
        return found.fetchall()
    return [
        row
        for end in ("one", "other")
        for row in connection.execute(
            # Not by the workspace too: its index would be taken, and lead to all edges.
            f"{asked} json_each(?) w CROSS JOIN edges e ON e.{end} = w.value WHERE {clause}",
            (about, *values),
        )
    ]


# --- tags ---------------------------------------------------------------------------------------------------


def _tags(
    connection: Connection, workspace: int, memories: Collection[int] | None
) -> tuple[list[tuple[int, int]], list[int]]:
    """The pairs that a tag should hold together and does not yet, and the edges that none holds together any more."""
    groups = _groups(connection, workspace, memories)
    # One more memory may have made a tag too common: its pairs are looked at too.
    crowded = {memory for group in groups if len(group) > COMMON for memory in group}
    wanted = {pair for group in groups if len(group) <= COMMON for pair in combinations(group, 2)}
    asked = None if memories is None else {*memories, *crowded}
    known, tagged = _pairs(connection, workspace, asked)
    if asked is not None:
        # Of those that only came along not every group is known.
        wanted |= {pair for group in _groups(connection, workspace, crowded) if len(group) <= COMMON
                   for pair in combinations(group, 2)}  # fmt: skip
        wanted = {pair for pair in wanted if asked.intersection(pair)}
    return sorted(wanted - known), sorted(number for pair, number in tagged.items() if pair not in wanted)


def _groups(connection: Connection, workspace: int, memories: Collection[int] | None) -> list[tuple[int, ...]]:
    """The memories that share a tag with one of these, tag by tag; of tags that very many have, none."""
    about = None if memories is None else json.dumps(list(memories))
    most = COMMON if memories is None else COMMON + len(memories)
    mine = "SELECT DISTINCT name FROM json_each(:about) w CROSS JOIN names ON memory = w.value WHERE rank = :tag"
    names = "names n" if about is None else f"({mine}) t CROSS JOIN names n ON n.name = t.name"
    rows = connection.execute(
        f"SELECT GROUP_CONCAT(n.memory) AS members FROM {names} CROSS JOIN memories m ON m.id = n.memory"
        " WHERE m.workspace = :workspace AND m.file IS NOT NULL AND n.rank = :tag"
        " GROUP BY n.name HAVING COUNT(*) BETWEEN :rare AND :most",
        {"workspace": workspace, "tag": TAG, "about": about, "rare": RARE, "most": most},
    )
    return [tuple(sorted(int(member) for member in row["members"].split(","))) for row in rows]


def _pairs(
    connection: Connection, workspace: int, memories: Collection[int] | None
) -> tuple[set[tuple[int, int]], dict[tuple[int, int], int]]:
    """Every pair that has an edge without a type, also a removed one; and those that a tag made and that live."""
    about = None if memories is None else json.dumps(list(memories))
    rows = _edges(connection, workspace, about, "e.rel = ?", (RELATED,))
    tagged = [row for row in rows if row["origin"] == TAGGED and not row["removed"]]
    there = _there(connection, {end for row in tagged for end in (row["one"], row["other"])})
    live = [row for row in tagged if {row["one"], row["other"]} <= there]
    return {(row["one"], row["other"]) for row in rows}, {(row["one"], row["other"]): row["id"] for row in live}


def _there(connection: Connection, memories: Collection[int]) -> set[int]:
    """Those of some memories that are in files."""
    rows = connection.execute(
        "SELECT m.id FROM json_each(?) w CROSS JOIN memories m ON m.id = w.value WHERE m.file IS NOT NULL",
        (json.dumps(list(memories)),),
    )
    return {row["id"] for row in rows}


# --- writing ------------------------------------------------------------------------------------------------


def carry_out(connection: Connection, workspace: int, made: EdgePlan, now: datetime) -> int:
    """Write a plan, or a part of one; says how many edges it changed."""
    connection.executemany("UPDATE mentions SET found = ? WHERE memory = ? AND rel = ? AND target = ?", made.found)
    changed = sum(_settle(connection, workspace, triple, in_utc(now)) for triple in made.doubtful)
    there = "SELECT 1 FROM memories WHERE id = ?"
    for pair in made.tagged:
        if all(connection.execute(there, (end,)).fetchone() for end in pair):
            changed += _insert(connection, workspace, (*pair, RELATED), TAG_WEIGHT, TAGGED, in_utc(now))
    for number in made.untagged:
        changed += connection.execute("DELETE FROM edges WHERE id = ? AND origin = ?", (number, TAGGED)).rowcount
    return changed


def resolve(connection: Connection, workspace: int, memories: Collection[int] | None, now: datetime) -> int:
    """Plan and write in one go, for a few memories; says how many edges changed."""
    return carry_out(connection, workspace, plan(connection, workspace, memories), now)


def relink(reader: Connection, workspace: int, write: Callable[[Work], Any], now: datetime) -> int:
    """Bring all edges of a workspace in step with what is mentioned and tagged; says how many changed.

    Reads on the caller's thread; `write` runs a piece of work in a short transaction of its own.
    """
    changed = 0
    for part in plan(reader, workspace).parts():
        changed += write(partial(carry_out, workspace=workspace, made=part, now=now))
    return changed


def _settle(connection: Connection, workspace: int, triple: Triple, now: str) -> int:
    """Make an edge what the mentions say of it."""
    change = _difference(connection, triple)
    if change is None:
        return 0
    if change.drop:
        # Whether the two are alike was not asked while someone said that they belong together.
        connection.execute("UPDATE memories SET compared = '' WHERE id = ?", (triple[0],))
        return connection.execute("DELETE FROM edges WHERE id = ?", (change.number,)).rowcount
    if change.number is None:
        return _insert(connection, workspace, triple, change.weight, change.origin, now)
    connection.execute(
        "UPDATE edges SET origin = ?, base = ?, weight = ?, removed = ? WHERE id = ?",
        (change.origin, change.weight, change.weight, change.removed, change.number),
    )
    return 1


@dataclass(frozen=True, slots=True)
class _EdgeChange:
    """How an edge differs from what is said of it."""

    number: int | None
    weight: float = 0.0
    origin: str = ""
    removed: int = 0
    drop: bool = False


def _difference(connection: Connection, triple: Triple) -> _EdgeChange | None:
    one, other, rel = triple
    said = _said(connection, one, other, rel)
    row = connection.execute("SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?", triple).fetchone()
    if said is None:
        gone = row is not None and row["origin"] in (DECLARED, WRITTEN) and not row["removed"]
        return _EdgeChange(row["id"], drop=True) if gone else None
    weight, origin = said
    if row is None:
        return _EdgeChange(None, weight, origin)
    base = strengthened(weight, row["accesses"])
    # Someone who declares it again takes back that it was removed; a word in the text does not.
    removed = 1 if row["removed"] == 1 and origin == WRITTEN else 0
    now = (row["origin"], row["removed"], row["base"], row["weight"])
    same = now[:2] == (origin, removed) and abs(now[2] - base) < TINY and abs(now[3] - base) < TINY
    return None if same else _EdgeChange(row["id"], base, origin, removed)


def _said(connection: Connection, one: int, other: int, rel: str) -> tuple[float, str] | None:
    """The weight and origin that mentions give an edge; the declared and the heaviest one counts."""
    rows = connection.execute(
        "SELECT t.origin, t.weight FROM mentions t WHERE t.rel = ?3 AND ((t.memory = ?1 AND t.found = ?2)"
        " OR (?4 AND t.memory = ?2 AND t.found = ?1))",
        (one, other, rel, rel == RELATED),
    ).fetchall()
    usual = RELATIONS[rel]
    said = [(row["origin"] == DECLARED, usual if row["weight"] is None else row["weight"]) for row in rows]
    best = max(said, default=None)
    return (best[1], DECLARED if best[0] else WRITTEN) if best else None


def _insert(connection: Connection, workspace: int, triple: Triple, weight: float, origin: str, now: str) -> int:
    return connection.execute(
        "INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (workspace, *triple, weight, weight, origin, now),
    ).rowcount


def between(connection: Connection, one: int, other: int, rel: str) -> list[Row]:
    """The mentions that make an edge of two memories; where it has no direction, those of either."""
    return connection.execute(
        "SELECT memory, target, origin FROM mentions WHERE rel = ?3 AND ((memory = ?1 AND found = ?2)"
        " OR (?4 AND memory = ?2 AND found = ?1))",
        (one, other, rel, rel == RELATED),
    ).fetchall()
