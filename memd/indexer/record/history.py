"""The versions of every memory, whoever made them: each text once, compressed, and when it was current."""

from __future__ import annotations

import sqlite3
import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """A memory's text from one moment on; `digest` is None where it went from the files."""

    memory: int
    number: int
    at: str
    who: str
    action: int | None
    digest: str | None
    path: str
    heading: str


def keep(
    connection: sqlite3.Connection, memory: int, last: MemoryVersion | None, digest: str, text: str, path: str,
    heading: str, who: str, action: int | None, now: str,
) -> None:  # fmt: skip
    """Note a text as the current one, after the `last`."""
    connection.execute(
        "INSERT OR IGNORE INTO texts VALUES (?, ?)", (digest, zlib.compress(text.encode("utf-8", "surrogatepass")))
    )
    _add(connection, memory, last, now, who, action, digest, path, heading)


def gone(connection: sqlite3.Connection, last: MemoryVersion, who: str, action: int | None, now: str) -> None:
    """Note that a memory's text, the `last` one, left the files."""
    _add(connection, last.memory, last, now, who, action, None, last.path, last.heading)


def _add(
    connection: sqlite3.Connection, memory: int, last: MemoryVersion | None, now: str, who: str, action: int | None,
    digest: str | None, path: str, heading: str,
) -> None:  # fmt: skip
    number = last.number + 1 if last else 1
    connection.execute(
        "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (memory, number, now, who, action, digest, path, heading),
    )


def latest(connection: sqlite3.Connection, memory: int) -> MemoryVersion | None:
    row = connection.execute(
        "SELECT * FROM versions WHERE memory = ? ORDER BY number DESC LIMIT 1", (memory,)
    ).fetchone()
    return MemoryVersion(**dict(row)) if row else None


def versions(connection: sqlite3.Connection, memory: int) -> list[MemoryVersion]:
    """All versions of a memory, the first one first."""
    rows = connection.execute("SELECT * FROM versions WHERE memory = ? ORDER BY number", (memory,))
    return [MemoryVersion(**dict(row)) for row in rows]


def text_of(connection: sqlite3.Connection, digest: str) -> str | None:
    """The text of a version, as long as it is kept."""
    row = connection.execute("SELECT body FROM texts WHERE digest = ?", (digest,)).fetchone()
    return zlib.decompress(row["body"]).decode("utf-8", "surrogatepass") if row else None


def sweep(connection: sqlite3.Connection) -> None:
    """Drop texts that no version has."""
    connection.execute("DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM versions WHERE digest IS NOT NULL)")


def expire(connection: sqlite3.Connection, before: str) -> int:
    """Drop versions that ceased to be current before a moment, and what could only be undone with older texts.

    Of every memory the last two stay: the one that is current, or its going, and the one before. Says how many went.
    """
    dropped = connection.execute(
        "DELETE FROM versions WHERE EXISTS (SELECT 1 FROM versions n WHERE n.memory = versions.memory"
        " AND n.number = versions.number + 1 AND n.at < :before) AND number <"
        " (SELECT MAX(number) - 1 FROM versions l WHERE l.memory = versions.memory)",
        {"before": before},
    ).rowcount
    connection.execute("DELETE FROM splices WHERE action IN (SELECT id FROM actions WHERE at < ?)", (before,))
    sweep(connection)
    return dropped
