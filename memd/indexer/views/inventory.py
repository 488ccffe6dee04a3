"""Every memory of a workspace as a row: what `list` shows and what `bus` ranks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection, Row
from typing import Any, NamedTuple

from memd.indexer.query import grep, lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import PINNED, Filters, JsonObject

STAMP = re.compile(r"\n_(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2})(?::\d{2})?)?_[ \t\r]*(?=\n|\Z)")
"""The line under a heading that says when the entry was written, with the line end before it."""
STAMP_WITHIN = 300
"""Characters of a memory in which its stamp is looked for."""


class InventoryRow(NamedTuple):
    """One memory without its text; light, because thousands are sorted to show ten."""

    row: Row
    workspace_index: WorkspaceIndex
    shared: set[str]
    """Stems that several files of the workspace have."""
    time: str
    """`2026-02-21 14:27` if the entry has a stamp with the time, else its day."""

    @property
    def id(self) -> int:
        return int(self.row["id"])

    @property
    def title(self) -> str:
        return str(self.row["heading"] or self.row["stem"])

    @property
    def key(self) -> str:
        return lookup.key_of(self.row["stem"], self.row["path"], self.row["slug"], self.shared)

    @property
    def place(self) -> tuple[str, str, int]:
        return self.workspace_index.workspace.ns, self.row["path"], self.row["start_line"]

    def as_object(self) -> JsonObject:
        columns = ("path", "start_line", "end_line", "role", "kind", "tier", "date")
        return {
            **self.workspace_index.place,
            "key": self.key,
            **{name: self.row[name] for name in columns},
            "title": self.title,
            "tags": json.loads(self.row["tags"]),
            "time": self.time,
        }


SORTS: dict[str, Callable[[InventoryRow], tuple[Any, ...]]] = {
    "key": lambda entry: (entry.key, *entry.place),
    "role": lambda entry: (entry.row["role"], *entry.place),
    "title": lambda entry: (entry.title.casefold(), *entry.place),
}


def list_memories(
    stores: Stores, indexes: Sequence[WorkspaceIndex], filters: Filters, sort: str, offset: int, limit: int
) -> JsonObject:
    """One page of the memories, how many there are in all, and which roles the workspaces have."""
    connection = stores.ledger.reader
    found = [entry for index in indexes for entry in entries(connection, index, filters)]
    if sort == "newest":
        page = newest(connection, found, offset, limit)
    elif sort == "oldest":
        left = max(0, len(found) - offset)
        page = newest(connection, found, max(0, left - limit), min(left, limit))[::-1]
    else:
        page = _stamped(connection, sorted(found, key=SORTS[sort])[offset : offset + limit])
    return {
        "memories": [entry.as_object() for entry in page],
        "total": len(found),
        "roles": _roles(connection, indexes),
    }


def entries(
    connection: Connection, index: WorkspaceIndex, filters: Filters, ids: Iterable[int] | None = None
) -> list[InventoryRow]:
    """The memories of a workspace that pass the filters; with `ids` only those."""
    among = "" if ids is None else " AND m.id IN (SELECT value FROM json_each(:ids))"
    rows = connection.execute(
        "SELECT m.id, m.slug, m.heading, m.start_line, m.end_line, m.digest, m.kind, m.tier, m.role, m.date, m.tags,"
        f" {lookup.IS_PINNED} AS pinned, f.path, f.stem FROM memories m JOIN files f ON f.id = m.file"
        f" WHERE m.workspace = :workspace{among}",
        {"workspace": index.id, "ids": json.dumps(list(ids or ()))},
    ).fetchall()
    passing = [row for row in rows if _passes(row, filters)] if filters else rows
    shared = lookup.shared_stems(connection, index.id, {row["stem"] for row in passing})
    return [InventoryRow(row, index, shared, row["date"]) for row in passing]


def newest(
    connection: Connection,
    found: Iterable[InventoryRow],
    offset: int,
    limit: int,
    score: Callable[[InventoryRow], int] = lambda entry: 0,
) -> list[InventoryRow]:
    """A page of the best, among equals newest first.

    Times are read from texts, so only for entries that can be on the page by their day.
    """

    def by_day(entry: InventoryRow) -> tuple[int, str]:
        return score(entry), entry.row["date"]

    ordered = sorted(found, key=by_day, reverse=True)
    days = [by_day(entry) for entry in ordered]
    if offset >= len(days) or not limit:
        return []
    most, least = days[offset], days[offset : offset + limit][-1]
    begin, end = days.index(most), len(days) - days[::-1].index(least)
    candidates = _stamped(connection, ordered[begin:end])
    # A file is written from top to bottom, so among equal times its later entry is the newer one.
    candidates.sort(key=lambda entry: (*entry.place[:2], -entry.place[2]))
    candidates.sort(key=lambda entry: (*by_day(entry), entry.time), reverse=True)
    return candidates[offset - begin : offset - begin + limit]


def _roles(connection: Connection, indexes: Iterable[WorkspaceIndex]) -> dict[str, int]:
    """How many memories each role has, without any filter."""
    count: Counter[str] = Counter()
    for index in indexes:
        rows = connection.execute(
            "SELECT role, COUNT(*) FROM memories WHERE workspace = ? AND file IS NOT NULL GROUP BY role", (index.id,)
        )
        count.update(dict(rows.fetchall()))
    return dict(sorted(count.items()))


def _passes(row: Row, filters: Filters) -> bool:
    if any(wanted and row[name] != wanted for name in ("kind", "role") if (wanted := getattr(filters, name))):
        return False
    if filters.tier and not (row["pinned"] if filters.tier == PINNED else row["tier"] == filters.tier):
        return False
    date: str = row["date"]
    # "2026-02" takes in its days: whatever begins with it is not after it.
    if date < filters.since or (filters.until and date[: len(filters.until)] > filters.until):
        return False
    tags = {str(tag).lower() for tag in json.loads(row["tags"])} if filters.tags else set()
    if not all(tag.lstrip("#").lower() in tags for tag in filters.tags):
        return False
    return grep.under(row["path"], filters.path)


def _stamped(connection: Connection, found: Sequence[InventoryRow]) -> list[InventoryRow]:
    """The entries with the times of their stamps."""
    rows = connection.execute(
        f"SELECT m.id, char(10) || substr(c.text, 1, {STAMP_WITHIN}) FROM json_each(?) JOIN memories m ON m.id = value"
        " JOIN chunks c ON c.memory = m.id AND c.start_line = m.start_line"
        " WHERE instr(char(10) || c.text, char(10) || '_')",
        (json.dumps([entry.id for entry in found]),),
    )
    times = {memory: _time(stamp) for memory, head in rows if (stamp := STAMP.search(head))}
    return [entry._replace(time=times.get(entry.id, entry.time)) for entry in found]


def _time(stamp: re.Match[str]) -> str:
    """`2026-02-21 14:27`; the hour always with two digits, so that times compare as text."""
    day, hour = stamp.groups()
    return f"{day} {hour:0>5}" if hour else str(day)
