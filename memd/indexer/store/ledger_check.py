"""The schema of `state.db`, and whether a ledger is sound: its tables, its pages, every row that tells by itself."""

import json
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path

from memd.indexer.store.catalog import digest_of_chunk
from memd.indexer.store.queries import queries
from memd.models import Chunk

SQL = queries(__file__)
STEPS = tuple(file.read_text(encoding="utf-8") for file in sorted((Path(__file__).parent / "schema").glob("*.sql")))
"""The schema as numbered steps, a file each in schema/. A released one is never edited; add another."""
VERSION = len(STEPS)

JSON = {"memories": ("tags", "declared"), "facts": ("tags", "declared"), "chunks": ("heading",), "actions": ("detail",),
        "shifts": ("before", "after"), "proposals": ("params",)}  # fmt: skip
PACKED = {"texts": ("body",), "splices": ("removed", "inserted"), "pages": ("body",)}
"""Columns by table that hold JSON, and those that hold compressed bytes, which carry a checksum."""

LONGEST = 160
"""Characters of a message of SQLite: it may quote a note."""

Columns = frozenset[tuple[str, str]]
"""The columns of all tables, each with its table."""


def columns_in(connection: sqlite3.Connection, kind: str = "%") -> Columns:
    """The columns of a declared type."""
    return frozenset((table, column) for table, column in connection.execute(SQL["columns"], (kind,)))


@cache
def columns_of(version: int) -> Columns:
    """The columns that a schema has."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(";".join(STEPS[:version]))
        return columns_in(empty)


def schema_version(connection: sqlite3.Connection) -> int | None:
    """The schema by its tables, whatever number the file carries; 0 without tables, None if it is none of memd's."""
    found = columns_in(connection)
    if not found:
        # Else a new ledger has every schema that there was built in memory: 40 ms, a third of what its start takes.
        return 0
    return next((number for number in range(VERSION, -1, -1) if columns_of(number) == found), None)


def problem_in(connection: sqlite3.Connection) -> str:
    """The problem of a ledger; empty when it is sound. It reads all of it but the vectors."""
    try:
        if not schema_version(connection):
            return "its tables are not those of a ledger"
        problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
        return "; ".join(problems) if problems != ["ok"] else _unreadable_rows(connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)[:LONGEST]


def _unreadable_rows(connection: sqlite3.Connection) -> str:
    """The tables with rows that do not say what they should."""
    texts = columns_in(connection, "TEXT")
    for table in {table for table, _ in columns_in(connection)}:
        # A text that is not UTF-8 is an error of SQLite's as soon as it is read.
        for _ in connection.execute(f"SELECT {listed(column for one, column in texts if one == table)} FROM {table}"):
            pass
        names = [*JSON.get(table, ()), *PACKED.get(table, ())]
        if names and not all(is_whole(table, row, names) for row in _rows(connection, table, names)):
            return f"a row of {table} is not what was written"
    chunks = _rows(connection, "chunks", ("digest", "text", "heading", "context"))
    for digest, text, heads, context in chunks:
        if digest_of_chunk(Chunk(text, 0, 0, tuple(json.loads(heads)), context)) != digest:
            return "the text of a chunk is not what was written"
    clock = dict(_rows(connection, "meta", ("key", "value"))).get("seq", "")
    return "" if clock.isdigit() else "it has no clock"


def is_whole(table: str, row: Iterable[object], names: Iterable[str]) -> bool:
    """Whether the values of some columns are what they must be: JSON, or bytes that can be decompressed."""
    try:
        for name, value in zip(names, row, strict=True):
            if name in JSON.get(table, ()) and value is not None:
                json.loads(value)  # type: ignore[arg-type]
            elif name in PACKED.get(table, ()):
                zlib.decompress(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, zlib.error):
        return False
    return True


def _rows(connection: sqlite3.Connection, table: str, names: Iterable[str]) -> sqlite3.Cursor:
    return connection.execute(f"SELECT {listed(names)} FROM {table}")


def listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "1"
