"""The ledger's side of the nightly exam: the chunks that probes are made from, and the trend of the results."""

from __future__ import annotations

from sqlite3 import Connection

from memd.exam.probes import MANY, ProbePassage
from memd.indexer.query.lookup import keys_of
from memd.models import JsonObject

KEPT = 30
"""Results that are kept for a workspace: one a day, so about a month."""


def passages(connection: Connection, workspace: int, ns: str) -> list[ProbePassage]:
    """The chunks of a workspace; of a very large one a part, chosen by content."""
    rows = connection.execute(
        "SELECT c.workspace, c.text, c.start_line, c.end_line, m.slug, m.date, f.path, f.stem FROM chunks c"
        " JOIN memories m ON m.id = c.memory JOIN files f ON f.id = c.file WHERE c.workspace = ?"
        " ORDER BY c.digest, c.id LIMIT ?",
        (workspace, MANY),
    ).fetchall()
    columns = ("path", "start_line", "end_line", "text", "date")
    keyed = zip(keys_of(connection, rows), rows, strict=True)
    return [ProbePassage(ns, key, *(row[name] for name in columns)) for key, row in keyed]


def keep(connection: Connection, workspace: int, date: str, report: JsonObject) -> None:
    """Keep a result; a second one of a day replaces the first."""
    connection.execute(
        "INSERT OR REPLACE INTO exams (workspace, date, probes, recall, p95_ms) VALUES (?, ?, ?, ?, ?)",
        (workspace, date, report["questions"], report["figures"]["recall@5"], report["p95_ms"]),
    )
    connection.execute(
        "DELETE FROM exams WHERE workspace = ?1 AND date NOT IN"
        " (SELECT date FROM exams WHERE workspace = ?1 ORDER BY date DESC LIMIT ?2)",
        (workspace, KEPT),
    )


def trend(connection: Connection, workspace: int, most: int = KEPT) -> list[JsonObject]:
    """The last results, newest first."""
    rows = connection.execute(
        "SELECT date, probes, recall, p95_ms FROM exams WHERE workspace = ? ORDER BY date DESC LIMIT ?",
        (workspace, most),
    )
    return [dict(row) for row in rows]
