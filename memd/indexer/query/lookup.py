"""Joins what the caches found to the ledger: a chunk that is not in the ledger is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import PurePosixPath
from sqlite3 import Connection, Row

from memd.indexer.record import history
from memd.models import PINNED, Filters, JsonObject

IS_PINNED = "json_extract(m.declared, '$.pinned') = 1"

COLUMNS = (
    "c.id, c.workspace, c.memory, c.start_line, c.end_line, c.heading, c.text, m.slug, m.kind,"
    f" m.tier, m.role, m.tags, m.date, m.declared, m.deleted, f.path, f.stem, (m.tier IN ('dormant', 'sensory')"
    f" AND COALESCE({IS_PINNED}, 0) = 0) AS resting,"
    # A later memory says what is true now.
    " EXISTS (SELECT 1 FROM edges e JOIN memories n ON n.id = e.one WHERE e.other = m.id AND e.rel = 'refines'"
    " AND e.removed = 0 AND n.file IS NOT NULL) AS outdated"
)
ALIVE = "(m.deleted IS NULL AND (m.expires IS NULL OR m.expires > strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')))"
"""A memory that was deleted or whose ttl has run out is not shown; its text stays in its file."""

CONDITIONS = {
    "kind": "m.kind = :kind",
    "role": "m.role = :role",
    "tier": "m.tier = :tier",
    "since": "m.date >= :since",
    # "2026-02" includes its days: whatever begins with it is not after it.
    "until": "substr(m.date, 1, length(:until)) <= :until",
    "path": "(f.path = :path OR f.path GLOB :path OR substr(f.path, 1, length(:path) + 1) = :path || '/')",
}

TABLES = "chunks c JOIN memories m ON m.id = c.memory JOIN files f ON f.id = c.file"
IN_FILES = "memories m JOIN files f ON f.id = m.file"


def join(connection: Connection, ids: Iterable[int], filters: Filters, expired: bool = False) -> dict[int, Row]:
    """The rows of these chunks that exist and pass the filters; with `expired`, also those that are not shown."""
    clause, values = conditions(filters, expired)
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM {TABLES} WHERE c.id IN (SELECT value FROM json_each(:ids)){clause}",
        {"ids": json.dumps(list(ids)), **values},
    )
    return {row["id"]: row for row in rows}


def allowed(connection: Connection, workspace: int, filters: Filters) -> list[int]:
    """Every chunk of a workspace that passes the filters."""
    clause, values = conditions(filters)
    rows = connection.execute(f"SELECT c.id FROM {TABLES} WHERE c.workspace = :w{clause}", {"w": workspace, **values})
    return [row["id"] for row in rows]


def siblings(connection: Connection, memories: Iterable[int]) -> list[tuple[int, int]]:
    """Every chunk of some memories with its memory, in the order of their files."""
    rows = connection.execute(
        "SELECT id, memory FROM chunks WHERE memory IN (SELECT value FROM json_each(?))"
        " ORDER BY memory, start_line, id",
        (json.dumps(list(memories)),),
    )
    return [(row[0], row[1]) for row in rows]


def texts(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """The texts of some chunks."""
    rows = connection.execute(
        "SELECT id, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return {row["id"]: row["text"] for row in rows}


def text_of(connection: Connection, memory: int, digest: str) -> str:
    """The text of a memory; put together from its chunks where the history does not have it."""
    text = history.text_of(connection, digest)
    if text is not None:
        return text
    rows = connection.execute(
        "SELECT text, start_line, end_line FROM chunks WHERE memory = ? ORDER BY start_line, id", (memory,)
    ).fetchall()
    text, line = "", rows[0]["start_line"] if rows else 0
    for row in rows:
        gap = row["start_line"] - line
        text += ("\n" * gap if gap else " " if text else "") + row["text"]
        line = row["end_line"]
    return text


def first_chunks(connection: Connection, files: Iterable[int]) -> list[int]:
    """The first chunk of each of some files."""
    rows = connection.execute(
        # With MIN, SQLite takes the other columns from the row that has the minimum.
        "SELECT id, MIN(start_line) FROM chunks WHERE file IN (SELECT value FROM json_each(?)) GROUP BY file",
        (json.dumps(list(files)),),
    )
    return [row["id"] for row in rows]


def days(connection: Connection, workspace: int) -> list[date]:
    """Every day of which a workspace has a memory."""
    rows = connection.execute(
        "SELECT DISTINCT date FROM memories WHERE workspace = ? AND file IS NOT NULL", (workspace,)
    )
    return [day for row in rows if (day := day_of(row)) is not None]


def chunks_of_days(connection: Connection, workspace: int, wanted: Sequence[date]) -> list[int]:
    """The chunks of some days, in the order of the days."""
    order = {str(day): nth for nth, day in enumerate(wanted)}
    rows = connection.execute(
        # Once through the memories, not once for each day.
        "SELECT m.date, c.id FROM memories m CROSS JOIN chunks c ON c.memory = m.id"
        " WHERE m.workspace = ? AND m.date IN (SELECT value FROM json_each(?)) AND m.role <> 'memory'",
        (workspace, json.dumps(list(order))),
    )
    return [row["id"] for row in sorted(rows, key=lambda row: (order[row["date"]], row["id"]))]


def day_of(row: Row) -> date | None:
    """The day of a memory; None if it has none."""
    try:
        return date.fromisoformat(row["date"])
    except ValueError:
        return None


def own_day(row: Row) -> date | None:
    """The note's own day; MEMORY.md never ages, whenever it was last changed."""
    return None if row["role"] == "memory" else day_of(row)


def conditions(filters: Filters, expired: bool = False) -> tuple[str, JsonObject]:
    """The filters as SQL, each behind an `AND`, and its values."""
    values = {name: value for name in CONDITIONS if (value := getattr(filters, name).rstrip("/"))}
    parts = [] if expired else [ALIVE]
    parts += [IS_PINNED if (name, value) == ("tier", PINNED) else CONDITIONS[name] for name, value in values.items()]
    for nth, tag in enumerate(filters.tags):
        parts.append(f"EXISTS (SELECT 1 FROM json_each(m.tags) WHERE lower(value) = :tag{nth})")
        values[f"tag{nth}"] = tag.lstrip("#").lower()
    return "".join(f" AND {part}" for part in parts), values


def shared_stems(connection: Connection, workspace: int, stems: Iterable[str]) -> set[str]:
    """Those of some stems that several files share: their keys need the whole path."""
    rows = connection.execute(
        "SELECT stem FROM files WHERE workspace = ? AND stem IN (SELECT value FROM json_each(?))"
        " GROUP BY stem HAVING COUNT(*) > 1",
        (workspace, json.dumps(list(set(stems)))),
    )
    return {row["stem"] for row in rows}


def key_of(stem: str, path: str, slug: str, shared: set[str]) -> str:
    base = path if stem in shared else stem
    return f"{base}#{slug}" if slug else base


def keys_of(connection: Connection, rows: Sequence[Row]) -> list[str]:
    """The keys of memories, by their `workspace`, `stem`, `path` and `slug`."""
    stems: dict[int, set[str]] = {}
    for row in rows:
        stems.setdefault(row["workspace"], set()).add(row["stem"])
    shared = {workspace: shared_stems(connection, workspace, names) for workspace, names in stems.items()}
    return [key_of(row["stem"], row["path"], row["slug"], shared[row["workspace"]]) for row in rows]


def keyed_rows(
    connection: Connection, columns: str, clause: str, values: Sequence[object] | JsonObject, tables: str = IN_FILES
) -> list[tuple[str, Row]]:
    """The memories (or chunks, by `tables`) that meet a clause, each with its key."""
    rows = connection.execute(
        f"SELECT m.id, m.workspace, m.slug, f.path, f.stem, {columns} FROM {tables} WHERE {clause}", values
    ).fetchall()
    return list(zip(keys_of(connection, rows), rows, strict=True))


def memories(connection: Connection, workspace: int, key: str) -> list[Row]:
    """The memories that a key names."""
    base, _, slug = key.partition("#")
    return connection.execute(
        f"SELECT m.*, f.path, f.stem, f.problem FROM {IN_FILES}"
        " WHERE m.workspace = ? AND (f.stem = ? OR f.path = ?) AND m.slug = ? ORDER BY f.path",
        (workspace, base, base, slug),
    ).fetchall()


def gone(connection: Connection, workspace: int, key: str) -> list[Row]:
    """The memories that had this key when they left the files."""
    base, _, slug = key.partition("#")
    rows = connection.execute(
        "SELECT m.*, v.path FROM memories m JOIN versions v ON v.memory = m.id"
        " WHERE m.workspace = ? AND m.file IS NULL AND m.slug = ?"
        " AND v.number = (SELECT MAX(number) FROM versions WHERE memory = m.id)",
        (workspace, slug),
    ).fetchall()
    return [row for row in rows if base in (row["path"], PurePosixPath(row["path"]).stem)]


def in_file(connection: Connection, workspace: int, path: str) -> dict[str, Row]:
    """The memories of a file by their slugs, in its order."""
    rows = connection.execute(
        f"SELECT m.* FROM {IN_FILES} WHERE m.workspace = ? AND f.path = ? ORDER BY m.start_line", (workspace, path)
    )
    return {row["slug"]: row for row in rows}


def digest_of(connection: Connection, workspace: int, path: str) -> str:
    """The digest of a file as it was indexed; empty if it was not."""
    row = connection.execute("SELECT digest FROM files WHERE workspace = ? AND path = ?", (workspace, path)).fetchone()
    return str(row["digest"]) if row else ""


def chunks_at(connection: Connection, workspace: int, path: str, lines: Iterable[int]) -> dict[int, int]:
    """The chunk at each of these lines of a file."""
    rows = connection.execute(
        "SELECT c.id, c.start_line, c.end_line FROM chunks c JOIN files f ON f.id = c.file"
        " WHERE f.workspace = ? AND f.path = ? ORDER BY c.start_line DESC",
        (workspace, path),
    ).fetchall()
    # Of overlapping chunks the last one counts.
    chunks = {
        line: next((row["id"] for row in rows if row["start_line"] <= line <= row["end_line"]), None) for line in lines
    }
    return {line: chunk for line, chunk in chunks.items() if chunk is not None}
