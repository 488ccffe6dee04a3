"""A copy of every file as it was last read, so that one which an editor removes or empties can be restored."""

from __future__ import annotations

import zlib
from sqlite3 import Connection

from memd.indexer.indexing.read_files import FileBatch
from memd.indexer.record import actions
from memd.indexer.record.actions import digest_or_none, splice_of
from memd.indexer.store.stores import WorkspaceIndex

LOSSES = ("file-removed", "file-emptied")
"""The actions of an editor that concern a whole file."""
RENAMED = "file-renamed"

FAST = 1
"""Compression level: files are read more often than they are lost."""


def keep(connection: Connection, file: int, data: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?)", (file, zlib.compress(data, FAST)))


def of(connection: Connection, file: int) -> bytes | None:
    row = connection.execute("SELECT body FROM pages WHERE file = ?", (file,)).fetchone()
    return zlib.decompress(row["body"]) if row else None


def note_losses(connection: Connection, index: WorkspaceIndex, batch: FileBatch, now: str) -> None:
    """Record files that an editor removed or emptied, as actions that can be undone, and those that were renamed.

    What memd itself removed has an action already.
    """
    new_names = {row.digest: path for path, (row, _) in batch.notes.items() if path not in index.files}
    present = {row.digest for row, _ in batch.notes.values()}
    for path in batch.removed:
        digest = index.files[path].digest
        if digest in new_names:
            paths = [path, new_names[digest]]
            actions.add(connection, index.id, "editor", RENAMED, at=now, paths=paths, conflicts=[])
        elif digest not in present:
            _note_loss(connection, index, path, None, now)
    for path, (row, note) in batch.notes.items():
        known = index.files.get(path)
        if not note.memories and known is not None and known.digest != row.digest:
            _note_loss(connection, index, path, batch.data[path], now)


def _note_loss(connection: Connection, index: WorkspaceIndex, path: str, after: bytes | None, now: str) -> None:
    file = index.files[path].id
    before = of(connection, file)
    last = connection.execute(
        "SELECT MAX(v.at) AS at FROM versions v JOIN memories m ON m.id = v.memory WHERE m.file = ?", (file,)
    ).fetchone()["at"]
    if before is None or last is None:
        return
    who, _ = actions.author(connection, index.id, path, digest_or_none(after), "", since=last)
    if who == "editor":
        what = LOSSES[after is not None]
        action = actions.add(connection, index.id, who, what, at=now, paths=[path], conflicts=[])
        actions.keep_splice(connection, action, 0, splice_of(path, before, after))
