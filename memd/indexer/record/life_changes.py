"""What an action changed of a memory's life: before and after, so that it can be read and undone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any


@dataclass(frozen=True, slots=True)
class LifeChange:
    """One change of a memory's life.

    `tier`: the columns that a move changes. `useful`: the count of useful votes. `edge`: `{one, other, rel, removed}`.
    """

    memory: int
    what: str
    before: Any
    after: Any


def keep(connection: Connection, action: int, nth: int, memory: int, what: str, before: Any, after: Any) -> None:
    connection.execute(
        'INSERT INTO shifts (action, nth, memory, what, "before", "after") VALUES (?, ?, ?, ?, ?, ?)',
        (action, nth, memory, what, json.dumps(before), json.dumps(after)),
    )


def of(connection: Connection, action: int) -> list[LifeChange]:
    """What an action changed, in order."""
    rows = connection.execute("SELECT * FROM shifts WHERE action = ? ORDER BY nth", (action,))
    return [LifeChange(row["memory"], row["what"], json.loads(row["before"]), json.loads(row["after"])) for row in rows]
