"""Restores a version of a memory: in its place, as a section at the end of its file, or with a new file."""

from __future__ import annotations

import zlib
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.store.stores import Stores
from memd.indexer.views.past import KnownMemory
from memd.indexer.writing.write_files import FileChange
from memd.notes import sections
from memd.notes.blocks import with_line_ends
from memd.notes.entries import daily_head
from memd.notes.names import DATE, date_of
from memd.notes.parse import parse


def restoring_change(stores: Stores, known: KnownMemory, text: str) -> FileChange:
    """The change that makes a text the current one of its memory."""
    removed = _removed_file(stores.ledger.reader, known)

    def edit(data: bytes | None) -> bytes | None:
        if data is None:
            return sections.in_bytes(lambda old: _new_file(known, old or "", text))(removed)
        return sections.in_bytes(lambda current: _restored(known, current or "", text))(data)

    return FileChange(known.path, edit=edit)


def _restored(known: KnownMemory, current: str, text: str) -> str:
    """The file with the text in place of its memory's current one, or added where the memory is gone."""
    if known.gone is not None:
        if known.slug:
            return sections.with_new_section(current, text)
        return sections.with_preamble(known.path, current, text)
    try:
        return sections.with_section(known.path, current, known.slug, text)
    except KeyError:
        raise Conflict(f"{known.path} has no such memory any more", "memd sync, then try again") from None


def _removed_file(connection: Connection, known: KnownMemory) -> bytes:
    """The bytes of the file when it was last removed, by whomever."""
    row = connection.execute(
        "SELECT s.removed FROM splices s JOIN actions a ON a.id = s.action"
        ' WHERE a.workspace = ? AND s.path = ? AND s."after" IS NULL ORDER BY a.id DESC LIMIT 1',
        (known.index.id, known.path),
    ).fetchone()
    return zlib.decompress(row["removed"]) if row else b""


def _new_file(known: KnownMemory, removed: str, text: str) -> str:
    """A file with this memory alone, and with what stood before the sections of the removed one."""
    memories = parse(known.path, removed).memories
    if [memory.slug for memory in memories] == [known.slug]:
        return sections.with_section(known.path, removed, known.slug, text)
    head = sections.before_sections(known.path, removed)
    day = date_of(known.path)
    if not head and known.slug and day and DATE.fullmatch(known.path.rpartition("/")[2].removesuffix(".md")):
        head = f"{daily_head(day)}\n"
    return head + text + with_line_ends("\n", removed)
