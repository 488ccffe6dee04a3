"""Restores a version of a memory: in its place, as a section at the end of its file, or with a new file."""

from __future__ import annotations

import zlib
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.store.stores import Stores
from memd.indexer.views.past import KnownMemory
from memd.indexer.writing.write_files import FileChange
from memd.notes import sections
from memd.notes.compose import daily_head
from memd.notes.names import DATE, date_of


def restoring_change(stores: Stores, known: KnownMemory, text: str) -> FileChange:
    """The change that makes a text the current one of its memory."""
    removed = _removed_file(stores.ledger.reader, known)

    def edit(data: bytes | None) -> bytes:
        if data is None:
            return _new_file(known, removed, text)
        if known.gone is None:
            return sections.with_text(known.path, data, known.slug, text)
        if known.slug:
            return sections.with_section(data, text)
        return sections.with_preamble(known.path, data, text)

    return FileChange(known.path, edit=edit)


def _removed_file(connection: Connection, known: KnownMemory) -> bytes:
    """The bytes of the file when it was last removed, by whomever."""
    row = connection.execute(
        "SELECT s.removed FROM splices s JOIN actions a ON a.id = s.action"
        ' WHERE a.workspace = ? AND s.path = ? AND s."after" IS NULL ORDER BY a.id DESC LIMIT 1',
        (known.index.id, known.path),
    ).fetchone()
    return zlib.decompress(row["removed"]) if row else b""


def _new_file(known: KnownMemory, removed: bytes, text: str) -> bytes:
    """A file with this memory alone, and with what stood before the sections of the removed one."""
    if removed and len(sections.note_of(known.path, removed).memories) == 1:
        try:
            return sections.with_text(known.path, removed, known.slug, text)
        except Conflict:
            # The memory had another heading then.
            pass
    head = sections.before_sections(known.path, removed) if removed else b""
    day = date_of(known.path)
    if not head and known.slug and day and DATE.fullmatch(known.path.rpartition("/")[2].removesuffix(".md")):
        head = f"{daily_head(day)}\n".encode()
    return head + sections.encoded(text) + sections.ending(removed or b"\n")
