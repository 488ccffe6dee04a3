"""What the ledger observed of each memory: reads lives for the rules, and moves tiers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.record import actions, life_changes
from memd.lifecycle.lives import BASE, Life
from memd.models import Tier

COLUMNS = (
    "m.id, m.tier, m.kind, m.role, m.first_seen, m.tags, m.declared, m.importance, m.accesses, m.days, m.accessed,"
    " m.useful, m.moved, m.moved_by, m.home,"
    " EXISTS (SELECT 1 FROM edges e JOIN memories k ON k.id = e.other WHERE e.one = m.id AND e.rel = 'merged_into'"
    " AND NOT e.removed AND k.file IS NOT NULL) AS merged"
)
TIER = ("tier", "moved", "moved_by", "moved_why", "home")
"""The columns that a move changes."""


@dataclass(frozen=True, slots=True)
class TierMove:
    """A memory that goes to another tier, and why."""

    memory: int
    tier: Tier
    by: str
    """`rule:<name>`, or who decided it."""
    why: str


def life_of(connection: Connection, memory: int) -> Life:
    return _life(connection.execute(f"SELECT {COLUMNS} FROM memories m WHERE m.id = ?", (memory,)).fetchone())


def lives(connection: Connection, workspace: int, after: int = 0, most: int = 500) -> list[Life]:
    """The lives of the memories that are in files, by number, a page at a time."""
    rows = connection.execute(
        # The plus makes SQLite read by number: with an index of the workspace, every page would sort all rows.
        f"SELECT {COLUMNS} FROM memories m WHERE +m.workspace = ? AND +m.file IS NOT NULL AND m.id > ?"
        " ORDER BY m.id LIMIT ?",
        (workspace, after, most),
    )
    return [_life(row) for row in rows]


def _life(row: Row) -> Life:
    declared = _read(row["declared"])
    importance = declared.get("importance")
    as_they_are = ("tier", "kind", "role", "importance", "accesses", "days", "useful", "moved_by", "home")
    return Life(
        memory=row["id"],
        first_seen=datetime.fromisoformat(row["first_seen"]),
        pinned=bool(declared.get("pinned")),
        tags=tuple(_read(row["tags"])),
        base=BASE if importance is None else float(importance),
        accessed=_moment(row["accessed"]),
        moved=_moment(row["moved"]),
        merged=bool(row["merged"]),
        **{name: row[name] for name in as_they_are},
    )


_read = lru_cache(maxsize=1_000)(json.loads)
"""Cached: most memories declare nothing, or the same as many others. Callers must not change the value."""


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def holders(connection: Connection, chunks: Sequence[int]) -> list[int]:
    """The memories of some chunks that still exist."""
    rows = connection.execute(
        "SELECT DISTINCT memory FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(chunks)),)
    )
    return [row[0] for row in rows] if chunks else []


def within(connection: Connection, workspace: int, memories: Sequence[int]) -> list[int]:
    """The memories of these that belong to a workspace."""
    rows = connection.execute(
        "SELECT id FROM memories WHERE workspace = ? AND id IN (SELECT value FROM json_each(?))",
        (workspace, json.dumps(list(memories))),
    )
    return [row[0] for row in rows]


# --- changes -------------------------------------------------------------------------------------------


def move(connection: Connection, action: int, nth: int, move: TierMove, now: datetime) -> bool:
    """Move a memory to another tier, as an undoable change; False if it is already there or gone."""
    row = connection.execute(
        f"SELECT {', '.join(TIER)} FROM memories WHERE id = ? AND file IS NOT NULL", (move.memory,)
    ).fetchone()
    if row is None or row["tier"] == move.tier:
        return False
    after = dict(zip(TIER, (move.tier, actions.in_utc(now), move.by, move.why, row["tier"]), strict=True))
    put(connection, move.memory, after)
    life_changes.keep(connection, action, nth, move.memory, "tier", dict(row), after)
    return True


def last_moves(connection: Connection, memories: Sequence[int]) -> dict[int, dict[str, str]]:
    """The last move of each memory: from where, to where, why."""
    rows = connection.execute(
        "SELECT id, home, tier, moved_why FROM memories WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(memories)),),
    )
    return {row["id"]: {"from": row["home"], "to": row["tier"], "why": row["moved_why"]} for row in rows}


def put(connection: Connection, memory: int, tier: dict[str, Any]) -> None:
    """Write the columns that a move changes."""
    named = ", ".join(f"{name} = :{name}" for name in TIER)
    connection.execute(f"UPDATE memories SET {named} WHERE id = :memory", {**tier, "memory": memory})


def fade(connection: Connection, importances: Iterable[tuple[int, float]]) -> None:
    """Write the importance of memories after fading."""
    connection.executemany(
        "UPDATE memories SET importance = ?2 WHERE id = ?1",
        [(memory, round(value, 6)) for memory, value in importances],
    )


def found_useful(connection: Connection, action: int, nth: int, memory: int) -> int:
    """Count that someone found a memory useful; returns how often in all."""
    row = connection.execute(
        "UPDATE memories SET useful = useful + 1 WHERE id = ? RETURNING useful", (memory,)
    ).fetchone()
    life_changes.keep(connection, action, nth, memory, "useful", row["useful"] - 1, row["useful"])
    return int(row["useful"])


def has_feedback(connection: Connection, workspace: int) -> bool:
    """Whether anyone ever marked a memory of this workspace as useful."""
    found = connection.execute("SELECT 1 FROM memories WHERE workspace = ? AND useful > 0 LIMIT 1", (workspace,))
    return found.fetchone() is not None
