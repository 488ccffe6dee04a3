"""Memories that sum up others: what may become one, which there are, and what each contains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Any

from memd.errors import UsageError
from memd.indexer.lifecycle import edges
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import get, inventory, keys
from memd.indexer.views.keys import KeyTarget
from memd.lifecycle.edges import CONTAINS
from memd.models import Filters

FEWEST = 2
"""A summary of one memory is another version of it."""


def sources(stores: Stores, index: WorkspaceIndex, target: KeyTarget, given: Sequence[str]) -> list[str]:
    """The keys that a summary shall contain, each memory once, checked."""
    found: dict[int | None, str] = {}
    for key in given:
        found.setdefault(keys.existing(stores, index, key).memory, key)
    if target.memory in found:
        raise UsageError(f"`{target.key}` cannot contain itself", "give the summary a key of its own")
    if len(found) < FEWEST:
        raise UsageError("a summary needs at least two different sources", "for example: --sources KEY,KEY")
    around = _holding(stores.ledger.reader, target.memory) & set(found)
    if around:
        raise UsageError(f"`{found[min(around, key=str)]}` contains `{target.key}` itself", "leave it out")
    return list(found.values())


def _holding(connection: Connection, memory: int | None) -> set[int | None]:
    """Every memory that contains this one, directly or through others."""
    rows = connection.execute(
        "WITH RECURSIVE above(id) AS (SELECT one FROM edges WHERE other = :memory AND rel = :rel AND NOT removed"
        " UNION SELECT e.one FROM edges e JOIN above a ON e.other = a.id WHERE e.rel = :rel AND NOT e.removed)"
        " SELECT id FROM above",
        {"memory": memory, "rel": CONTAINS},
    )
    return {row["id"] for row in rows}


def summaries(stores: Stores, indexes: Iterable[WorkspaceIndex]) -> list[dict[str, Any]]:
    """The memories that contain others, with how many."""
    connection = stores.ledger.reader
    found = []
    for index in indexes:
        counts = edges.contained(connection, index.id)
        told = [(entry.told(), counts[entry.id]) for entry in inventory.entries(connection, index, Filters(), counts)]
        found += [{**one, "children": len(children)} for one, children in told]
    return sorted(found, key=lambda one: (one["ns"], one["path"], one["start_line"]))


def children(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> dict[str, Any]:
    """What one memory contains, each with its text, in the order of the files."""
    index, row = get.named(stores, indexes, key)
    connection = stores.ledger.reader
    held = edges.contained(connection, index.id).get(row["id"], [])
    entries = inventory.entries(connection, index, Filters(), held)
    told = [{**one.told(), "text": history.text_of(connection, one.row["digest"]) or ""} for one in entries]
    told.sort(key=lambda one: (one["path"], one["start_line"]))
    return {"ns": index.workspace.ns, "key": key, "children": told}
