"""Edges in the ledger: which there are, how use and time change them, and how answers show them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Connection
from typing import Any, TypeVar

from memd.indexer.query import lookup
from memd.indexer.record import actions
from memd.lifecycle.edges import CONTAINS, OBSERVED, PRUNE, RELATED, REST, USED, Edge, faded, strengthened
from memd.models import Relation

LIVING = (
    "e.removed = 0 AND a.file IS NOT NULL AND b.file IS NOT NULL AND"
    f" {lookup.ALIVE.replace('m.', 'a.')} AND {lookup.ALIVE.replace('m.', 'b.')}"
)
"""Both ends are in files, and neither has expired."""

TABLES = "edges e CROSS JOIN memories a ON a.id = e.one CROSS JOIN memories b ON b.id = e.other"
COLUMNS = "e.id, e.one, e.other, e.rel, e.weight, e.origin, e.base, e.made, e.accesses, e.accessed"
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
    return connection.execute(
        "INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (workspace, *edge, weight, weight, origin, now),
    ).rowcount


def select(connection: Connection, clause: str, values: Sequence[object], order: str = "") -> list[Edge]:
    """The living edges that meet a clause."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM {TABLES} WHERE {clause} AND {LIVING} {order}", values)
    return [Edge(**dict(row)) for row in rows]


def of(
    connection: Connection, memories: Collection[int], *, rel: Relation | None = None, least: float = 0.0
) -> list[Edge]:
    """The edges of some memories, in both directions, the strongest first."""
    found: dict[int, Edge] = {}
    values = (json.dumps(list(memories)), rel, rel, least)
    for end in ("one", "other"):
        clause = f"e.{end} IN (SELECT value FROM json_each(?)) AND (? IS NULL OR e.rel = ?) AND e.weight >= ?"
        found |= {edge.id: edge for edge in select(connection, clause, values)}
    return sorted(found.values(), key=lambda edge: (-edge.weight, edge.one, edge.other, edge.rel))


def all_of(
    connection: Connection, workspace: int, *, rel: Relation | None = None, least: float = 0.0, most: int = -1
) -> list[Edge]:
    """The edges of a workspace, the strongest first."""
    clause = "e.workspace = ? AND (? IS NULL OR e.rel = ?) AND e.weight >= ?"
    order = "ORDER BY e.weight DESC, e.one, e.other, e.rel LIMIT ?"
    return select(connection, clause, (workspace, rel, rel, least, most), order)


def between(connection: Connection, one: int, other: int) -> list[Edge]:
    """The edges between two memories, in either direction."""
    return [edge for edge in of(connection, [one]) if edge.far(one) == other]


def untyped(connection: Connection, workspace: int, most: int) -> list[Edge]:
    """Linked pairs without a relation type, the strongest first."""
    clause = (
        "e.workspace = ? AND e.rel = ? AND NOT EXISTS (SELECT 1 FROM edges t WHERE t.rel <> e.rel AND t.removed = 0"
        " AND ((t.one = e.one AND t.other = e.other) OR (t.one = e.other AND t.other = e.one)))"
    )
    return select(connection, clause, (workspace, RELATED, most), "ORDER BY e.weight DESC, e.one, e.other LIMIT ?")


def contained(connection: Connection, workspace: int) -> dict[int, list[int]]:
    """The memories that each summary contains."""
    found: dict[int, list[int]] = {}
    for edge in all_of(connection, workspace, rel=CONTAINS):
        found.setdefault(edge.one, []).append(edge.other)
    return found


def remove(connection: Connection, action: int, edges: Sequence[Edge]) -> None:
    """Remove edges, as part of an action that can be undone."""
    for nth, edge in enumerate(edges):
        row = connection.execute("SELECT removed FROM edges WHERE id = ?", (edge.id,)).fetchone()
        ends = {"one": edge.one, "other": edge.other, "rel": edge.rel}
        connection.execute("UPDATE edges SET removed = ? WHERE id = ?", (TAKEN, edge.id))
        before, after = {**ends, "removed": row["removed"]}, {**ends, "removed": TAKEN}
        actions.keep_change(connection, action, nth, edge.one, "edge", before, after)


# --- use and time -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AgedEdges:
    """How many edges of a workspace changed."""

    strengthened: int = 0
    faded: int = 0
    pruned: int = 0


def count_uses(connection: Connection, workspace: int, done: AgedEdges) -> int:
    """Add up some entries of what was shown together, each once; returns how many there were."""
    rows = connection.execute(
        "SELECT t.one, t.other, t.client, t.hour FROM together t CROSS JOIN memories m ON m.id = t.one"
        " WHERE m.workspace = ? AND NOT t.counted LIMIT ?",
        (workspace, PAGE),
    ).fetchall()
    pairs: dict[tuple[int, int], list[str]] = {}
    for row in rows:
        pairs.setdefault((row["one"], row["other"]), []).append(row["hour"])
    for (one, other), hours in pairs.items():
        done.strengthened += _strengthen(connection, one, other, hours)
    connection.executemany(
        "UPDATE together SET counted = 1 WHERE one = ? AND other = ? AND client = ? AND hour = ?",
        [tuple(row) for row in rows],
    )
    return len(rows)


def _strengthen(connection: Connection, one: int, other: int, hours: Sequence[str]) -> int:
    """Strengthen the edges of two memories that were shown together; one that had faded away is back."""
    rows = connection.execute(
        "SELECT * FROM edges WHERE ((one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1)) AND removed <> ?3",
        (one, other, TAKEN),
    ).fetchall()
    for row in rows:
        base = strengthened(row["base"], len(hours)) if row["base"] else 0.0
        last = max(row["accessed"] or "", f"{max(hours)}:59:59.999+00:00")
        connection.execute(
            "UPDATE edges SET accesses = accesses + ?, base = ?, weight = ?, accessed = ?, removed = 0 WHERE id = ?",
            (len(hours), base, base, last, row["id"]),
        )
    return len(rows)


def fading(connection: Connection, workspace: int, now: datetime) -> list[tuple[int, float]]:
    """The edges that time has changed, with their new weight; reads only."""
    rows = connection.execute(
        "SELECT id, base, weight, origin, accesses, COALESCE(accessed, made) AS used FROM edges WHERE workspace = ?"
        " AND removed = 0 AND origin IN (?, ?) AND (weight <> base OR (accesses < ? AND COALESCE(accessed, made) < ?))",
        (workspace, *OBSERVED, USED, actions.in_utc(now - REST)),
    )
    found = []
    for row in rows:
        idle = now - datetime.fromisoformat(row["used"])
        weight = round(faded(row["base"], row["accesses"], idle, row["origin"]), 9)
        if abs(weight - row["weight"]) > TINY:
            found.append((row["id"], weight))
    return found


def fade(connection: Connection, weights: Iterable[tuple[int, float]], done: AgedEdges) -> None:
    """Write the faded weights; an edge below `PRUNE` withers."""
    for number, weight in weights:
        gone = weight < PRUNE
        connection.execute(
            "UPDATE edges SET weight = ?, removed = ? WHERE id = ?", (weight, WITHERED if gone else 0, number)
        )
        done.faded += not gone
        done.pruned += gone


# --- in answers ------------------------------------------------------------------------------------------------


def named(connection: Connection, workspace: int, memories: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Memories of a workspace as answers name them: key, path, line, heading, tier; those that are in a file."""
    rows = connection.execute(
        "SELECT m.id, m.slug, m.heading, m.start_line, m.tier, f.path, f.stem FROM memories m"
        " JOIN files f ON f.id = m.file WHERE m.id IN (SELECT value FROM json_each(?)) AND +m.workspace = ?",
        (json.dumps(sorted(set(memories))), workspace),
    ).fetchall()
    shared = lookup.shared_stems(connection, workspace, (row["stem"] for row in rows))
    return {
        row["id"]: {
            "key": lookup.key_of(row["stem"], row["path"], row["slug"], shared),
            **{name: row[name] for name in ("path", "start_line", "heading", "tier")},
        }
        for row in rows
    }


def edge_rows(edges: Iterable[Edge], names: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Edges as answers show them."""
    return [
        {
            "from": names[edge.one]["key"],
            "rel": edge.rel,
            "to": names[edge.other]["key"],
            "weight": round(edge.weight, 4),
            "origin": edge.origin,
            "accesses": edge.accesses,
        }
        for edge in edges
        if edge.one in names and edge.other in names
    ]


def excerpts(connection: Connection, memories: Iterable[int]) -> dict[int, str]:
    """The beginning of each memory."""
    rows = connection.execute(
        "SELECT memory, text FROM chunks WHERE memory IN (SELECT value FROM json_each(?))"
        " ORDER BY memory, start_line DESC, id DESC",
        (json.dumps(sorted(set(memories))),),
    )
    # The last row of a memory is its first chunk.
    firsts = {row["memory"]: row["text"] for row in rows}
    return {memory: text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…" for memory, text in firsts.items()}
