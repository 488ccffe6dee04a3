"""Who was shown which memory: recorded at once, added up by the next reflection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from sqlite3 import Connection

from memd.indexer.record.actions import in_utc
from memd.lifecycle.lives import Life

KEPT = timedelta(days=1)
"""How long a counted access is kept, so that a client counts once an hour even if the clock is set back."""


def record(connection: Connection, memories: Iterable[int], client: str, now: datetime, together: bool = False) -> None:
    """Record that a client was shown some memories: once each per hour, counted by the next reflection."""
    seen = sorted(set(memories))
    hour = in_utc(now)[:13]
    known = "SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM memories WHERE id = ?1)"
    connection.executemany(
        f"INSERT OR IGNORE INTO accesses (memory, client, hour) {known}", [(memory, client, hour) for memory in seen]
    )
    if together:
        # Only linked pairs: others have nothing to strengthen.
        connection.executemany(
            "INSERT OR IGNORE INTO together (one, other, client, hour) SELECT ?1, ?2, ?3, ?4 WHERE EXISTS"
            " (SELECT 1 FROM edges WHERE (one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1))",
            [(one, other, client, hour) for one, other in combinations(seen, 2)],
        )


def uncounted(connection: Connection, workspace: int, after: int, most: int) -> list[int]:
    """Memories that were accessed since the last reflection, by number."""
    rows = connection.execute(
        "SELECT DISTINCT a.memory FROM accesses a JOIN memories m ON m.id = a.memory"
        " WHERE m.workspace = ? AND a.memory > ? AND NOT a.counted ORDER BY a.memory LIMIT ?",
        (workspace, after, most),
    )
    return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """The accesses of a memory since the last reflection."""

    times: int
    hours: frozenset[str]

    def days_after(self, known: str) -> int:
        """How many of its days are not counted yet."""
        return sum(day > known[:10] for day in {hour[:10] for hour in self.hours})

    def last_after(self, known: str, now: datetime) -> str:
        """When the memory was last accessed: the end of the last hour, or now."""
        end = datetime.fromisoformat(f"{max(self.hours)}:59:59.999+00:00")
        return max(known, in_utc(min(end, now)))


def _access_counts(connection: Connection, memories: Iterable[int]) -> dict[int, AccessCounts]:
    rows = connection.execute(
        "SELECT memory, COUNT(*) AS times, GROUP_CONCAT(DISTINCT hour) AS hours FROM accesses"
        " WHERE NOT counted AND memory IN (SELECT value FROM json_each(?)) GROUP BY memory",
        (json.dumps(list(memories)),),
    )
    return {row["memory"]: AccessCounts(row["times"], frozenset(row["hours"].split(","))) for row in rows}


def counted(connection: Connection, page: Sequence[Life], now: datetime) -> list[Life]:
    """Lives as the next reflection will leave them, with all accesses counted."""
    counts = _access_counts(connection, (life.memory for life in page))
    return [_with_counts(life, counts[life.memory], now) if life.memory in counts else life for life in page]


def _with_counts(life: Life, counts: AccessCounts, now: datetime) -> Life:
    known = in_utc(life.accessed) if life.accessed else ""
    return replace(
        life,
        accesses=life.accesses + counts.times,
        days=life.days + counts.days_after(known),
        accessed=datetime.fromisoformat(counts.last_after(known, now)),
    )


def count_accesses(connection: Connection, memories: Sequence[int], now: datetime) -> None:
    """Add up the accesses of some memories, each entry once."""
    for memory, counts in _access_counts(connection, memories).items():
        known = connection.execute("SELECT accessed FROM memories WHERE id = ?", (memory,)).fetchone()[0] or ""
        connection.execute(
            "UPDATE memories SET accesses = accesses + ?, days = days + ?, accessed = ? WHERE id = ?",
            (counts.times, counts.days_after(known), counts.last_after(known, now), memory),
        )
    connection.execute(
        "UPDATE accesses SET counted = 1 WHERE memory IN (SELECT value FROM json_each(?))",
        (json.dumps(list(memories)),),
    )


def sweep(connection: Connection, now: datetime) -> None:
    """Delete counted entries that no further access can repeat."""
    before = in_utc(now - KEPT)[:13]
    for table in ("accesses", "together"):
        connection.execute(f"DELETE FROM {table} WHERE counted AND hour < ?", (before,))
