"""Looks into the memory without asking it anything: the index card, one line a memory, what rests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.query import lookup
from memd.indexer.store.stores import WorkspaceIndex
from memd.lifecycle import summary_card
from memd.lifecycle.summary_card import NameList, WorkspaceSummary

DAYS = 8
"""Days that a card could have room for."""
NAMES = 60
"""And names of one sort."""
KEPT = "memories m INDEXED BY memories_kept"
"""The index has all that is counted: a look at 10,000 memories reads none of their rows."""
THERE = f"m.workspace = :w AND m.file IS NOT NULL AND {lookup.ALIVE}"

Told = dict[str, Any]


def ids_of(indexes: Iterable[WorkspaceIndex]) -> str:
    """Workspaces for `IN (SELECT value FROM json_each(…))`."""
    return json.dumps([index.id for index in indexes])


def keyed(connection: Connection, indexes: Iterable[WorkspaceIndex], rows: Sequence[Row]) -> list[tuple[Told, Row]]:
    """Rows of memories, each with its workspace's name and its key."""
    names, shared = {index.id: index.workspace.ns for index in indexes}, dict[int, set[str]]()
    for number in {row["workspace"] for row in rows}:
        stems = [row["stem"] for row in rows if row["workspace"] == number]
        shared[number] = lookup.shared_stems(connection, number, stems)
    return [
        (
            {
                "ns": names[row["workspace"]],
                "key": lookup.key_of(row["stem"], row["path"], row["slug"], shared[row["workspace"]]),
            },
            row,
        )
        for row in rows
    ]


# --- the card -----------------------------------------------------------------------------------------------


def peek(connection: Connection, indexes: Sequence[WorkspaceIndex]) -> Told:
    """What the memory holds, as Markdown for a prompt."""
    text = summary_card.cards([_holding(connection, index) for index in indexes])
    return {"text": text, "tokens": summary_card.tokens(text)}


def _holding(connection: Connection, index: WorkspaceIndex) -> WorkspaceSummary:
    asked = {"w": index.id, "days": DAYS, "names": NAMES}
    tiers = connection.execute(f"SELECT m.tier, COUNT(*) FROM {KEPT} WHERE {THERE} GROUP BY m.tier", asked)
    days = connection.execute(
        f"SELECT m.date AS day, COUNT(*) OVER () AS total FROM {KEPT}"
        f" WHERE {THERE} AND m.role = 'daily' AND m.date <> '' GROUP BY m.date ORDER BY m.date DESC LIMIT :days",
        asked,
    ).fetchall()
    total = days[0]["total"] if days else 0
    return WorkspaceSummary(
        index.workspace.ns,
        len(index.files),
        dict(tiers.fetchall()),
        _names(connection, index, lookup.IS_PINNED, asked, "key"),
        _names(connection, index, "m.role = 'memory' AND m.slug <> ''", asked, "heading"),
        _names(connection, index, "m.role = 'topic'", asked, "key"),
        _headings(connection, [row["day"] for row in days], asked),
        total - len(days),
    )


def _names(connection: Connection, index: WorkspaceIndex, clause: str, asked: Told, name: str) -> NameList:
    rows = connection.execute(
        "SELECT m.workspace, m.heading, m.slug, f.path, f.stem, COUNT(*) OVER () AS total"
        f" FROM memories m JOIN files f ON f.id = m.file WHERE {THERE} AND {clause}"
        " ORDER BY m.importance DESC, m.date DESC, f.path, m.start_line LIMIT :names",
        asked,
    ).fetchall()
    found = [told["key"] if name == "key" else row[name] for told, row in keyed(connection, [index], rows)]
    return NameList(found, rows[0]["total"] if rows else 0)


def _headings(connection: Connection, days: Sequence[str], asked: Told) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {day: [] for day in days}
    rows = connection.execute(
        "SELECT m.date, m.heading FROM memories m JOIN files f ON f.id = m.file"
        f" WHERE {THERE} AND m.role = 'daily' AND m.slug <> '' AND m.date IN (SELECT value FROM json_each(:list))"
        " ORDER BY f.path, m.start_line",
        {**asked, "list": json.dumps(days)},
    )
    for row in rows:
        found[row["date"]].append(row["heading"])
    return list(found.items())


# --- every memory -------------------------------------------------------------------------------------------


def tree(connection: Connection, indexes: Sequence[WorkspaceIndex], path: str, offset: int, limit: int) -> Told:
    """A page of the memories in the order of their files, without their texts."""
    asked = {"in": ids_of(indexes), "path": path.rstrip("/"), "offset": offset, "limit": limit}
    clause = (
        # The files first, in their order: their index has it.
        "FROM files f CROSS JOIN memories m ON m.file = f.id"
        " WHERE f.workspace IN (SELECT value FROM json_each(:in)) AND (:path = '' OR f.path = :path"
        " OR f.path GLOB :path OR substr(f.path, 1, length(:path) + 1) = :path || '/')"
    )
    total = connection.execute(f"SELECT COUNT(*) {clause}", asked).fetchone()[0]
    rows = connection.execute(
        f"SELECT m.workspace, m.slug, m.heading, m.start_line, m.kind, m.tier, m.date, m.importance,"
        f" {lookup.IS_PINNED} AS pinned, f.path, f.stem {clause}"
        " ORDER BY f.workspace, f.path, m.start_line LIMIT :limit OFFSET :offset",
        asked,
    ).fetchall()
    return {"memories": [_leaf(told, row) for told, row in keyed(connection, indexes, rows)], "total": total}


def _leaf(told: Told, row: Row) -> Told:
    plain = {name: row[name] for name in ("path", "start_line", "heading", "kind", "tier", "date", "importance")}
    return {**told, **plain, "pinned": bool(row["pinned"])}


def dormant(connection: Connection, indexes: Sequence[WorkspaceIndex], limit: int) -> tuple[list[Told], int]:
    """The memories that rest, those that have done so longest first, and how many there are in all."""
    asked = {"in": ids_of(indexes), "limit": limit}
    rows = connection.execute(
        "SELECT m.workspace, m.slug, m.heading, m.start_line, m.moved, m.moved_by, m.moved_why, f.path, f.stem,"
        f" COUNT(*) OVER () AS total FROM {KEPT} JOIN files f ON f.id = m.file"
        " WHERE m.tier = 'dormant' AND m.workspace IN (SELECT value FROM json_each(:in))"
        " ORDER BY m.moved, m.workspace, f.path, m.start_line LIMIT :limit",
        asked,
    ).fetchall()
    plain = ("path", "start_line", "heading", "moved", "moved_by", "moved_why")
    told = [{**named, **{name: row[name] for name in plain}} for named, row in keyed(connection, indexes, rows)]
    return told, rows[0]["total"] if rows else 0
