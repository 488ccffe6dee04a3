"""The ledger's side of the nightly exam: the chunks that probes are made from, and the trend."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

from memd.exam.probes import MANY, ProbePassage
from memd.indexer.query.lookup import key_of, shared_stems

KEPT = 30
"""Results of a workspace that are kept: one a day, so about a month."""


def passages(connection: Connection, workspace: int, ns: str) -> list[ProbePassage]:
    """The chunks of a workspace; of a very large one those that come first by their content."""
    rows = connection.execute(
        "SELECT c.text, c.start_line, c.end_line, m.slug, m.date, f.path, f.stem FROM chunks c"
        " JOIN memories m ON m.id = c.memory JOIN files f ON f.id = c.file WHERE c.workspace = ?"
        " ORDER BY c.digest, c.id LIMIT ?",
        (workspace, MANY),
    ).fetchall()
    shared = shared_stems(connection, workspace, (row["stem"] for row in rows))
    return [
        ProbePassage(ns, key_of(row["stem"], row["path"], row["slug"], shared), row["path"], row["start_line"],
              row["end_line"], row["text"], row["date"])
        for row in rows
    ]  # fmt: skip


def keep(connection: Connection, workspace: int, date: str, report: dict[str, Any]) -> None:
    """Note a result; a second one of the same day takes the place of the first."""
    connection.execute(
        "INSERT OR REPLACE INTO exams (workspace, date, probes, recall, p95_ms) VALUES (?, ?, ?, ?, ?)",
        (workspace, date, report["questions"], report["figures"]["recall@5"], report["p95_ms"]),
    )
    connection.execute(
        "DELETE FROM exams WHERE workspace = ?1 AND date NOT IN"
        " (SELECT date FROM exams WHERE workspace = ?1 ORDER BY date DESC LIMIT ?2)",
        (workspace, KEPT),
    )


def trend(connection: Connection, workspace: int, most: int = KEPT) -> list[dict[str, Any]]:
    """The last results, newest first."""
    rows = connection.execute(
        "SELECT date, probes, recall, p95_ms FROM exams WHERE workspace = ? ORDER BY date DESC LIMIT ?",
        (workspace, most),
    )
    return [dict(row) for row in rows]
