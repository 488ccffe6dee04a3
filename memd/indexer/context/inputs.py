"""What one task looks at: memories are read once, and everything after that is computed."""

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
    f" m.declared, m.importance, m.accesses, f.path, f.stem, {lookup.IS_PINNED} AS pinned"
)


@dataclass(frozen=True, slots=True)
class ContextTask:
    """A task, and how many tokens its context may have."""

    ask: Ask
    budget: int
    min_score: float = 0.0
    min_spread: float = 0.0


@dataclass(slots=True)
class ContextInputs:
    """The memories that a task looks at."""

    stores: Stores
    indexes: dict[int, WorkspaceIndex]
    task: ContextTask
    rows: dict[int, Row] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    """Of the memories that may be shown."""

    @property
    def connection(self) -> Connection:
        return self.stores.ledger.reader

    def read(self, memories: Iterable[int]) -> None:
        """Read memories that are not known yet, without those that are gone or have expired."""
        new = json.dumps([memory for memory in memories if memory not in self.rows])
        self._select("m.id IN (SELECT value FROM json_each(?))", new)

    def read_pinned(self) -> None:
        for workspace in self.indexes:
            self._select(f"m.workspace = ? AND {lookup.IS_PINNED}", workspace)

    def _select(self, clause: str, value: object) -> None:
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM memories m JOIN files f ON f.id = m.file WHERE {clause} AND {lookup.ALIVE}",
            (value,),
        )
        self.rows |= {row["id"]: row for row in rows}

    def name(self, memories: Iterable[int]) -> None:
        """Look up the keys of memories."""
        rows = [self.rows[memory] for memory in memories]
        self.keys = dict(zip((row["id"] for row in rows), lookup.keys_of(self.connection, rows), strict=True))

    def ns(self, memory: int) -> str:
        return self.indexes[self.rows[memory]["workspace"]].workspace.ns

    def place(self, memory: int) -> tuple[str, int, int]:
        """Where it stands: the order of memories with equal scores."""
        row = self.rows[memory]
        return row["path"], row["start_line"], memory

    def standing(self, memory: int, relevance: float = 0.0) -> MemoryStanding:
        row = self.rows[memory]
        # MEMORY.md never ages, whenever it was last changed.
        day = None if row["role"] == "memory" else lookup.day_of(row)
        return MemoryStanding(memory, relevance, row["kind"], row["tier"], row["importance"], row["accesses"], day,
                              bool(row["pinned"]))  # fmt: skip
