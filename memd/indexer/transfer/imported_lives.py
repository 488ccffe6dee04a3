"""What an import says of the lives of memories, taken as far as it makes sense: counts, tiers, times, edges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from sqlite3 import Connection
from typing import Any

from memd.indexer.record.actions import in_utc
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.transfer.export import LIVED, STATES
from memd.models import RELATIONS, TIERS

OBSERVED = ("similar", "tag", "merged")
STANDING = ("declared", "written")
"""Origins of edges that the files themselves tell of: only that they were taken away moves with an export."""
MOST = 10**9
LONG_AGO = in_utc(datetime(1970, 1, 1, tzinfo=UTC))

Told = dict[str, Any]


def moment(told: object) -> str | None:
    """A time as the ledger writes it; None where it is none."""
    try:
        found = datetime.fromisoformat(re.sub(r"Z$", "+00:00", told.strip())) if isinstance(told, str) else None
        return in_utc(found if found.tzinfo else found.replace(tzinfo=UTC)) if found else None
    except (ValueError, OverflowError):
        return None


def tier(told: object, otherwise: str) -> str:
    return told if isinstance(told, str) and told in TIERS else otherwise


def lived(life: Mapping[str, Any]) -> Told:
    """The columns that an export has of what was observed, without what makes no sense."""
    found: Told = {}
    for name, kind in LIVED.items():
        value = life.get(name)
        if name in ("accessed", "moved"):
            value = moment(value)
        elif name == "home":
            value = tier(value, "")
        elif kind is int:
            value = _count(value)
        elif kind is float:
            value = _share(value)
        if value is not None and isinstance(value, kind):
            found[name] = value
    return found


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _share(value: object) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if right else None  # type: ignore[arg-type]


def put(connection: Connection, memory: int, columns: Told) -> None:
    """Write some columns of a memory."""
    if columns:
        named = ", ".join(f"{name} = :{name}" for name in columns)
        connection.execute(f"UPDATE memories SET {named} WHERE id = :memory", {**columns, "memory": memory})


# --- edges --------------------------------------------------------------------------------------------------


def restore_edges(
    stores: Stores, index: WorkspaceIndex, places: Mapping[str, tuple[str, str]], edges: Sequence[Told]
) -> None:
    """Link memories as they were linked, where both are here; `places` has the path and slug of each key."""
    with stores.ledger.write() as connection:
        for edge in edges:
            ends = [_memory(connection, index.id, places.get(str(edge.get(name)))) for name in ("from", "to")]
            if None not in ends and ends[0] != ends[1]:
                _link(connection, index.id, ends, edge)


def _memory(connection: Connection, workspace: int, place: tuple[str, str] | None) -> int | None:
    row = connection.execute(
        "SELECT m.id FROM memories m JOIN files f ON f.id = m.file WHERE m.workspace = ? AND f.path = ? AND m.slug = ?",
        (workspace, *(place or ("", ""))),
    ).fetchone()
    return row["id"] if row else None


def _link(connection: Connection, workspace: int, ends: Sequence[int | None], edge: Told) -> None:
    """A link that was used here already stays as it is."""
    base, weight, state = _share(edge.get("base")), _share(edge.get("weight")), edge.get("removed") or ""
    removed = STATES.index(state) if state in STATES else 0
    rel, origin = str(edge.get("type")), str(edge.get("origin"))
    weight = base if weight is None else weight
    known = origin in OBSERVED or (origin in STANDING and removed)
    if rel not in RELATIONS or not known or weight is None:
        return
    connection.execute(
        "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, accesses, accessed, removed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (one, other, rel) DO UPDATE SET base = excluded.base,"
        " weight = excluded.weight, made = excluded.made, accesses = excluded.accesses, accessed = excluded.accessed,"
        " removed = excluded.removed WHERE edges.accesses = 0 AND NOT edges.removed",
        (
            workspace, *ends, rel, weight if base is None else base, weight, origin,
            moment(edge.get("made")) or in_utc(datetime.now(UTC)), _count(edge.get("accesses")) or 0,
            moment(edge.get("accessed")), removed,
        ),
    )  # fmt: skip
