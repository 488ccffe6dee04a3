"""Memories with their lives, out of the ledger and into another one: the schema that docs/export.md describes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import UsageError
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Memory
from memd.notes.incoming_file import split
from memd.notes.read import SkippedFile, UnreadableFile, read

SCHEMA = 1
"""Grows when a reader of the old number could misunderstand the new one."""

PAGE_BYTES = 256 * 1024
LIFE = ("tier", "first_seen", "changed")
"""What was observed of every memory: the columns that move with it; `expires` does too, where it has one."""
LIVED = {
    "accesses": int, "days": int, "accessed": str, "useful": int, "importance": float, "moved": str, "moved_by": str,
    "moved_why": str, "home": str,
}  # fmt: skip
"""What was observed since; an export of before these were has none of them."""
LINK = ("base", "weight", "origin", "made", "accesses", "accessed")
"""What was observed of an edge."""
STATES = ("", "taken", "faded")
"""What can have become of an edge: nothing, someone took it away, it faded away."""

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportCursor:
    """Where a page ended: behind a memory of a file, or behind one that is gone."""

    ns: str = ""
    path: str = ""
    nth: int = 0
    digest: str = ""
    gone: int = -1
    """The number of a memory that is gone; -1 while there are files."""
    edge: int = -1
    """The number of an edge; -1 while there are memories."""

    @classmethod
    def read(cls, text: str) -> ExportCursor:
        try:
            return cls(*json.loads(text)) if text else cls()
        except (ValueError, TypeError):
            raise UsageError(f"`after` must be the `next` of the answer before, not {text!r}") from None

    def __str__(self) -> str:
        return json.dumps(list(asdict(self).values()), ensure_ascii=False, separators=(",", ":"))


class ExportPage:
    """What one answer holds: as many memories as fit, at least one."""

    def __init__(self, limit: int) -> None:
        self.files: list[Told] = []
        self.gone: list[Told] = []
        self.edges: list[Told] = []
        self._left = limit
        self._bytes = PAGE_BYTES

    @property
    def full(self) -> bool:
        return self._left <= 0 or self._bytes <= 0

    def take(self, file: Told | None, memory: Told | None) -> None:
        """A memory of a file (which may have none), or one that is gone."""
        if file is None:
            self.gone.append(memory or {})
        elif self.files and (self.files[-1]["ns"], self.files[-1]["path"]) == (file["ns"], file["path"]):
            self.files[-1]["memories"].append(memory)
        else:
            self.files.append({**file, "memories": [memory] if memory else []})
            self._bytes -= len(json.dumps(file))
        self._count(memory)

    def link(self, edge: Told) -> None:
        self.edges.append(edge)
        self._count(edge)

    def _count(self, entry: Told | None) -> None:
        self._left -= 1
        self._bytes -= len(json.dumps(entry))


def page(stores: Stores, indexes: Sequence[WorkspaceIndex], after: str, limit: int, max_bytes: int) -> Told:
    """The next entries behind a cursor: files by path, then those memories that are gone, then edges."""
    cursor, found = ExportCursor.read(after), ExportPage(limit)
    for index in _from(indexes, cursor.ns):
        for place, file, entry in _pieces(stores, index, cursor, max_bytes):
            if found.full:
                return _told(found, str(cursor))
            if place.edge >= 0 and entry is not None:
                found.link(entry)
            else:
                found.take(file, entry)
            cursor = place
        cursor = ExportCursor(_after(indexes, index))
    return _told(found, "")


def _told(found: ExportPage, following: str) -> Told:
    return {"memd_export": SCHEMA, "files": found.files, "gone": found.gone, "edges": found.edges, "next": following}


def _from(indexes: Sequence[WorkspaceIndex], ns: str) -> Sequence[WorkspaceIndex]:
    names = [index.workspace.ns for index in indexes]
    if ns and ns not in names:
        raise UsageError(f"`after` is of the workspace `{ns}`, which is not among those asked for")
    return indexes[names.index(ns) :] if ns else indexes


def _after(indexes: Sequence[WorkspaceIndex], index: WorkspaceIndex) -> str:
    following = indexes[list(indexes).index(index) + 1 :]
    return following[0].workspace.ns if following else ""


def _pieces(
    stores: Stores, index: WorkspaceIndex, cursor: ExportCursor, max_bytes: int
) -> Iterator[tuple[ExportCursor, Told | None, Told | None]]:
    """Every memory and edge behind the cursor, each with its file and the cursor that stands behind it."""
    connection, ns = stores.ledger.reader, index.workspace.ns
    if cursor.edge < 0:
        yield from _memories(connection, index, cursor, max_bytes)
    for row in _links(connection, index.id, cursor.edge):
        yield ExportCursor(ns, gone=cursor.gone, edge=row["id"]), None, _edge(connection, index, row)


def _memories(
    connection: Connection, index: WorkspaceIndex, cursor: ExportCursor, max_bytes: int
) -> Iterator[tuple[ExportCursor, Told | None, Told | None]]:
    ns = index.workspace.ns
    for path in sorted(path for path in index.files if cursor.gone < 0 and path >= cursor.path):
        for nth, digest, file, memory in _file(connection, index, path, max_bytes):
            if path == cursor.path and digest == cursor.digest and nth < cursor.nth:
                continue
            yield ExportCursor(ns, path, nth + 1, digest), {**file, "from": nth}, memory
    rows = connection.execute(
        "SELECT * FROM memories WHERE workspace = ? AND gone IS NOT NULL AND id > ? ORDER BY id",
        (index.id, cursor.gone),
    ).fetchall()
    for row in rows:
        yield ExportCursor(ns, gone=row["id"]), None, _gone(connection, ns, row)


# --- one file -----------------------------------------------------------------------------------------------


def _file(
    connection: Connection, index: WorkspaceIndex, path: str, max_bytes: int
) -> Iterator[tuple[int, str, Told, Told | None]]:
    """A file's memories as they stand in it now, with what the ledger knows of each."""
    try:
        reading = read(index.workspace.root / path, max_bytes)
    except (OSError, SkippedFile, UnreadableFile):
        return
    text = reading.text
    head, memories = split(path, text, reading.day)
    about: Told = {"ns": index.workspace.ns, "path": path, "digest": reading.digest,
                   "modified": _iso(reading.mtime_ns / 1e9), "head": head}  # fmt: skip
    if text.encode("utf-8", "replace") != reading.data:
        about["base64"] = base64.b64encode(reading.data).decode()
    rows = _rows(connection, index, path)
    stem = PurePosixPath(path).stem
    shared = lookup.shared_stems(connection, index.id, [stem])
    for nth, (memory, after) in enumerate(memories):
        file = about if nth == 0 else {"ns": about["ns"], "path": path, "digest": reading.digest}
        row = rows.get(memory.slug)
        key = lookup.key_of(stem, path, memory.slug, shared)
        yield nth, reading.digest, file, _memory(connection, key, memory, after, row)
    if not memories:
        yield 0, reading.digest, about, None


def _rows(connection: Connection, index: WorkspaceIndex, path: str) -> dict[str, Row]:
    rows = connection.execute(
        "SELECT m.* FROM memories m JOIN files f ON f.id = m.file WHERE m.workspace = ? AND f.path = ?",
        (index.id, path),
    )
    return {row["slug"]: row for row in rows}


def _memory(connection: Connection, key: str, memory: Memory, after: str, row: Row | None) -> Told:
    digest = digest_of_memory(memory)
    return {
        "key": key,
        "slug": memory.slug,
        "heading": memory.heading,
        "text": memory.text,
        "after": after,
        "digest": digest,
        "kind": memory.kind,
        "date": memory.date,
        "declared": facts(asdict(memory.declared)),
        "life": {name: row[name] for name in (*LIFE, "expires", *LIVED)} if row else None,
        "versions": _versions(connection, row["id"], digest) if row else [],
    }


def facts(declared: Told) -> Told:
    """What is declared, without what is not."""
    return {name: value for name, value in declared.items() if value not in ("", (), [], None, False)}


def _gone(connection: Connection, ns: str, row: Row) -> Told:
    last = history.latest(connection, row["id"])
    return {
        "ns": ns,
        "slug": row["slug"],
        "heading": row["heading"],
        "path": last.path if last else "",
        "digest": row["digest"],
        "body": row["body"],
        "kind": row["kind"],
        "role": row["role"],
        "date": row["date"],
        "declared": facts(json.loads(row["declared"])),
        "life": {name: row[name] for name in (*LIFE, "expires", "gone", *LIVED)},
        "versions": _versions(connection, row["id"], ""),
    }


def _versions(connection: Connection, memory: int, own: str) -> list[Told]:
    """A memory's versions; the text is left out where it is the memory's own."""
    told = []
    for version in history.versions(connection, memory):
        entry: Told = {"number": version.number, "at": version.at, "who": version.who, "digest": version.digest,
                       "path": version.path, "heading": version.heading}  # fmt: skip
        if version.digest is not None and version.digest != own:
            entry["text"] = history.text_of(connection, version.digest)
        told.append(entry)
    return told


# --- edges --------------------------------------------------------------------------------------------------


def _links(connection: Connection, workspace: int, after: int) -> list[Row]:
    """What links memories and does not stand in their files; also that a link was taken away, wherever it came from."""
    return connection.execute(
        "SELECT e.*, m.slug AS slug, f.path AS path, f.stem AS stem, n.slug AS other_slug, g.path AS other_path,"
        " g.stem AS other_stem FROM edges e"
        " JOIN memories m ON m.id = e.one JOIN files f ON f.id = m.file"
        " JOIN memories n ON n.id = e.other JOIN files g ON g.id = n.file"
        " WHERE e.workspace = ? AND e.id > ? AND (e.removed OR e.origin NOT IN ('declared', 'written')) ORDER BY e.id",
        (workspace, after),
    ).fetchall()


def _edge(connection: Connection, index: WorkspaceIndex, row: Row) -> Told:
    shared = lookup.shared_stems(connection, index.id, (row["stem"], row["other_stem"]))
    return {
        "ns": index.workspace.ns,
        "from": lookup.key_of(row["stem"], row["path"], row["slug"], shared),
        "to": lookup.key_of(row["other_stem"], row["other_path"], row["other_slug"], shared),
        "type": row["rel"],
        **{name: row[name] for name in LINK},
        "removed": STATES[row["removed"]],
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def seconds_of(moment: str) -> float:
    """When it was, in seconds; 0 where that cannot be said."""
    try:
        return datetime.fromisoformat(re.sub(r"Z$", "+00:00", moment.strip())).timestamp()
    except (ValueError, OverflowError):
        return 0.0
