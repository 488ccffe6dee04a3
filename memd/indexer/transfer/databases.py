"""Memories in the SQLite databases of other tools: mem0, mcp-memory-service, claude-mem, MemPalace (Chroma)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from memd.models import JsonObject

SUFFIXES = (".db", ".sqlite", ".sqlite3")
HEADER = b"SQLite format 3\x00"

CHROMA = """
SELECT d.string_value AS content,
       (SELECT GROUP_CONCAT(string_value) FROM embedding_metadata t
        WHERE t.id = e.id AND t.key IN ('wing', 'room')) AS tags,
       (SELECT string_value FROM embedding_metadata t
        WHERE t.id = e.id AND t.key IN ('authored_at', 'created_at', 'filed_at') ORDER BY t.key LIMIT 1) AS created
FROM embeddings e JOIN embedding_metadata d ON d.id = e.id AND d.key = 'chroma:document' ORDER BY e.id
"""
MEM0 = """
SELECT new_memory AS content, created_at AS created FROM history h
WHERE rowid = (SELECT MAX(rowid) FROM history n WHERE n.memory_id = h.memory_id)
  AND COALESCE(is_deleted, 0) = 0 AND event <> 'DELETE' ORDER BY rowid
"""


def is_database(file: Path) -> bool:
    if file.suffix not in SUFFIXES or not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(HEADER)) == HEADER


def records(file: Path) -> list[JsonObject] | None:
    """The memories of a database as records; None if it is none of the known ones."""
    with closing(_opened(file)) as connection:
        for (table, column), read in READERS.items():
            if connection.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", (table, column)).fetchone():
                return [record for record in read(connection) if str(record.get("content") or "").strip()]
    return None


def _opened(file: Path) -> sqlite3.Connection:
    """Read-only; where the folder may not be written to, as it is on the disk."""
    place = f"file:{quote(str(file))}?mode=ro"
    connection = sqlite3.connect(place, uri=True)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"{place}&immutable=1", uri=True)
        connection.row_factory = sqlite3.Row
    return connection


def _rows(connection: sqlite3.Connection, query: str) -> Iterator[JsonObject]:
    return (dict(row) for row in connection.execute(query))


def _mcp_memory(connection: sqlite3.Connection) -> Iterator[JsonObject]:
    for row in _rows(connection, "SELECT * FROM memories ORDER BY id"):
        if not row.get("deleted_at"):
            tags = ",".join(filter(None, (row.get("tags"), row.get("memory_type"))))
            yield {"content": row["content"], "tags": tags, "created": row.get("created_at_iso")}


def _claude_mem(connection: sqlite3.Connection) -> Iterator[JsonObject]:
    for row in _rows(connection, "SELECT * FROM observations ORDER BY id"):
        facts = "".join(f"\n- {fact}" for fact in _list(row.get("facts")))
        said = (row.get("subtitle"), row.get("narrative") or row.get("text"), facts.strip())
        tags = ",".join(filter(None, (row.get("project"), row.get("type"), *_list(row.get("concepts")))))
        content = "\n\n".join(filter(None, said))
        yield {"title": row.get("title"), "content": content, "tags": tags, "created": row["created_at"]}
    for row in _rows(connection, "SELECT * FROM session_summaries ORDER BY id"):
        parts = (f"{name.replace('_', ' ').capitalize()}: {row[name]}" for name in SUMMARY if row.get(name))
        content = "\n\n".join(parts)
        yield {"title": row["request"], "content": content, "tags": row["project"], "created": row["created_at"]}


SUMMARY = ("investigated", "learned", "completed", "next_steps", "notes")


def _list(value: object) -> list[str]:
    """A list that a column has as JSON."""
    try:
        found = json.loads(value) if isinstance(value, str) else []
    except (ValueError, RecursionError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


Reader = Callable[[sqlite3.Connection], Iterator[JsonObject]]
READERS: dict[tuple[str, str], Reader] = {
    ("session_summaries", "learned"): _claude_mem,
    ("memories", "content_hash"): _mcp_memory,
    ("embedding_metadata", "string_value"): lambda connection: _rows(connection, CHROMA),
    ("history", "new_memory"): lambda connection: _rows(connection, MEM0),
}
"""A table and a column by which a database is recognised, and how its memories are read."""
