"""Writes that wait for a person: a request as it came, with who made it; gone as soon as it is decided."""

from __future__ import annotations

import hashlib
import json
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import Busy
from memd.indexer.record.actions import now

MOST = 500
"""Proposals of one workspace that may wait."""
SIGNATURE = ("now", "request_id")
"""What differs when someone asks for the same once more."""


def add(connection: Connection, workspace: int, who: str, method: str, params: dict[str, Any]) -> int:
    """Keep a request; the number of the proposal, which is the old one where the same waits already."""
    asked = {name: value for name, value in params.items() if name not in SIGNATURE}
    digest = hashlib.sha256(json.dumps([who, method, asked], sort_keys=True).encode()).hexdigest()
    same = "SELECT id FROM proposals WHERE workspace = ? AND digest = ?"
    if row := connection.execute(same, (workspace, digest)).fetchone():
        return int(row["id"])
    (waiting,) = connection.execute("SELECT COUNT(*) FROM proposals WHERE workspace = ?", (workspace,)).fetchone()
    if waiting >= MOST:
        raise Busy(f"{MOST} proposals wait here already, and this one was not kept", "memd proposal list")
    # An id, so that a repeated acceptance is carried out once.
    signed = {"request_id": f"proposal:{digest}:{now()}", **params}
    inserted = connection.execute(
        "INSERT INTO proposals (workspace, at, who, method, params, digest) VALUES (?, ?, ?, ?, ?, ?)",
        (workspace, now(), who, method, json.dumps(signed, ensure_ascii=False), digest),
    )
    return int(inserted.lastrowid or 0)


def waiting(connection: Connection, workspaces: list[int]) -> list[Row]:
    """The proposals of some workspaces, oldest first."""
    query = "SELECT * FROM proposals WHERE workspace IN (SELECT value FROM json_each(?)) ORDER BY id"
    return connection.execute(query, (json.dumps(workspaces),)).fetchall()


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT COUNT(*) FROM proposals").fetchone()[0])


def drop(connection: Connection, proposal: int) -> None:
    connection.execute("DELETE FROM proposals WHERE id = ?", (proposal,))
