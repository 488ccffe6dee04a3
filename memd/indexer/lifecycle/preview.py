"""What rules would do to the memories of some workspaces now, and why; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from sqlite3 import Connection
from typing import Any

from memd.indexer.lifecycle import accesses, lives
from memd.indexer.query import lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle.lives import Life
from memd.lifecycle.rules import Rule, RuleMatch, evaluate

PAGE = 1_000


def preview_rules(
    stores: Stores, indexes: Iterable[WorkspaceIndex], rules: Sequence[Rule], now: datetime, limit: int
) -> dict[str, Any]:
    """How many memories were looked at, would move and would fade, and the first of these one by one."""
    connection = stores.ledger.reader
    told: list[dict[str, Any]] = []
    counts = {"memories": 0, "moved": 0, "faded": 0}
    for index in indexes:
        feedback, after = lives.has_feedback(connection, index.id), 0
        while page := lives.lives(connection, index.id, after, PAGE):
            after = page[-1].memory
            judged = [(life, evaluate(life, rules, now, feedback)) for life in accesses.counted(connection, page, now)]
            found = [(life, match) for life, match in judged if match and (match.tier or match.importance < life.base)]
            counts["memories"] += len(page)
            counts["moved"] += sum(match.tier is not None for _, match in found)
            counts["faded"] += sum(match.tier is None for _, match in found)
            told += _told(connection, index, found[: max(0, limit - len(told))])
    return {**counts, "matches": told}


def _told(
    connection: Connection, index: WorkspaceIndex, found: Sequence[tuple[Life, RuleMatch]]
) -> list[dict[str, Any]]:
    """What the wire says of each."""
    if not found:
        return []
    rows = connection.execute(
        "SELECT m.id, m.slug, f.path, f.stem FROM memories m JOIN files f ON f.id = m.file"
        " WHERE m.id IN (SELECT value FROM json_each(?))",
        (json.dumps([life.memory for life, _ in found]),),
    ).fetchall()
    shared = lookup.shared_stems(connection, index.id, (row["stem"] for row in rows))
    keys = {row["id"]: (lookup.key_of(row["stem"], row["path"], row["slug"], shared), row["path"]) for row in rows}
    return [
        {
            "ns": index.workspace.ns,
            "key": keys[life.memory][0],
            "path": keys[life.memory][1],
            "rule": match.rule.name,
            "from": life.tier,
            "to": match.tier or life.tier,
            "importance": life.base,
            "faded": round(match.importance, 6),
            "why": match.why,
        }
        for life, match in found
        if life.memory in keys
    ]
