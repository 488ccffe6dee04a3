"""Every file as it was last read: one that an editor removes or empties is noted with its bytes, and can come back."""

from __future__ import annotations

import json
import zlib
from sqlite3 import Connection

from memd.indexer.indexing.read_files import FileBatch
from memd.indexer.record import actions
from memd.indexer.store.stores import WorkspaceIndex
from memd.notes.read import digest_of

LOSSES = ("file-removed", "file-emptied")
"""What an editor can do to a whole file."""

FAST = 1
"""The compression level: files are read more often than they are lost."""


def keep(connection: Connection, file: int, data: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?)", (file, zlib.compress(data, FAST)))


def of(connection: Connection, file: int) -> bytes | None:
    row = connection.execute("SELECT body FROM pages WHERE file = ?", (file,)).fetchone()
    return zlib.decompress(row["body"]) if row else None


def note_losses(connection: Connection, index: WorkspaceIndex, batch: FileBatch, now: str) -> None:
    """Write down which files went or were emptied by an editor's hand, as actions that can be undone.

    What memd itself removed has its action; a file that goes on under another name is not lost.
    """
    moved = {row.digest for row, _ in batch.notes.values()}
    for path in batch.removed:
        if index.files[path].digest not in moved:
            _note(connection, index, path, None, now)
    for path, (row, note) in batch.notes.items():
        known = index.files.get(path)
        if not note.memories and known is not None and known.digest != row.digest:
            _note(connection, index, path, batch.data[path], now)


def _note(connection: Connection, index: WorkspaceIndex, path: str, after: bytes | None, now: str) -> None:
    file = index.files[path].id
    before = of(connection, file)
    last = connection.execute(
        "SELECT MAX(v.at) AS at FROM versions v JOIN memories m ON m.id = v.memory WHERE m.file = ?", (file,)
    ).fetchone()["at"]
    if before is None or last is None:
        return
    digest = None if after is None else digest_of(after)
    if actions.author(connection, index.id, path, digest, "", since=last)[0] != "editor":
        return
    made = connection.execute(
        "INSERT INTO actions (at, workspace, who, what, state, detail) VALUES (?, ?, 'editor', ?, 'done', ?)",
        (now, index.id, LOSSES[after is not None], json.dumps({"paths": [path], "conflicts": []}, ensure_ascii=False)),
    )
    actions.keep_splice(connection, int(made.lastrowid or 0), 0, actions.splice_of(path, before, after))
