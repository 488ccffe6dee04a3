"""Joins what the caches found to the ledger: a chunk that is not in the ledger is never shown."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import PurePosixPath
from sqlite3 import Connection, Cursor, Row

from memd.indexer.record import history
from memd.indexer.store.catalog import among
from memd.indexer.store.queries import queries
from memd.models import PINNED, Filters, JsonObject, grouped
from memd.prose import composed
from memd.timespans import as_day

SQL = queries(__file__)
IS_PINNED = "json_extract(m.declared, '$.pinned') = 1"

ALIVE = "(m.deleted IS NULL AND (m.expires IS NULL OR m.expires > strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')))"
"""A memory that was deleted or whose ttl has run out is not shown; its text stays in its file."""

CONDITIONS = {
    "kind": "m.kind = :kind",
    "role": "m.role = :role",
    "tier": "m.tier = :tier",
    "since": "m.date >= :since",
    # "2026-02" includes its days: whatever begins with it is not after it.
    "until": "m.date <> '' AND substr(m.date, 1, length(:until)) <= :until",
    "path": "(f.path = :path OR f.path GLOB :path OR substr(f.path, 1, length(:path) + 1) = :path || '/')",
}
TABLES = "chunks c JOIN memories m ON m.id = c.memory JOIN files f ON f.id = c.file"
IN_FILES = "memories m JOIN files f ON f.id = m.file"


def join(connection: Connection, ids: Iterable[int], filters: Filters, expired: bool = False) -> dict[int, JsonObject]:
    """The rows of these chunks that exist and pass the filters; with `expired`, also those that are not shown."""
    clause, values = conditions(filters, expired)
    rows = _tuples(connection, SQL["join"] + clause, {"ids": json.dumps(sorted(set(ids))), **values})
    names = [column[0] for column in rows.description]
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def _tuples(connection: Connection, query: str, values: JsonObject) -> Cursor:
    """Run a query for plain tuples: SQLite's rows compare the names of all columns up to the one that is looked up."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor.execute(query, values)


def passing(connection: Connection, workspace: int, filters: Filters) -> list[int]:
    """The memories of a workspace that pass the filters."""
    clause, values = conditions(filters)
    rows = _tuples(
        connection, f"SELECT m.id FROM {IN_FILES} WHERE m.workspace = :w{clause}", {"w": workspace, **values}
    )
    return [memory for (memory,) in rows]


def siblings(connection: Connection, memories: Iterable[int]) -> list[tuple[int, int, int]]:
    """Every chunk of some memories, behind its memory and its first line, in the order of their files."""
    # In Python: the order takes SQLite 124 µs for 50 memories, and 8 here.
    return sorted(_tuples(connection, SQL["siblings"], {"memories": json.dumps(list(memories))}))


def texts(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """The texts of some chunks."""
    return dict(among(connection, "SELECT id, text FROM chunks WHERE id AMONG ?", ids))


def headings(connection: Connection, ids: Iterable[int]) -> dict[int, list[str]]:
    """The headings above some chunks."""
    rows = among(connection, "SELECT id, heading FROM chunks WHERE id AMONG ?", ids)
    return {chunk: json.loads(heading) for chunk, heading in rows}


def slugs(connection: Connection, memories: Iterable[int]) -> dict[int, str]:
    """The slugs of some memories."""
    return dict(among(connection, "SELECT id, slug FROM memories WHERE id AMONG ?", memories))


def text_of(connection: Connection, memory: int, digest: str) -> str:
    """The text of a memory; put together from its chunks where the history does not have it."""
    text = history.text_of(connection, digest)
    if text is not None:
        return text
    rows = connection.execute(SQL["parts_of_memory"], (memory,)).fetchall()
    text, line = "", rows[0]["start_line"] if rows else 0
    for row in rows:
        gap = row["start_line"] - line
        text += ("\n" * gap if gap else " " if text else "") + row["text"]
        line = row["end_line"]
    return text


def first_chunks(connection: Connection, files: Iterable[int]) -> list[int]:
    """The first chunk of each of some files."""
    return [row["id"] for row in among(connection, SQL["first_chunks"], files)]


def own_day(row: Row | JsonObject) -> date | None:
    """The note's own day; MEMORY.md never ages, whenever it was last changed."""
    return None if row["role"] == "memory" else as_day(row["date"])


def conditions(filters: Filters, expired: bool = False) -> tuple[str, JsonObject]:
    """The filters as SQL, each behind an `AND`, and its values."""
    values = {name: composed(value) for name in CONDITIONS if (value := getattr(filters, name).rstrip("/"))}
    parts = [] if expired else [ALIVE]
    parts += [IS_PINNED if (name, value) == ("tier", PINNED) else CONDITIONS[name] for name, value in values.items()]
    if not f"{filters.path}{filters.role}".isascii():
        # Only then may a file be called so in two ways; the function takes its time in every row.
        parts = [part.replace("f.path", "composed(f.path)").replace("m.role", "composed(m.role)") for part in parts]
    for nth, tag in enumerate(filters.tags):
        # SQLite's own function folds only the case of ASCII letters, and is much faster.
        folded = "lower" if tag.isascii() else "casefold"
        parts.append(f"EXISTS (SELECT 1 FROM json_each(m.tags) WHERE {folded}(value) = :tag{nth})")
        values[f"tag{nth}"] = tag.lstrip("#").casefold()
    return "".join(f" AND {part}" for part in parts), values


def shared_stems(connection: Connection, workspace: int, stems: Iterable[str]) -> set[str]:
    """Those of some stems that several files share: their keys need the whole path."""
    rows = connection.execute(SQL["shared_stems"], (workspace, json.dumps(list(set(stems)))))
    return {row["stem"] for row in rows}


def key_of(stem: str, path: str, slug: str, shared: set[str]) -> str:
    base = path if stem in shared else composed(stem)
    return f"{base}#{slug}" if slug else base


def keys_of(connection: Connection, rows: Sequence[Row] | Sequence[JsonObject]) -> list[str]:
    """The keys of memories, by their `workspace`, `stem`, `path` and `slug`."""
    stems = grouped((row["workspace"], row["stem"]) for row in rows)
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
    for base, slug in readings(key):
        stems = json.dumps([composed(base), composed(PurePosixPath(base).stem)])
        if rows := connection.execute(SQL["memories"], (workspace, stems, composed(base), slug)).fetchall():
            # Of two paths that look the same, the one that is given.
            return [row for row in rows if row["path"] == base] or rows
    return []


def gone(connection: Connection, workspace: int, key: str) -> list[Row]:
    """The memories that had this key when they left the files."""
    left = (connection.execute(SQL["gone"], (workspace, slug)) for _, slug in readings(key))
    named = ([row for row in rows if is_called(key, row["path"], row["slug"])] for rows in left)
    return next(filter(None, named), [])


def readings(key: str) -> list[tuple[str, str]]:
    """The ways to read a key as a file and a section's slug: the name of a file may have a `#`, too."""
    base, sharp, slug = key.rpartition("#")
    return [(base, composed(slug)), (key, "")] if sharp else [(key, "")]


def is_called(key: str, path: str, slug: str) -> bool:
    """Whether a key names the memory of this slug in this file."""
    return any((composed(file), slug) in readings(composed(key)) for file in (path, PurePosixPath(path).stem))


def in_file(connection: Connection, workspace: int, path: str) -> dict[str, Row]:
    """The memories of a file by their slugs, in its order."""
    return {row["slug"]: row for row in connection.execute(SQL["in_file"], (workspace, path))}


def digest_of(connection: Connection, workspace: int, path: str) -> str:
    """The digest of a file as it was indexed; empty if it was not."""
    row = connection.execute("SELECT digest FROM files WHERE workspace = ? AND path = ?", (workspace, path)).fetchone()
    return str(row["digest"]) if row else ""


def chunks_at(connection: Connection, workspace: int, path: str, lines: Sequence[int]) -> dict[int, list[int]]:
    """The chunks at each of these lines of a file, which are in order: a long line is cut into several."""
    rows = connection.execute(SQL["chunks_at"], (workspace, path))
    spans = ((row["id"], bisect_left(lines, row["start_line"]), bisect_right(lines, row["end_line"])) for row in rows)
    return grouped((line, chunk) for chunk, first, past in spans for line in lines[first:past])
