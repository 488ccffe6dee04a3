"""What one task looks at: memories read once, and then only reckoned with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from sqlite3 import Connection, Row

from memd.indexer.query import lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle.composite import MemoryStanding
from memd.models import Ask

COLUMNS = (
    "m.id, m.workspace, m.slug, m.heading, m.start_line, m.end_line, m.digest, m.body, m.kind, m.tier, m.role, m.date,"
    " m.declared, m.importance, m.accesses, f.path, f.stem"
    f", {lookup.IS_PINNED} AS pinned"
)
TABLES = "memories m JOIN files f ON f.id = m.file"


@dataclass(frozen=True, slots=True)
class ContextTask:
    """A task, and how much may be said about it."""

    ask: Ask
    budget: int
    min_score: float = 0.0
    min_spread: float = 0.0


@dataclass(slots=True)
class ContextInputs:
    """Everything that one task looks at: read once, and then only reckoned with."""

    stores: Stores
    indexes: dict[int, WorkspaceIndex]
    wanted: ContextTask
    rows: dict[int, Row] = field(default_factory=dict)
    shared: dict[int, set[str]] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        return self.stores.ledger.reader

    def know(self, memories: Iterable[int]) -> None:
        """Read the memories that are not known yet; what is gone or has run out stays unknown."""
        new = [memory for memory in memories if memory not in self.rows]
        self.take(rows(self.connection, "m.id IN (SELECT value FROM json_each(?))", json.dumps(new)) if new else [])

    def take(self, rows: Iterable[Row]) -> None:
        self.rows |= {row["id"]: row for row in rows}

    def key(self, memory: int) -> str:
        row = self.rows[memory]
        return lookup.key_of(row["stem"], row["path"], row["slug"], self.shared.get(row["workspace"], set()))

    def ns(self, memory: int) -> str:
        return self.indexes[self.rows[memory]["workspace"]].workspace.ns

    def place(self, memory: int) -> tuple[str, int, int]:
        """Where it stands: what is worth the same is shown in this order."""
        row = self.rows[memory]
        return row["path"], row["start_line"], memory


def rows(connection: Connection, clause: str, value: object) -> list[Row]:
    return connection.execute(f"SELECT {COLUMNS} FROM {TABLES} WHERE {clause} AND {lookup.ALIVE}", (value,)).fetchall()


def standing(row: Row, relevant: float) -> MemoryStanding:
    # MEMORY.md never ages, whenever it was last changed.
    day = None if row["role"] == "memory" else lookup.day_of(row)
    return MemoryStanding(row["id"], relevant, row["kind"], row["tier"], row["importance"], row["accesses"], day,
                    bool(row["pinned"]))  # fmt: skip
