"""Reads the files of a batch: which changed, what their notes are, which cannot be read.

A copy of every file is kept as it was last read, so that one which an editor removes or empties can be restored.
"""

import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os.path import isfile
from pathlib import Path
from sqlite3 import Connection

from memd.indexer.indexing.scan import NamesOnDisk, ScanResult, is_memory_path, minute_of, refusal
from memd.indexer.record import actions
from memd.indexer.record.actions import digest_or_none, splice_of
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import FileStat, Note, digest_of, is_document
from memd.notes import documents, read
from memd.notes.blocks import Pieces
from memd.notes.documents import read_in_pieces, read_note
from memd.notes.read import FileContent, SkippedFile, UnreadableFile

MOST_CHUNKS = 128
"""Files are read until they have so many chunks: saving those takes about an eighth of a second."""

RACY_NS = 2_000_000_000
"""A file read this soon after its last change is read again: a second change may have the same timestamp."""


LOSSES = ("file-removed", "file-emptied")
"""The actions of an editor that concern a whole file."""
RENAMED = "file-renamed"

FAST = 1
"""Compression level: files are read more often than they are lost."""


@dataclass(slots=True)
class FileBatch:
    """Some paths as they are on disk."""

    notes: dict[str, tuple[FileRow, Note]] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    """The bytes of each of `notes`."""
    rows: list[FileRow] = field(default_factory=list)
    """Files whose row changes without their text: touched, skipped or unreadable."""
    emptied: list[str] = field(default_factory=list)
    """Files that are skipped from now on; their memories go."""
    removed: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)
    """Files that are being written right now."""
    chunks: int = 0
    """How many chunks the notes have."""
    known: dict[str, FileRow | None] = field(default_factory=dict)
    """The row that the index knew of each path when it was read."""
    overwritten: str = ""
    """The file of `notes` that is as memd left it: somebody wrote over it before it was read."""

    def add_old_names(self, index: OwnIndex) -> None:
        """Remove the old names of new files along with them: who lists files while one is renamed may see it twice.

        The number of a file that is gone is soon another's, whose time differs.
        """
        new = {(row.inode, row.mtime_ns) for path, (row, _) in self.notes.items() if self.known[path] is None}
        root = index.workspace.root
        for old, row in index.files.items() if new else ():
            if (row.inode, row.mtime_ns) in new and old not in self.known and not os.path.lexists(root / old):
                self.known[old] = row
                self.removed.append(old)

    def drop_outdated(self, index: OwnIndex) -> list[str]:
        """Leave out what somebody else has indexed since it was read, and what is gone by now; returns those paths.

        That a new file went again nobody else may have noted: there was nothing to remove.
        """
        outdated = {path for path, row in self.known.items() if index.files.get(path) != row}
        there = (path for path in self.notes if path != self.overwritten)
        outdated |= {path for path in there if not os.path.lexists(index.workspace.root / path)}
        self.notes = {path: note for path, note in self.notes.items() if path not in outdated}
        self.rows = [row for row in self.rows if row.path not in outdated]
        self.emptied = [path for path in self.emptied if path not in outdated]
        self.removed = [path for path in self.removed if path not in outdated]
        return sorted(outdated)


def changed_paths(index: WorkspaceIndex, found: ScanResult) -> set[str]:
    """The paths whose stat differs from what the ledger knows, and those that are gone."""
    known = index.known_files()
    paths = {path for path, seen in found.files.items() if not _unchanged(known.get(path), seen)}
    return paths | (known.keys() - found.files.keys())


def _unchanged(row: FileRow | None, seen: FileStat) -> bool:
    return row is not None and not row.racy and FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode) == seen


def read_or_none(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent | None:
    """A file of a workspace; None if it cannot be read now."""
    with suppress(OSError, SkippedFile, UnreadableFile):
        return read_note(index.workspace.root / path, max_bytes)
    return None


Restless = Callable[[str, int], bool] | None
"""Says of a path and its mtime whether it is still being written and waits; None: nothing waits."""


def read_files(
    index: OwnIndex, paths: deque[str], max_bytes: int, deep: bool, restless: Restless, written: Container[str] = ()
) -> Pieces[FileBatch]:
    """Take paths and read them, up to about `MOST_CHUNKS` chunks.

    With `deep` also files with an unchanged text are parsed; `restless` ones are left for later. Of the `written`, what
    memd wrote and others wrote over comes first: it becomes a version all the same.
    """
    batch, names = FileBatch(), NamesOnDisk(index.workspace)
    while paths and batch.chunks < MOST_CHUNKS and not batch.overwritten:
        path = paths.popleft()
        known = batch.known[path] = index.files.get(path)
        file = index.workspace.root / path
        if restless is not None and is_document(path) and isfile(file) and documents.text_of(file, max_bytes) is None:
            # Too long for who waits for changes: it becomes an import.
            batch.restless.append(path)
            continue
        try:
            content = (yield from read_in_pieces(file, max_bytes)) if _admitted(index, path, names) else None
        except (FileNotFoundError, NotADirectoryError):
            content = None
        except UnreadableFile as error:
            # What is known of it stays, and it is tried again.
            batch.rows.append(replace(known or _unseen(path), racy=True, problem=f"unreadable: {error}"))
            continue
        except SkippedFile as error:
            batch.rows.append(_skipped(file, path, str(error)))
            batch.emptied.append(path)
            continue
        if path in written and (lost := _overwritten(index, path, content)) is not None:
            batch.overwritten, content = path, lost
            paths.appendleft(path)
        if content is None:
            batch.removed += [path] if known is not None else []
            if is_document(path):
                documents.forget(file)
        elif restless is not None and restless(path, content.stat.mtime_ns) and not batch.overwritten:
            batch.restless.append(path)
        else:
            yield from _add(index, batch, path, content, deep)
        yield
    return batch


def _overwritten(index: OwnIndex, path: str, now: FileContent | None) -> FileContent | None:
    """A file as memd left it, where it is something else by now and was not read in between."""
    known = index.files.get(path)
    splices = actions.done_since(index.reader, index.id, path, known.digest if known else None)
    if not splices or splices[-1].after == (now.digest if now else None):
        return None
    data = (copy_of(index.reader, known.id) if known else None) or b""
    for splice in splices:
        data = actions.redo_splice(splice, data)
    digest = digest_of(data)
    seen = now.stat if now else FileStat(0, time.time_ns(), 0, 0)
    return FileContent(data, seen, digest) if digest == splices[-1].after else None


def _admitted(index: OwnIndex, path: str, names: NamesOnDisk) -> bool:
    """Whether a scan would list this path: an event or an older entry may name one that it skips."""
    if not is_memory_path(index.workspace, path) or names.spelled(path) != path:
        return False
    if why := refusal(index.workspace, path):
        index.skipped = {**index.skipped, path: why}
    return not why


def _add(index: OwnIndex, batch: FileBatch, path: str, content: FileContent, deep: bool) -> Pieces[None]:
    known, seen = index.files.get(path), content.stat
    racy = time.time_ns() - max(seen.mtime_ns, seen.ctime_ns) < RACY_NS
    row = FileRow(0, path, *seen, content.digest, racy, "")
    if known is not None and known.digest == content.digest and not (known.problem or deep):
        batch.rows.append(replace(row, id=known.id))
        return
    day = "" if minute_of(seen.mtime_ns) in index.copied else content.day
    raw = read.decode(content.data)
    row = replace(row, problem=read.MARKED if read.has_markers(raw) else read.undecoded(content.data, raw))
    note = yield from index.parse_cache.parse_in_pieces(path, read.without_markers(raw), day)
    batch.notes[path] = (row, note)
    batch.data[path] = content.data
    batch.chunks += sum(len(memory.chunks) for memory in note.memories)


def _skipped(file: Path, path: str, why: str) -> FileRow:
    with suppress(OSError):
        return FileRow(0, path, *FileStat.of(file.stat()), "", False, why)
    return replace(_unseen(path), problem=why)


def _unseen(path: str) -> FileRow:
    return FileRow(0, path, -1, 0, 0, 0, "", True, "")


# --- copies -------------------------------------------------------------------------------------------------


def keep_copy(connection: Connection, file: int, data: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?)", (file, zlib.compress(data, FAST)))


def copy_of(connection: Connection, file: int) -> bytes | None:
    row = connection.execute("SELECT body FROM pages WHERE file = ?", (file,)).fetchone()
    return zlib.decompress(row["body"]) if row else None


def note_losses(connection: Connection, index: OwnIndex, batch: FileBatch, now: str) -> None:
    """Record files that an editor removed or emptied, as actions that can be undone, and those that were renamed.

    What memd itself removed has an action already; what is only left out from now on is still there.
    """
    new_names = {row.digest: path for path, (row, _) in batch.notes.items() if path not in index.files}
    present = {row.digest for row, _ in batch.notes.values()}
    for path in batch.removed:
        digest = index.files[path].digest
        if digest in new_names:
            paths = [path, new_names[digest]]
            actions.add(connection, index.id, "editor", RENAMED, at=now, paths=paths, conflicts=[])
        elif digest not in present and not os.path.lexists(index.workspace.root / path):
            _note_loss(connection, index, path, None, now)
    for path, (row, note) in batch.notes.items():
        known = index.files.get(path)
        if not note.memories and known is not None and known.digest != row.digest:
            _note_loss(connection, index, path, batch.data[path], now)


def _note_loss(connection: Connection, index: OwnIndex, path: str, after: bytes | None, now: str) -> None:
    file = index.files[path].id
    before = copy_of(connection, file)
    query = "SELECT MAX(v.at) FROM versions v JOIN memories m ON m.id = v.memory WHERE m.file = ?"
    (last,) = connection.execute(query, (file,)).fetchone()
    if before is None or last is None:
        return
    who, _ = actions.author(connection, index.id, path, digest_or_none(after), "", since=last)
    if who == "editor":
        what = LOSSES[after is not None]
        action = actions.add(connection, index.id, who, what, at=now, paths=[path], conflicts=[])
        actions.keep_splice(connection, action, 0, splice_of(path, before, after))
