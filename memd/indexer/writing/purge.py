"""Purges a memory: its text, history, caches and free pages; reports what is gone and what is out of reach."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from memd.errors import NotFound, Refused
from memd.indexer.indexing import file_copies
from memd.indexer.language.words import words
from memd.indexer.maintenance import rebuild, reconcile
from memd.indexer.record import history
from memd.indexer.store import ledger, vector_table
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import JsonObject

SHORTEST = 4
"""Shorter words are in every note and say nothing about where a text has been."""

PURGED = "(purged)"

RENEW_SECONDS = 10.0
"""How long a caller waits until the collection has nothing of a purged memory any more."""


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """What a memory said in all its versions, and where."""

    memory: int
    texts: dict[str, str]
    """By digest, as far as they are kept."""
    digests: frozenset[str]
    paths: frozenset[str]
    actions: frozenset[int]
    distinctive: frozenset[str] = frozenset()
    """Words that nothing else in these files has."""

    def in_bytes(self, data: bytes) -> bool:
        """Whether some bytes of a file have a part of it."""
        text = data.decode("utf-8", "replace")
        piece = text.strip()
        for own in self.texts.values():
            if (len(piece) >= SHORTEST and piece in own) or (own.strip() and own.strip() in piece):
                return True
        return not self.distinctive.isdisjoint(_words(text)) or self._torn(text)

    def _torn(self, text: str) -> bool:
        """Whether a word is cut: a splice may begin and end in the middle of one."""
        found = [word.exact[0] for word in words(text)]
        first, last = (found[0], found[-1]) if found else ("", "")
        return (len(first) >= SHORTEST and any(word.endswith(first) for word in self.distinctive)) or (
            len(last) >= SHORTEST and any(word.startswith(last) for word in self.distinctive)
        )

    def in_text(self, text: str) -> bool:
        """Whether a whole text has one of its versions."""
        return any(own.strip() in text for own in self.texts.values())


def purge(stores: Stores, index: WorkspaceIndex, memory: int) -> JsonObject:
    """Remove every trace of a memory whose text is no longer in the files."""
    trace = _trace(stores, index, memory)
    with stores.ledger.forgetting() as connection:
        purged = _from_ledger(connection, index, trace)
    stores.question_vectors.clear()
    # A segment keeps the words of deleted chunks: the text index is built again.
    stores.swap_text(index, rebuild.build_elsewhere(stores.folder, index.id))
    reconcile.reconcile_text(stores, index)
    index.drop_mirrors()
    purged["collection"] = "made again" if stores.renew_collection(index) else "not open"
    problem = stores.ledger.compact()
    kept = [{"what": "state.db-wal", "why": problem}] if problem else []
    return {"memory": memory, "purged": purged, "kept": [*kept, *_out_of_reach(stores, index, trace)]}


def _trace(stores: Stores, index: WorkspaceIndex, memory: int) -> MemoryTrace:
    connection = stores.ledger.reader
    row = connection.execute("SELECT gone FROM memories WHERE id = ? AND workspace = ?", (memory, index.id)).fetchone()
    if row is None:
        raise NotFound(f"there is no memory with the number {memory}")
    if row["gone"] is None:
        raise Refused("the memory is still in its file", "remove it first: memd rm KEY --hard does both")
    versions = history.versions(connection, memory)
    paths = frozenset(version.path for version in versions)
    digests = frozenset(version.digest for version in versions if version.digest)
    texts = {digest: text for digest in digests if (text := history.text_of(connection, digest)) is not None}
    others = {word for path in paths for word in _words(_file_text(index, path))}
    own = {word for text in texts.values() for word in _words(text)}
    actions = frozenset(version.action for version in versions if version.action is not None)
    return MemoryTrace(memory, texts, digests, paths, actions, frozenset(own - others))


def _file_text(index: WorkspaceIndex, path: str) -> str:
    try:
        return (index.workspace.root / path).read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _words(text: str) -> set[str]:
    return {form for word in words(text) for form in word.exact if len(form) >= SHORTEST}


# --- the ledger ---------------------------------------------------------------------------------------------


def _from_ledger(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> JsonObject:
    versions = connection.execute("DELETE FROM versions WHERE memory = ?", (trace.memory,)).rowcount
    chunks = connection.execute("DELETE FROM chunks WHERE memory = ?", (trace.memory,)).rowcount
    connection.execute("DELETE FROM memories WHERE id = ?", (trace.memory,))
    # Another memory may have had the same text, word for word.
    rows = connection.execute(
        "SELECT DISTINCT digest FROM versions WHERE digest IN (SELECT value FROM json_each(?))",
        (json.dumps(list(trace.digests)),),
    )
    own = trace.digests - {row["digest"] for row in rows}
    connection.executemany("DELETE FROM texts WHERE digest = ?", [(digest,) for digest in own])
    splices = _drop_splices(connection, index, trace)
    _drop_copies(connection, index, trace)
    _blank_keys(connection, index, trace)
    return {
        "versions": versions,
        "texts": len(own),
        "chunks": chunks,
        "vectors": vector_table.sweep(connection),
        "splices": splices,
        "shared": len(trace.digests - own),
    }


def _drop_splices(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> int:
    """Drop the splices of these files that have a part of the memory.

    The actions stay in the log; they can no longer be undone.
    """
    rows = connection.execute(
        "SELECT s.* FROM splices s JOIN actions a ON a.id = s.action"
        " WHERE a.workspace = ? AND s.path IN (SELECT value FROM json_each(?))",
        (index.id, json.dumps(list(trace.paths))),
    ).fetchall()
    dropped = 0
    for row in rows:
        parts = (zlib.decompress(row["removed"]), zlib.decompress(row["inserted"]), row["leading"], row["trailing"])
        if row["action"] in trace.actions or any(trace.in_bytes(part) for part in parts):
            connection.execute("DELETE FROM splices WHERE action = ? AND nth = ?", (row["action"], row["nth"]))
            dropped += 1
    return dropped


def _drop_copies(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> None:
    """Drop copies of files that cannot be read any more."""
    for file in (index.files[path].id for path in trace.paths if path in index.files):
        copy = file_copies.of(connection, file)
        if copy is not None and any(text.strip().encode() in copy for text in trace.texts.values()):
            connection.execute("DELETE FROM pages WHERE file = ?", (file,))


def _blank_keys(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> None:
    """Remove the key from the log: it is made of the heading."""
    rows = connection.execute("SELECT id, key FROM actions WHERE workspace = ? AND key <> ''", (index.id,)).fetchall()
    for row in rows:
        named = _words(row["key"].replace("-", " "))
        if row["id"] in trace.actions or not trace.distinctive.isdisjoint(named):
            connection.execute("UPDATE actions SET key = ? WHERE id = ?", (PURGED, row["id"]))


# --- the rest -----------------------------------------------------------------------------------------------


def collection_left(stores: Stores, ns: str) -> list[dict[str, str]]:
    """Why the collection may still hold what was purged; it waits for Chroma, so the writer's thread must not ask.

    The collection holds vectors and digests, but no text.
    """
    collection = stores.index(ns).collection
    problem = collection.wait_renewed(RENEW_SECONDS) if collection is not None else ""
    return [{"what": "chroma", "why": f"it will be made again: {problem}"}] if problem else []


def _out_of_reach(stores: Stores, index: WorkspaceIndex, trace: MemoryTrace) -> Iterator[dict[str, str]]:
    """Copies that are not memd's to change, or that are kept for the day when everything else is lost."""
    for backup in ledger.backups(stores.folder):
        yield {"what": str(backup), "why": "a backup from before"}
    for aside in sorted(stores.folder.glob("quarantine/*")):
        yield {"what": str(aside), "why": "put aside for a person to look at; memd doctor --fix removes it in a week"}
    files = (index.workspace.root / path for path in sorted(trace.paths))
    for copy in (copy for file in files for copy in sorted(file.parent.glob(f"{file.stem}.conflict-*"))):
        if trace.in_text(copy.read_text("utf-8", errors="replace")):
            yield {"what": str(copy), "why": "a copy beside your notes, made when two wrote at once"}
