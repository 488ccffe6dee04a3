"""The observed facts of each memory: accesses, lives as rules see them, and moves between tiers."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import combinations
from sqlite3 import Connection, Row

from memd.indexer.record import actions
from memd.indexer.store import catalog
from memd.indexer.store.queries import queries
from memd.lifecycle.lives import Life, base_importance
from memd.models import JsonObject, Tier, pick

SQL = queries(__file__)
TIER = ("tier", "moved", "moved_by", "moved_why", "home", "deleted")
"""The columns that a move changes."""


@dataclass(frozen=True, slots=True)
class TierMove:
    """A memory that goes to another tier, and why."""

    memory: int
    tier: Tier
    by: str
    """`rule:<name>`, or who decided it."""
    why: str
    deletes: bool = False
    """It is in no answer any more, until it moves again."""


def life_of(connection: Connection, memory: int) -> Life:
    return _lives(connection, "m.id = :memory", memory=memory)[0]


def lives(
    connection: Connection, workspace: int, after: int = 0, most: int = 500, now: datetime | None = None
) -> list[Life]:
    """The lives of the memories that are in files, by number, a page at a time.

    With `now`, as the next reflection will leave them: with all accesses counted.
    """
    # The plus makes SQLite read by number: with an index of the workspace, every page would sort all rows.
    page = "+m.workspace = :workspace AND +m.file IS NOT NULL AND m.id > :after"
    return _lives(connection, page, now, most=most, workspace=workspace, after=after)


def _lives(connection: Connection, which: str, now: datetime | None = None, **values: object) -> list[Life]:
    values = {"most": -1, "now": actions.in_utc(now) if now else "", **values}
    return [_life(row) for row in connection.execute(SQL["lives"].format(which=which), values)]


def _life(row: Row) -> Life:
    declared = _read(row["declared"])
    as_they_are = ("tier", "kind", "role", "importance", "accesses", "days", "useful", "moved_by", "home", "inherited")
    return Life(
        memory=row["id"],
        first_seen=datetime.fromisoformat(row["first_seen"]),
        pinned=bool(declared.get("pinned")),
        tags=tuple(_read(row["tags"])),
        base=base_importance(declared.get("importance")),
        accessed=_moment(row["accessed"]),
        moved=_moment(row["moved"]),
        merged=bool(row["merged"]),
        deleted=bool(row["deleted"]),
        **pick(row, *as_they_are),
    )


_read = lru_cache(maxsize=1_000)(json.loads)
"""Cached: most memories declare nothing, or the same as many others. Callers must not change the value."""


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def holders(connection: Connection, chunks: Collection[int]) -> dict[int, int]:
    """The memory of each chunk that still exists."""
    return dict(catalog.among(connection, "SELECT id, memory FROM chunks WHERE id AMONG ?", chunks))


# --- changes ------------------------------------------------------------------------------------------------


def move(connection: Connection, action: int, nth: int, move: TierMove, now: datetime) -> bool:
    """Move a memory to another tier, as an undoable change; False if it is already there or gone."""
    query = f"SELECT {', '.join(TIER)} FROM memories WHERE id = ? AND file IS NOT NULL"
    row = connection.execute(query, (move.memory,)).fetchone()
    if row is None or (row["tier"] == move.tier and bool(row["deleted"]) == move.deletes):
        return False
    at = actions.in_utc(now)
    home = row["home"] if row["tier"] == move.tier else row["tier"]
    after = dict(zip(TIER, (move.tier, at, move.by, move.why, home, at if move.deletes else None), strict=True))
    update(connection, move.memory, after)
    actions.keep_change(connection, action, nth, move.memory, "tier", dict(row), after)
    return True


def update(connection: Connection, memory: int, columns: JsonObject) -> None:
    """Write some columns of a memory."""
    named = ", ".join(f"{name} = :{name}" for name in columns)
    connection.execute(f"UPDATE memories SET {named} WHERE id = :memory", {**columns, "memory": memory})


def last_moves(connection: Connection, memories: Sequence[int]) -> dict[int, dict[str, str]]:
    """The last move of each memory: from where, to where, why."""
    rows = catalog.among(connection, "SELECT id, home, tier, moved_why FROM memories WHERE id AMONG ?", memories)
    return {memory: {"from": home, "to": tier, "why": why} for memory, home, tier, why in rows}


def fade(connection: Connection, importances: Iterable[tuple[int, float]]) -> None:
    """Write the importance of memories after fading."""
    rounded = [(round(value, 6), memory) for memory, value in importances]
    connection.executemany("UPDATE memories SET importance = ? WHERE id = ?", rounded)


def found_useful(connection: Connection, action: int, nth: int, memory: int) -> int:
    """Count that someone found a memory useful; returns how often in all."""
    (useful,) = connection.execute(SQL["found_useful"], (memory,)).fetchone()
    actions.keep_change(connection, action, nth, memory, "useful", useful - 1, useful)
    return int(useful)


def has_feedback(connection: Connection, workspace: int) -> bool:
    """Whether anyone ever marked a memory of this workspace as useful."""
    return bool(catalog.number_of(connection, SQL["any_useful"], workspace))


# --- accesses: recorded at once, added up by the next reflection ----------------------------------------------


KEPT = timedelta(days=90)
"""How long a counted access is kept: who was shown a memory lately, and of what nobody said that it was useful."""


def record_accesses(
    connection: Connection, memories: Iterable[int], client: str, now: datetime, together: bool = False
) -> None:
    """Record that a client was shown some memories: once each per hour, counted by the next reflection."""
    seen = sorted(set(memories))
    hour = actions.in_utc(now)[:13]
    connection.executemany(SQL["shown"], [(memory, client, hour) for memory in seen])
    if together:
        pairs = [(one, other, client, hour) for one, other in combinations(seen, 2)]
        connection.executemany(SQL["shown_together"], pairs)


def uncounted(connection: Connection, workspace: int, after: int, most: int) -> list[int]:
    """Memories that were accessed since the last reflection, by number."""
    return [row[0] for row in connection.execute(SQL["uncounted"], (workspace, after, most))]


def count_accesses(connection: Connection, memories: Sequence[int], now: datetime) -> None:
    """Add up the accesses of some memories, each entry once."""
    which = "m.id IN (SELECT value FROM json_each(:memories))"
    page = _lives(connection, which, now, memories=json.dumps(list(memories)))
    counts = [(life.accesses, life.days, actions.in_utc(life.accessed or now), life.memory) for life in page]
    connection.executemany("UPDATE memories SET accesses = ?, days = ?, accessed = ? WHERE id = ?", counts)
    catalog.among(connection, "UPDATE accesses SET counted = 1 WHERE memory AMONG ?", memories)


def told_counts(connection: Connection, workspace: int) -> dict[int, int]:
    """How often each memory was shown in an hour in which the same client said what was useful."""
    return dict(connection.execute(SQL["told_counts"], (workspace,)))


def sweep_accesses(connection: Connection, now: datetime) -> None:
    """Delete counted entries that no further access can repeat."""
    before = actions.in_utc(now - KEPT)[:13]
    for table in ("accesses", "together"):
        connection.execute(f"DELETE FROM {table} WHERE counted AND hour < ?", (before,))
