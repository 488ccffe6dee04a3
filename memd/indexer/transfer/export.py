"""Exports memories with their lives, a page at a time; docs/export.md describes the schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from sqlite3 import Connection, Row

from memd.errors import UsageError
from memd.indexer.indexing.read_files import read_or_none
from memd.indexer.lifecycle import edges
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views.keys import declared_facts
from memd.models import JsonObject, is_document, pick
from memd.notes.merging import split
from memd.notes.read import FileContent

SQL = queries(__file__)
SCHEMA = 1
"""Counted up when a reader of the old schema could misunderstand the new one."""

PAGE_BYTES = 256 * 1024
LIFE = ("tier", "first_seen", "changed")
"""The columns of every memory's life."""
OBSERVED = ("accesses", "days", "accessed", "useful", "importance", "moved", "moved_by", "moved_why", "home", "deleted")
"""Further columns; older exports do not have them."""
EDGE = ("base", "weight", "origin", "made", "accesses", "accessed")
"""The columns of an edge's life."""
EDGE_STATES = ("", "taken", "faded")
"""Names of `edges.removed`: not removed, removed by someone, faded."""


@dataclass(frozen=True, slots=True)
class ExportCursor:
    """Where a page ended: after a memory of a file, after one that is gone, or after an edge."""

    ns: str = ""
    path: str = ""
    nth: int = 0
    digest: str = ""
    gone: int = -1
    """The number of a gone memory; -1 while there are files."""
    edge: int = -1
    """The number of an edge; -1 while there are memories."""

    @classmethod
    def read(cls, text: str) -> ExportCursor:
        try:
            return cls(*json.loads(text)) if text else cls()
        except (ValueError, TypeError):
            raise UsageError(f"`after` must be the `next` of the result before, not {text!r}") from None

    def __str__(self) -> str:
        return json.dumps(list(asdict(self).values()), ensure_ascii=False, separators=(",", ":"))


def page(stores: Stores, indexes: Indexes, after: str, limit: int, max_bytes: int) -> JsonObject:
    """The next entries after a cursor: files by path, then gone memories, then edges, for each workspace.

    As many as fit, at least one.
    """
    cursor, names = ExportCursor.read(after), [index.workspace.ns for index in indexes]
    if cursor.ns and cursor.ns not in names:
        raise UsageError(f"`after` is of the workspace `{cursor.ns}`, which is not among those asked for")
    parts: dict[str, list[JsonObject]] = {"files": [], "unread": [], "gone": [], "edges": []}
    left, room = limit, PAGE_BYTES
    for index in indexes[names.index(cursor.ns) :] if cursor.ns else indexes:
        if cursor.ns != index.workspace.ns:
            cursor = ExportCursor(index.workspace.ns)
        for following, part, entry in _entries(stores.reader, index, cursor, max_bytes):
            if left <= 0 or room <= 0:
                return {"memd_export": SCHEMA, **parts, "next": str(cursor)}
            left, room, cursor = left - 1, room - len(json.dumps(entry)), following
            last = parts[part][-1] if parts[part] else {}
            # Memories of the same file are joined.
            if part == "files" and (last.get("ns"), last.get("path")) == (entry["ns"], entry["path"]):
                last["memories"] += entry["memories"]
            else:
                parts[part].append(entry)
    return {"memd_export": SCHEMA, **parts, "next": ""}


Entry = tuple[ExportCursor, str, JsonObject]
"""The cursor after it, the part of the result that it belongs to, and itself."""


def _entries(connection: Connection, index: WorkspaceIndex, cursor: ExportCursor, max_bytes: int) -> Iterator[Entry]:
    """Every entry of a workspace after the cursor."""
    ns = index.workspace.ns
    if cursor.gone < 0 and cursor.edge < 0:
        # A document is no text that an import could write.
        known = (path for path, row in index.files.items() if not (row.left_out or is_document(path)))
        for path in sorted(path for path in known if path >= cursor.path):
            if (content := read_or_none(index, path, max_bytes)) is None:
                if (path, "") != (cursor.path, cursor.digest):
                    yield ExportCursor(ns, path, 1, ""), "unread", {"ns": ns, "path": path}
                continue
            for nth, file in _file_entries(connection, index, path, content):
                if (path, file["digest"]) != (cursor.path, cursor.digest) or nth >= cursor.nth:
                    yield ExportCursor(ns, path, nth + 1, file["digest"]), "files", file
    if cursor.edge < 0:
        for row in connection.execute(SQL["gone"], (index.id, cursor.gone)).fetchall():
            yield ExportCursor(ns, gone=row["id"]), "gone", _gone(connection, ns, row)
    for number, edge in _edges(connection, index, cursor.edge):
        yield ExportCursor(ns, gone=cursor.gone, edge=number), "edges", edge


# --- memories -----------------------------------------------------------------------------------------------


def _file_entries(
    connection: Connection, index: WorkspaceIndex, path: str, content: FileContent
) -> Iterator[tuple[int, JsonObject]]:
    """A file with each of its memories, as they are in it now and with what the ledger knows of them."""
    head, memories = split(path, content.text, content.day)
    file: JsonObject = {"ns": index.workspace.ns, "path": path, "digest": content.digest}
    modified = datetime.fromtimestamp(content.stat.mtime_ns / 1e9, UTC).isoformat(timespec="microseconds")
    first = {**file, "modified": modified, "head": head}
    if content.text.encode("utf-8", "replace") != content.data:
        first["base64"] = base64.b64encode(content.data).decode()
    if not memories:
        yield 0, {**first, "from": 0, "memories": []}
    stem = PurePosixPath(path).stem
    shared = lookup.shared_stems(connection, index.id, [stem])
    rows = lookup.in_file(connection, index.id, path)
    for nth, (memory, after) in enumerate(memories):
        digest, row = digest_of_memory(memory), rows.get(memory.slug)
        entry = {
            "key": lookup.key_of(stem, path, memory.slug, shared),
            **{name: getattr(memory, name) for name in ("slug", "heading", "text", "kind", "date")},
            "after": after,
            "digest": digest,
            "declared": declared_facts(asdict(memory.declared)),
            "life": pick(row, *LIFE, "expires", *OBSERVED) if row else None,
            "versions": _versions(connection, row["id"], digest) if row else [],
        }
        yield nth, {**(first if nth == 0 else file), "from": nth, "memories": [entry]}


def _gone(connection: Connection, ns: str, row: Row) -> JsonObject:
    last = history.latest(connection, row["id"])
    return {
        "ns": ns,
        **pick(row, "slug", "heading", "digest", "body", "kind", "role", "date"),
        "path": last.path if last else "",
        "declared": declared_facts(json.loads(row["declared"])),
        "life": pick(row, *LIFE, "expires", "gone", *OBSERVED),
        "versions": _versions(connection, row["id"], ""),
    }


def _versions(connection: Connection, memory: int, own: str) -> list[JsonObject]:
    """A memory's versions; the text is left out where it is the memory's own."""
    entries = []
    for version in history.versions(connection, memory):
        columns = ("number", "at", "who", "digest", "path", "heading")
        entry: JsonObject = {name: getattr(version, name) for name in columns}
        if version.digest is not None and version.digest != own:
            entry["text"] = history.text_of(connection, version.digest)
        entries.append(entry)
    return entries


# --- edges --------------------------------------------------------------------------------------------------


def _edges(connection: Connection, index: WorkspaceIndex, after: int) -> Iterator[tuple[int, JsonObject]]:
    """Edges that are not in the files, and those of any origin that were removed, each with its number."""
    rows = connection.execute(SQL["edges"], (index.id, after)).fetchall()
    names = edges.named(connection, index.id, {end for row in rows for end in (row["one"], row["other"])})
    for row in rows:
        if row["one"] in names and row["other"] in names:
            ends = {"from": names[row["one"]]["key"], "to": names[row["other"]]["key"], "type": row["rel"]}
            observed = {**pick(row, *EDGE), "removed": EDGE_STATES[row["removed"]]}
            yield row["id"], {"ns": index.workspace.ns, **ends, **observed}
