"""Pairs that say nearly the same with other numbers or names: told again and again until someone has looked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from sqlite3 import Connection

from memd.lifecycle.edges import RELATED

Pairs = Sequence[tuple[int, int]]


def key(workspace: int) -> str:
    """Under which name the ledger has those of a workspace."""
    return f"doubtful:{workspace}"


def written(connection: Connection, pairs: Pairs) -> str:
    """Pairs as the ledger keeps them, each with the texts that are in doubt."""
    texts = _texts(connection, pairs)
    return json.dumps([[one, other, texts[one], texts[other]] for one, other in pairs if {one, other} <= texts.keys()])


def standing(connection: Connection, kept: str) -> list[tuple[int, int]]:
    """Those that are in doubt still: both texts are as they were, and nobody has said how they belong together."""
    known = [tuple(entry) for entry in json.loads(kept or "[]")]
    texts = _texts(connection, [(one, other) for one, other, _, _ in known])
    same = [(one, other) for one, other, *was in known if [texts.get(one), texts.get(other)] == was]
    return [pair for pair in same if not _typed(connection, *pair)]


def _texts(connection: Connection, pairs: Pairs) -> dict[int, str]:
    rows = connection.execute(
        "SELECT id, digest FROM memories WHERE file IS NOT NULL AND tier <> 'dormant'"
        " AND id IN (SELECT value FROM json_each(?))",
        (json.dumps([end for pair in pairs for end in pair]),),
    )
    return {row["id"]: row["digest"] for row in rows}


def _typed(connection: Connection, one: int, other: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM edges WHERE removed = 0 AND rel <> ?3"
        " AND ((one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1)) LIMIT 1",
        (one, other, RELATED),
    )
    return found.fetchone() is not None
