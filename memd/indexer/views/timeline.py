"""Day by day: what the notes of a day are about, and what was done on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from sqlite3 import Connection, Row
from typing import Any

from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views.peek import KEPT, ids_of, keyed

HEADINGS = 8
"""Notes of a day that are named; the others are counted."""
KEYS = 3
"""Deeds of one sort and day that are named."""
AMONG = "IN (SELECT value FROM json_each(:in))"
DAY = "date({}, 'localtime')"
WITHIN = "{0} <> '' AND {0} >= :since AND (:until = '' OR substr({0}, 1, length(:until)) <= :until)"

Told = dict[str, Any]


def timeline(connection: Connection, indexes: Sequence[WorkspaceIndex], since: str, until: str, limit: int) -> Told:
    """The last days on which something was noted or done, the newest first."""
    asked = {"in": ids_of(indexes), "since": since, "until": until, "keys": KEYS, "headings": HEADINGS}
    notes = _notes(connection, asked)
    written, moves, deeds = (_by_day(part(connection, asked)) for part in (_written, _moves, _deeds))
    days = sorted(notes.keys() | written.keys() | moves.keys() | deeds.keys(), reverse=True)
    headings = _headings(connection, indexes, {**asked, "days": json.dumps(days[:limit])})
    told = [
        {
            "date": day,
            "notes": notes.get(day, 0),
            "headings": headings.get(day, []),
            "written": {row["what"]: row["n"] for row in written.get(day, ())},
            "moves": {row["what"]: row["n"] for row in moves.get(day, ())},
            "deeds": [_deed(row) for row in deeds.get(day, ())],
        }
        for day in days[:limit]
    ]
    return {"days": told, "total": len(days)}


def _by_day(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["day"], []).append(row)
    return found


def _notes(connection: Connection, asked: Told) -> dict[str, int]:
    rows = connection.execute(
        f"SELECT m.date, COUNT(*) FROM {KEPT} WHERE m.file IS NOT NULL AND m.workspace {AMONG}"
        f" AND {WITHIN.format('m.date')} GROUP BY m.date",
        asked,
    )
    return dict(rows.fetchall())


def _headings(connection: Connection, indexes: Sequence[WorkspaceIndex], asked: Told) -> dict[str, list[Told]]:
    """What the first notes of some days are about."""
    rows = connection.execute(
        "SELECT * FROM (SELECT m.workspace, m.date, m.heading, m.slug, m.tier, f.path, f.stem, m.start_line,"
        " ROW_NUMBER() OVER (PARTITION BY m.date ORDER BY m.workspace, f.path, m.start_line) AS nth"
        f" FROM {KEPT} JOIN files f ON f.id = m.file WHERE m.workspace {AMONG}"
        " AND m.date IN (SELECT value FROM json_each(:days))) WHERE nth <= :headings ORDER BY date, nth",
        asked,
    ).fetchall()
    found: dict[str, list[Told]] = {}
    for told, row in keyed(connection, indexes, rows):
        entry = {**told, "heading": row["heading"] or row["stem"], "tier": row["tier"]}
        found.setdefault(row["date"], []).append(entry)
    return found


def _written(connection: Connection, asked: Told) -> list[Row]:
    """Texts that came, changed and went, whoever wrote them."""
    day = DAY.format("v.at")
    return connection.execute(
        f"SELECT {day} AS day, CASE WHEN v.digest IS NULL THEN 'removed' WHEN v.number = 1 THEN 'added'"
        " ELSE 'changed' END AS what, COUNT(*) AS n FROM memories m JOIN versions v ON v.memory = m.id"
        f" WHERE m.workspace {AMONG} AND {WITHIN.format(day)} GROUP BY 1, 2 ORDER BY 2",
        asked,
    ).fetchall()


def _moves(connection: Connection, asked: Told) -> list[Row]:
    """Memories that went to another tier and were not called back."""
    day = DAY.format("a.at")
    return connection.execute(
        f"SELECT {day} AS day, json_extract(s.\"after\", '$.tier') AS what, COUNT(*) AS n FROM actions a"
        " JOIN shifts s ON s.action = a.id AND s.what = 'tier'"
        f" WHERE a.workspace {AMONG} AND a.undone IS NULL AND {WITHIN.format(day)} GROUP BY 1, 2 ORDER BY 2",
        asked,
    ).fetchall()


def _deeds(connection: Connection, asked: Told) -> list[Row]:
    """What memd did, by the sort of it; by name where it was little."""
    day = DAY.format("a.at")
    return connection.execute(
        "SELECT day, what, COUNT(*) AS n, CASE WHEN COUNT(*) <= :keys THEN json_group_array(key) ELSE '[]' END AS keys"
        f" FROM (SELECT {day} AS day, a.what, a.key FROM actions a WHERE a.state = 'done' AND a.workspace {AMONG}"
        f" AND {WITHIN.format(day)} ORDER BY a.id) GROUP BY day, what ORDER BY day, what",
        asked,
    ).fetchall()


def _deed(row: Row) -> Told:
    return {"what": row["what"], "count": row["n"], "keys": [key for key in json.loads(row["keys"]) if key]}
