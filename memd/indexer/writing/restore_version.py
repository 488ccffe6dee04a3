"""Brings a version of a memory back into its file: in place, as a section at its end, or with the file anew."""

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


def restoring_change(stores: Stores, found: KnownMemory, text: str) -> FileChange:
    """The change that makes a text the current one of its memory."""
    page = _last_page(stores.ledger.reader, found)

    def edit(data: bytes | None) -> bytes | None:
        if data is None:
            return _anew(found, page, text)
        if found.gone is None:
            return sections.with_text(found.path, data, found.slug, text)
        if found.slug:
            return sections.with_section(data, text)
        return sections.with_preamble(found.path, data, text)

    return FileChange(found.path, edit=edit)


def _last_page(connection: Connection, found: KnownMemory) -> bytes:
    """The file as it was when it was removed, by whoever did it."""
    row = connection.execute(
        "SELECT s.removed FROM splices s JOIN actions a ON a.id = s.action"
        ' WHERE a.workspace = ? AND s.path = ? AND s."after" IS NULL ORDER BY a.id DESC LIMIT 1',
        (found.index.id, found.path),
    ).fetchone()
    return zlib.decompress(row["removed"]) if row else b""


def _anew(found: KnownMemory, page: bytes, text: str) -> bytes:
    """The file with this one memory; what stood around it comes back too, the other memories do not."""
    if page and len(sections.note_of(found.path, page).memories) == 1:
        try:
            return sections.with_text(found.path, page, found.slug, text)
        except Conflict:
            # It had another heading then.
            pass
    head = sections.before_sections(found.path, page) if page else b""
    day = date_of(found.path)
    if not head and found.slug and day and DATE.fullmatch(found.path.rpartition("/")[2].removesuffix(".md")):
        head = f"{daily_head(day)}\n".encode()
    return head + sections.encoded(text) + sections.ending(page or b"\n")
