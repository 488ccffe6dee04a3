"""Forgets a memory for good: text, history, caches and free pages; says what went, and what is out of its reach."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memd.errors import MemdError, NotFound, Refused
from memd.indexer.indexing import file_copies
from memd.indexer.language.words import words
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.maintenance.reconcile import reconcile_text, reconcile_vectors
from memd.indexer.record import history
from memd.indexer.store import vector_table
from memd.indexer.store.ledger import backups
from memd.indexer.store.stores import Stores, WorkspaceIndex

SHORTEST = 4
"""Shorter words stand in every note and tell nothing about where a text has been."""

PURGED = "(purged)"


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """What a memory said, in all its versions, and where."""

    memory: int
    digests: frozenset[str]
    texts: tuple[str, ...]
    paths: frozenset[str]
    actions: frozenset[int]
    telling: frozenset[str] = frozenset()
    """Words that nothing else in these files has."""

    def in_bytes(self, data: bytes) -> bool:
        """Whether some bytes of a file have a part of it."""
        text = data.decode("utf-8", "replace")
        piece = text.strip()
        if any(
            (len(piece) >= SHORTEST and piece in own) or (own.strip() and own.strip() in piece) for own in self.texts
        ):
            return True
        return not self.telling.isdisjoint(_words(text)) or self._torn(text)

    def _torn(self, text: str) -> bool:
        """A splice begins and ends where two texts differ, which may be in the middle of a word."""
        found = [word.exact[0] for word in words(text)]
        first, last = (found[0], found[-1]) if found else ("", "")
        return (len(first) >= SHORTEST and any(word.endswith(first) for word in self.telling)) or (
            len(last) >= SHORTEST and any(word.startswith(last) for word in self.telling)
        )


def purge(stores: Stores, index: WorkspaceIndex, memory: int) -> dict[str, Any]:
    """Remove every trace of a memory whose text is no longer in the files."""
    trace = _trace(stores, index, memory)
    with stores.ledger.forgetting() as connection:
        gone = _from_ledger(connection, index, trace)
    stores.question_vectors.clear()
    _text_anew(stores, index)
    gone["collection"] = _vectors_anew(stores, index)
    problem = stores.ledger.compact()
    kept = [{"what": "state.db-wal", "why": problem}] if problem else []
    kept += _out_of_reach(stores, index, trace)
    return {"memory": memory, "purged": gone, "kept": kept}


# --- what there is ------------------------------------------------------------------------------------------


def _trace(stores: Stores, index: WorkspaceIndex, memory: int) -> MemoryTrace:
    connection = stores.ledger.reader
    row = connection.execute("SELECT gone FROM memories WHERE id = ? AND workspace = ?", (memory, index.id)).fetchone()
    if row is None:
        raise NotFound(f"there is no memory with the number {memory}")
    if row["gone"] is None:
        raise Refused("the memory still stands in its file", "remove it first: memd rm KEY --hard does both")
    versions = history.versions(connection, memory)
    digests = frozenset(version.digest for version in versions if version.digest)
    texts = tuple(text for digest in digests if (text := history.text_of(connection, digest)) is not None)
    trace = MemoryTrace(
        memory, digests, texts, frozenset(version.path for version in versions),
        frozenset(version.action for version in versions if version.action is not None),
    )  # fmt: skip
    others = {word for path in trace.paths for word in _words(_file(index, path))}
    mine = {word for text in texts for word in _words(text)}
    return replace(trace, telling=frozenset(mine - others))


def _file(index: WorkspaceIndex, path: str) -> str:
    try:
        return (index.workspace.root / path).read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _words(text: str) -> set[str]:
    return {form for word in words(text) for form in word.exact if len(form) >= SHORTEST}


# --- the ledger ---------------------------------------------------------------------------------------------


def _from_ledger(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> dict[str, Any]:
    versions = connection.execute("DELETE FROM versions WHERE memory = ?", (trace.memory,)).rowcount
    chunks = connection.execute("DELETE FROM chunks WHERE memory = ?", (trace.memory,)).rowcount
    connection.execute("DELETE FROM memories WHERE id = ?", (trace.memory,))
    shared = _shared(connection, trace.digests)
    for digest in trace.digests - shared:
        connection.execute("DELETE FROM texts WHERE digest = ?", (digest,))
    splices = _drop_splices(connection, index, trace)
    _drop_pages(connection, index, trace)
    _blank_keys(connection, index, trace)
    return {
        "versions": versions,
        "texts": len(trace.digests - shared),
        "chunks": chunks,
        "vectors": vector_table.sweep(connection),
        "splices": splices,
        "shared": len(shared),
    }


def _shared(connection: sqlite3.Connection, digests: Iterable[str]) -> set[str]:
    """Texts that another memory has too, word for word: they are not this one's alone."""
    rows = connection.execute(
        "SELECT DISTINCT digest FROM versions WHERE digest IN (SELECT value FROM json_each(?))",
        (json.dumps(list(digests)),),
    )
    return {row["digest"] for row in rows}


def _drop_splices(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> int:
    """Drop what actions took out of these files or put into them, where it has a part of the memory.

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


def _drop_pages(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> None:
    """Drop the last known bytes of files that cannot be read any more."""
    for file in (index.files[path].id for path in trace.paths if path in index.files):
        page = file_copies.of(connection, file)
        if page is not None and any(text.strip().encode() in page for text in trace.texts):
            connection.execute("DELETE FROM pages WHERE file = ?", (file,))


def _blank_keys(connection: sqlite3.Connection, index: WorkspaceIndex, trace: MemoryTrace) -> None:
    """A key is made of the heading: it goes from the log too."""
    rows = connection.execute(
        "SELECT id, key, detail FROM actions WHERE workspace = ? AND key <> ''", (index.id,)
    ).fetchall()
    for row in rows:
        said = _words(row["key"].replace("-", " "))
        if row["id"] in trace.actions or not trace.telling.isdisjoint(said):
            connection.execute("UPDATE actions SET key = ? WHERE id = ?", (PURGED, row["id"]))


# --- the caches ---------------------------------------------------------------------------------------------


def _text_anew(stores: Stores, index: WorkspaceIndex) -> None:
    """Build the text index again in a child: a segment keeps the words of a chunk that it calls deleted."""
    stores.swap_text(index, build_elsewhere(stores.folder, index.id))
    reconcile_text(stores, index)


def _vectors_anew(stores: Stores, index: WorkspaceIndex) -> str:
    """Make the collection again from the ledger, and have Chroma's own file give up its free pages."""
    stores.load_mirror(index)
    if stores.vectors is None:
        return "not open"
    stores.vectors.drop(index.id)
    stores.open_collection(index)
    reconcile_vectors(stores, index)
    return "made again"


# --- what is out of reach -----------------------------------------------------------------------------------


def _out_of_reach(stores: Stores, index: WorkspaceIndex, trace: MemoryTrace) -> list[dict[str, str]]:
    """Copies that are not memd's to change, or that are there for the day when everything else is lost."""
    kept = [{"what": str(file), "why": "a backup from before"} for file in backups(stores.folder)]
    aside = stores.folder / "quarantine"
    kept += [{"what": str(found), "why": "put aside for a person to look at; memd doctor --fix removes it in a week"}
             for found in (sorted(aside.iterdir()) if aside.exists() else ())]  # fmt: skip
    kept += [{"what": str(file), "why": "a copy beside your notes, made when two wrote at once"}
             for file in _conflict_copies(index, trace)]  # fmt: skip
    problem = _compact_chroma(stores)
    return kept + ([{"what": "chroma", "why": problem}] if problem else [])


def _conflict_copies(index: WorkspaceIndex, trace: MemoryTrace) -> Sequence[Path]:
    found = []
    for path in sorted(trace.paths):
        file = index.workspace.root / path
        for copy in sorted(file.parent.glob(f"{file.stem}.conflict-*")):
            if any(own.strip() in copy.read_text("utf-8", errors="replace") for own in trace.texts):
                found.append(copy)
    return found


def _compact_chroma(stores: Stores) -> str:
    """Empty when Chroma's file has no free pages left; it holds vectors and numbers, no text."""
    file = stores.folder / "chroma" / "chroma.sqlite3"
    if not file.exists():
        return ""
    try:
        with closing(sqlite3.connect(file, timeout=5)) as connection:
            connection.execute("VACUUM")
    except (sqlite3.Error, MemdError) as error:
        return f"its free pages stay until they are written over ({error})"
    return ""
