"""Counts everything that is kept of some workspaces, and what it takes on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.query.lookup import IS_PINNED
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views.peek import KEPT, ids_of, keyed

FEW = 5
"""How many of the most and the least used are named."""
AMONG = "IN (SELECT value FROM json_each(:in))"
HERE = f"FROM {KEPT} WHERE m.file IS NOT NULL AND m.workspace {AMONG}"

Told = dict[str, Any]


def stats(stores: Stores, indexes: Sequence[WorkspaceIndex]) -> Told:
    """What there is of everything."""
    connection, asked = stores.ledger.reader, {"in": ids_of(indexes)}
    return {
        "files": sum(len(index.files) for index in indexes),
        "memories": _memories(connection, asked),
        "chunks": _one(connection, f"SELECT COUNT(*) FROM chunks WHERE workspace {AMONG}", asked),
        "vectors": sum(len(index.mirror) for index in indexes if index.mirror is not None),
        "versions": _one(
            connection,
            f"SELECT COUNT(*) FROM memories m JOIN versions v ON v.memory = m.id WHERE m.workspace {AMONG}",
            asked,
        ),
        "actions": _one(connection, f"SELECT COUNT(*) FROM actions WHERE workspace {AMONG}", asked),
        "edges": _edges(connection, asked),
        "accesses": _accesses(connection, asked),
        "most_used": _used(connection, indexes, "m.accesses > 0", "m.accesses DESC, m.accessed DESC"),
        "least_used": _used(connection, indexes, "1", "m.accesses, COALESCE(m.accessed, m.first_seen)"),
        "disk": _disk(stores.folder),
    }


def _one(connection: Connection, question: str, asked: Told) -> int:
    return int(connection.execute(question, asked).fetchone()[0])


def _grouped(connection: Connection, column: str, where: str, asked: Told) -> dict[str, int]:
    rows = connection.execute(f"SELECT {column} AS name, COUNT(*) AS n {where} GROUP BY 1 ORDER BY 1", asked)
    return {row["name"]: row["n"] for row in rows}


def _memories(connection: Connection, asked: Told) -> Told:
    by = {name: _grouped(connection, f"m.{name}", HERE, asked) for name in ("tier", "kind", "role")}
    gone = f"SELECT COUNT(*) FROM memories WHERE gone IS NOT NULL AND workspace {AMONG}"
    pinned = f"SELECT COUNT(*) FROM memories m WHERE m.file IS NOT NULL AND m.workspace {AMONG} AND {IS_PINNED}"
    return {
        "total": sum(by["tier"].values()),
        **by,
        "pinned": _one(connection, pinned, asked),
        "gone": _one(connection, gone, asked),
    }


def _edges(connection: Connection, asked: Told) -> Told:
    # Those that `edge list` shows: both ends are there.
    living = "EXISTS (SELECT 1 FROM memories m WHERE m.id = {} AND m.file IS NOT NULL)"
    ends = f"{living.format('one')} AND {living.format('other')}"
    where = f"FROM edges WHERE NOT removed AND workspace {AMONG} AND {ends}"
    by = {name: _grouped(connection, name, where, asked) for name in ("rel", "origin")}
    return {"total": sum(by["rel"].values()), **by}


def _accesses(connection: Connection, asked: Told) -> Told:
    """What was counted, and what the next reflect will count."""
    row = connection.execute(
        "SELECT COALESCE(SUM(accesses), 0) AS counted, COUNT(accessed) AS memories, COALESCE(SUM(useful), 0) AS useful"
        f" FROM memories m WHERE m.file IS NOT NULL AND +m.workspace {AMONG}",
        asked,
    ).fetchone()
    waiting = "SELECT COUNT(*) FROM accesses a JOIN memories m ON m.id = a.memory WHERE NOT a.counted AND m.workspace"
    return {**dict(row), "waiting": _one(connection, f"{waiting} {AMONG}", asked)}


def _used(connection: Connection, indexes: Sequence[WorkspaceIndex], clause: str, order: str) -> list[Told]:
    rows: list[Row] = connection.execute(
        "SELECT m.workspace, m.slug, m.heading, m.tier, m.accesses, m.days, m.accessed, f.path, f.stem"
        f" FROM memories m JOIN files f ON f.id = m.file WHERE +m.workspace {AMONG} AND {clause}"
        f" ORDER BY {order}, m.id LIMIT {FEW}",
        {"in": ids_of(indexes)},
    ).fetchall()
    plain = ("heading", "tier", "accesses", "days", "accessed")
    return [{**told, **{name: row[name] for name in plain}} for told, row in keyed(connection, indexes, rows)]


def _disk(folder: Path) -> dict[str, int]:
    """Bytes of all workspaces together, as the files are long."""
    places = {"ledger": folder.glob("state.db*"), "text": (folder / "text").rglob("*"),
              "chroma": (folder / "chroma").rglob("*"), "backups": (folder / "backups").glob("*")}  # fmt: skip
    return {name: sum(_size(file) for file in files) for name, files in places.items()}


def _size(file: Path) -> int:
    """0 for a folder, and for what was there a moment ago."""
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0
