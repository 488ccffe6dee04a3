"""The versions of every memory, whoever wrote them: each text once, compressed, and when it was current."""

import json
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from sqlite3 import Connection

from memd.indexer.store.queries import queries
from memd.models import JsonObject, grouped

PEOPLE = ("cli", "editor", "web")
"""Authors that are a person: whoever types commands, and whoever edits the files."""
SQL = queries(__file__, by_others=f"v.digest IS NOT NULL AND v.who NOT IN {PEOPLE}")


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """A memory's text from one moment on; `digest` is None when the text left the files."""

    memory: int
    number: int
    at: str
    who: str
    action: int | None
    digest: str | None
    path: str
    heading: str


def add(connection: Connection, version: MemoryVersion, text: str | None = None) -> None:
    """Add a version, with the text that belongs to its digest."""
    if text is not None:
        packed = zlib.compress(text.encode("utf-8", "surrogatepass"))
        connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (version.digest, packed))
    connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(version))


def latest(connection: Connection, memory: int) -> MemoryVersion | None:
    row = connection.execute(SQL["latest"], (memory,)).fetchone()
    return MemoryVersion(**dict(row)) if row else None


def forget_removals(connection: Connection, memories: Iterable[int]) -> None:
    """Take back the last version of memories that turned out not to have left the files."""
    connection.executemany(SQL["forget_removal"], [(memory,) for memory in memories])


def versions(connection: Connection, memory: int) -> list[MemoryVersion]:
    """All versions of a memory, oldest first."""
    rows = connection.execute("SELECT * FROM versions WHERE memory = ? ORDER BY number", (memory,))
    return [MemoryVersion(**dict(row)) for row in rows]


def with_authors(connection: Connection, rows: Sequence[tuple[int, JsonObject]]) -> list[JsonObject]:
    """The rows of some memories; with `written_by` where others than a person wrote a version, in that order."""
    authors = grouped(connection.execute(SQL["authors"], (json.dumps([memory for memory, _ in rows]),)))
    return [{**row, "written_by": authors[memory]} if memory in authors else row for memory, row in rows]


def authors_at(
    connection: Connection, workspace: int, path: str, first: int = 1, last: int = sys.maxsize
) -> JsonObject:
    """`written_by`, as `with_authors` has it, of everything in some lines of a file; empty where a person wrote it."""
    names = [name for (name,) in connection.execute(SQL["authors_at"], (workspace, path, last, first))]
    return {"written_by": names} if names else {}


def text_of(connection: Connection, digest: str | None) -> str | None:
    """The text of a version; None when it has none or it is no longer kept."""
    row = connection.execute("SELECT body FROM texts WHERE digest = ?", (digest,)).fetchone()
    return zlib.decompress(row["body"]).decode("utf-8", "surrogatepass") if row else None


def expire(connection: Connection, before: str) -> int:
    """Drop versions that were replaced before a moment, and the splices of actions before it; returns how many.

    The last two versions of every memory stay: the current one (or its removal) and the one before.
    """
    dropped = connection.execute(SQL["expire"], (before,)).rowcount
    connection.execute("DELETE FROM facts WHERE until < ?", (before,))
    connection.execute("DELETE FROM splices WHERE action IN (SELECT id FROM actions WHERE at < ?)", (before,))
    connection.execute("DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM versions WHERE digest IS NOT NULL)")
    return dropped
