"""The ledger's rows of workspaces, files, memories and chunks, as the write path reads and writes them."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from pathlib import PurePosixPath
from sqlite3 import Connection, Cursor, Row
from types import MappingProxyType

from memd.indexer.language.languages import foreign_language
from memd.indexer.store.queries import queries, with_lists
from memd.lifecycle.lives import base_importance
from memd.models import Chunk, Declared, Memory, Workspace, digest_of, grouped
from memd.notes.metadata import expiry
from memd.prose import composed

Problems = dict[str, tuple[str, bool]]
"""The files that cannot be indexed as they are: why, and whether they are searched all the same."""
OF_A_MEMORY = ("slug", "heading", "start_line", "end_line", "kind", "date")
"""The fields of a memory that its row has as they are."""
CHUNKS = "SELECT id, text, start_line, end_line, heading, context FROM chunks WHERE"
SQL = queries(__file__)


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as it was when it was read."""

    id: int
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: str
    racy: int
    """Whether it was read so soon after a change that another may hide in it."""
    problem: str

    @property
    def left_out(self) -> bool:
        """Whether its text was never read; another with a problem is searched as it was, or as far as it is text."""
        return bool(self.problem and not self.digest)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """The parts by which a memory is recognised."""

    id: int
    file: int | None
    slug: str
    digest: str
    body: str


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """The parts by which a chunk is recognised."""

    id: int
    memory: int
    digest: str


def digest_of_memory(memory: Memory) -> str:
    return digest_of(memory.text)


def digest_of_body(memory: Memory) -> str:
    """Stays the same under another heading."""
    heading, _, body = memory.text.partition("\n")
    return digest_of(body.strip() if memory.slug else memory.text) if body.strip() else digest_of(heading)


def digest_of_chunk(chunk: Chunk) -> str:
    """Changes when anything changes that the caches hold of the chunk."""
    return digest_of("\0".join((*chunk.heading, chunk.context, chunk.text)))


def number_of(connection: Connection, query: str, *values: object) -> int:
    """The first number that a query finds; 0 for none."""
    row = connection.execute(query, values).fetchone()
    return int(row[0] or 0) if row else 0


def numbers_of(connection: Connection, query: str, *values: object) -> set[int]:
    """The numbers that a query finds."""
    return {row[0] for row in connection.execute(query, values)}


def among(connection: Connection, query: str, values: Iterable[object]) -> Cursor:
    """Run a query whose only parameter is a list of these values; `AMONG ?` in it means: one of them."""
    return connection.execute(with_lists(query), (json.dumps(list(values)),))


def drop(connection: Connection, table: str, ids: Iterable[int]) -> None:
    connection.executemany(f"DELETE FROM {table} WHERE id = ?", [(number,) for number in ids])


# --- workspaces ---------------------------------------------------------------------------------------------


def workspace_ids(connection: Connection, workspaces: Sequence[Workspace], used: Collection[int]) -> list[int]:
    """The numbers of workspaces, new ones where they have none; none of those that others use.

    The same directory goes on with what is known of it, under any name; else the same name does, in another directory.
    """
    rows = [row for row in connection.execute("SELECT id, ns, root FROM workspaces") if row["id"] not in used]
    by_root, found = grouped((row["root"], row) for row in rows), dict[str, int]()
    for one in workspaces:
        if there := by_root.get(str(one.root)):
            there.remove(row := max(there, key=lambda row: (row["ns"] == one.ns, row["id"])))
            found[one.ns] = row["id"]
    named = {row["ns"]: row for row in rows if row["id"] not in found.values()}
    for one in workspaces:
        if one.ns in named:
            if one.ns in found:
                stop_watching(connection, named[one.ns]["id"])
            else:
                found[one.ns] = named[one.ns]["id"]
    # Two may have changed their names.
    kept = [(number,) for number in found.values()]
    connection.executemany("UPDATE workspaces SET ns = ns || ' ' || id WHERE id = ?", kept)
    return [_save_workspace(connection, one, found.get(one.ns)) for one in workspaces]


def _save_workspace(connection: Connection, workspace: Workspace, known: int | None) -> int:
    row = connection.execute(SQL["save_workspace"], (known, workspace.ns, str(workspace.root))).fetchone()
    return int(row["id"])


def workspace_rows(connection: Connection) -> list[Row]:
    return connection.execute("SELECT * FROM workspaces WHERE ns NOT LIKE '% %' ORDER BY id").fetchall()


def others(connection: Connection, watched: Collection[int]) -> dict[int, tuple[str, str]]:
    """The name and the directory of each workspace that is no longer watched, by its number."""
    rows = connection.execute("SELECT id, ns, root FROM workspaces ORDER BY id")
    return {number: (ns.partition(" ")[0], root) for number, ns, root in rows if number not in watched}


def stop_watching(connection: Connection, workspace: int) -> None:
    """Let go of what a workspace's files say, and of its name; what is known of its memories stays, for when it is
    watched again: then all of its files are read anew."""
    connection.execute("DELETE FROM chunks WHERE workspace = ?", (workspace,))
    connection.execute("UPDATE files SET size = -1, digest = '' WHERE workspace = ?", (workspace,))
    # No workspace can be called so.
    connection.execute("UPDATE workspaces SET ns = ns || ' ' || id WHERE id = ?", (workspace,))
    mark_text(connection, workspace, TextState.BEHIND)


def mark_multilingual(connection: Connection, workspace: int) -> None:
    connection.execute("UPDATE workspaces SET polyglot = 1 WHERE id = ?", (workspace,))


def multilingual_key(workspace: int) -> str:
    """Under which setting of the ledger it stands what made a workspace multilingual."""
    return f"polyglot:{workspace}"


def first_foreign(connection: Connection, workspace: int) -> Row | None:
    """The first chunk that is in another language than English, with its place."""
    row: Row | None = connection.execute(SQL["first_foreign"], (workspace,)).fetchone()
    return row


def forget_workspace(connection: Connection, workspace: int) -> None:
    connection.execute("DELETE FROM meta WHERE key = ?", (multilingual_key(workspace),))
    connection.execute("DELETE FROM workspaces WHERE id = ?", (workspace,))
    connection.execute("DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM versions WHERE digest IS NOT NULL)")


class TextState(IntEnum):
    """How far the text index follows the chunks."""

    IN_STEP = 0
    BEHIND = 1
    """It may differ from them."""
    OUTDATED = 2
    """It has chunks in whose place there are others, or none: what asks it now may miss both."""


def mark_text(connection: Connection, workspace: int, state: TextState) -> None:
    """Mark the text index as in step, or as behind; what is outdated stays so until it is in step."""
    behind = "MAX(text_dirty, ?)" if state else "?"
    connection.execute(f"UPDATE workspaces SET text_dirty = {behind} WHERE id = ?", (state, workspace))


def counts(connection: Connection, workspace: int) -> dict[str, int]:
    return dict(connection.execute(SQL["counts"], {"w": workspace}).fetchone())


def chunk_count(connection: Connection, workspace: int) -> int:
    return number_of(connection, "SELECT COUNT(*) FROM chunks WHERE workspace = ?", workspace)


def expected_text(connection: Connection, workspace: int) -> tuple[bool, int]:
    """Whether the text index may be behind, and how many chunks it has if it is not."""
    row = connection.execute(SQL["expected_text"], (workspace,)).fetchone()
    return (bool(row[0]), int(row[1])) if row else (True, 0)


# --- files --------------------------------------------------------------------------------------------------


def files(connection: Connection, workspace: int) -> Mapping[str, FileRow]:
    """The rows of a workspace's files by path; nobody can change what others may be reading."""
    rows = connection.execute(SQL["files"], (workspace,))
    return MappingProxyType({row["path"]: FileRow(*row) for row in rows})


def any_files(connection: Connection) -> bool:
    """Whether anything was ever read, in any workspace."""
    return bool(number_of(connection, "SELECT 1 FROM files LIMIT 1"))


def problems(connection: Connection, workspace: int) -> Problems:
    rows = connection.execute(SQL["problems"], (workspace,))
    return {path: (why, bool(searched)) for path, why, searched in rows}


def paths(connection: Connection, workspace: int) -> Iterable[tuple[str, int]]:
    """The path and the number of each file."""
    return connection.execute("SELECT path, id FROM files WHERE workspace = ?", (workspace,))


def files_stamp(connection: Connection, workspace: int) -> tuple[int, int]:
    """Two numbers, one of which changes when a file comes or goes."""
    count, last = connection.execute(SQL["files_stamp"], (workspace,)).fetchone()
    return count, last


def save_file(connection: Connection, workspace: int, row: FileRow) -> FileRow:
    """Insert or update by path; returns the row with the file's number."""
    values = {**asdict(row), "workspace": workspace, "stem": composed(PurePosixPath(row.path).stem)}
    return replace(row, id=connection.execute(SQL["save_file"], values).fetchone()["id"])


# --- memories -----------------------------------------------------------------------------------------------


def memories_of(connection: Connection, file: int, but: Collection[str] = ()) -> list[MemoryRow]:
    """The memories of a file, without those of some slugs."""
    rows = connection.execute(SQL["memories_of"], (file,))
    return [MemoryRow(*row) for row in rows if row["slug"] not in but]


def gone_memories(connection: Connection, workspace: int, digest: str) -> list[tuple[MemoryRow, set[str]]]:
    """The memories that had this text when they left the files, or before, each with the files it was ever in.

    Who left last comes first.
    """
    rows = connection.execute(SQL["gone_memories"], {"workspace": workspace, "digest": digest})
    return [(MemoryRow(*row), set(json.loads(paths))) for *row, paths in rows]


def just_gone(connection: Connection, workspace: int, since: str) -> list[tuple[str, MemoryRow]]:
    """Memories that left since then as an editor emptied or removed their file, each with that file's path."""
    return [(path, MemoryRow(*row)) for path, *row in connection.execute(SQL["just_gone"], (workspace, since))]


def save_memory(
    connection: Connection, workspace: int, file: FileRow, memory: Memory, role: str, known: int | None, now: str
) -> int:
    """Write a memory's row; a known one keeps its number and with it its life.

    A file without a date gives its memories the day it was last written; one with the text it had keeps its first day.
    """
    values = {
        "id": known,
        "workspace": workspace,
        "file": file.id,
        "written": datetime.fromtimestamp(file.mtime_ns / 1e9).date().isoformat(),
        "digest": digest_of_memory(memory),
        "body": digest_of_body(memory),
        "tier": memory.declared.tier or ("ltm" if role in ("memory", "topic") else "stm"),
        "role": role,
        "tags": json.dumps(memory.declared.tags, ensure_ascii=False),
        "declared": _facts(memory.declared),
        "expires": _expires(connection, memory, role, known, now),
        "importance": base_importance(memory.declared.importance),
        "now": now,
    }
    as_they_are = {name: getattr(memory, name) for name in OF_A_MEMORY}
    return int(connection.execute(SQL["save_memory"], as_they_are | values).fetchone()["id"])


def _expires(connection: Connection, memory: Memory, role: str, known: int | None, now: str) -> str | None:
    """When the memory's ttl runs out."""
    if not memory.declared.ttl:
        return None
    row = connection.execute("SELECT first_seen FROM memories WHERE id = ?", (known,)).fetchone()
    return expiry(memory, role, row["first_seen"] if row else now)


@lru_cache(maxsize=1_000)
def _facts(declared: Declared) -> str:
    """The declarations of a note, as JSON; cached, since most notes declare nothing."""
    return json.dumps(asdict(declared), ensure_ascii=False)


def let_go(connection: Connection, memories: Iterable[int], now: str) -> None:
    """Mark memories whose text left the files; their rows stay, so that their lives go on if the text comes back."""
    left = [(now, memory) for memory in memories]
    connection.executemany("UPDATE memories SET gone = ?, file = NULL WHERE id = ?", left)


# --- chunks -------------------------------------------------------------------------------------------------


def chunks_of(connection: Connection, memories: Iterable[int]) -> list[ChunkRow]:
    return [ChunkRow(*row) for row in among(connection, SQL["chunks_of"], memories)]


def add_chunk(connection: Connection, workspace: int, file: int, memory: int, chunk: Chunk) -> int:
    place = workspace, file, memory, chunk.start_line, chunk.end_line
    heading, language = json.dumps(chunk.heading, ensure_ascii=False), foreign_language(chunk.text)
    values = *place, heading, chunk.context, chunk.text, digest_of_chunk(chunk), language
    return int(connection.execute(SQL["add_chunk"], values).lastrowid or 0)


def move_chunk(connection: Connection, known: int, file: int, memory: int, chunk: Chunk) -> None:
    """Move a chunk whose text is the same to another place."""
    connection.execute(SQL["move_chunk"], (file, memory, chunk.start_line, chunk.end_line, known))


def unread_chunks(connection: Connection, most: int) -> list[tuple[int, str]]:
    """Chunks whose language was not looked at, because they were there before memd did that."""
    rows = connection.execute("SELECT id, text FROM chunks WHERE language IS NULL LIMIT ?", (most,))
    return [(row["id"], row["text"]) for row in rows]


def save_languages(connection: Connection, languages: Iterable[tuple[str, int]]) -> None:
    connection.executemany("UPDATE chunks SET language = ? WHERE id = ?", languages)


def has_chunks(connection: Connection, workspace: int) -> bool:
    return bool(number_of(connection, "SELECT 1 FROM chunks WHERE workspace = ? LIMIT 1", workspace))


def chunk_ids(connection: Connection, workspace: int) -> set[int]:
    return numbers_of(connection, "SELECT id FROM chunks WHERE workspace = ?", workspace)


def chunk_texts(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Chunk]]:
    """Chunks by number, as the caches need them."""
    return list(map(_text_of, among(connection, f"{CHUNKS} id AMONG ?", ids)))


def all_chunk_texts(connection: Connection, workspace: int) -> Iterator[tuple[int, Chunk]]:
    """The chunks of a workspace, read one by one."""
    return map(_text_of, connection.execute(f"{CHUNKS} workspace = ? ORDER BY id", (workspace,)))


def _text_of(row: Row) -> tuple[int, Chunk]:
    number, text, start, end, heading, context = row
    return number, Chunk(text, start, end, tuple(json.loads(heading)), context)
