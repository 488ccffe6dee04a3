"""Reads the files of a batch: which changed, what their notes are, which cannot be read."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from memd.indexer.indexing.scan import ScanResult, is_memory_path, minute_of, refusal
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import FileStat, Note
from memd.notes.blocks import Pieces
from memd.notes.read import MARKED, FileContent, SkippedFile, UnreadableFile, decode, has_markers, read, without_markers

MOST_CHUNKS = 128
"""Files are read until they have so many chunks: saving those takes about an eighth of a second."""

RACY_NS = 2_000_000_000
"""A file read this soon after its last change is read again: a second change may have the same timestamp."""


@dataclass(slots=True)
class FileBatch:
    """What some paths are on disk."""

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
    """What the index knew of each path when it was read."""

    def drop_outdated(self, index: WorkspaceIndex) -> list[str]:
        """Leave out what somebody else has indexed since it was read, and what is gone by now; returns those paths.

        That a new file went again nobody else may have noted: there was nothing to remove.
        """
        outdated = {path for path, row in self.known.items() if index.files.get(path) != row}
        outdated |= {path for path in self.notes if not os.path.lexists(index.workspace.root / path)}
        if outdated:
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
    try:
        return read(index.workspace.root / path, max_bytes)
    except (OSError, SkippedFile, UnreadableFile):
        return None


def read_files(
    index: WorkspaceIndex, paths: deque[str], max_bytes: int, deep: bool,
    restless: Callable[[str, int], bool] | None = None,
) -> Pieces[FileBatch]:  # fmt: skip
    """Take paths and read them, up to about `MOST_CHUNKS` chunks.

    With `deep` also files with an unchanged text are parsed; `restless` ones are left for later.
    """
    batch = FileBatch()
    while paths and batch.chunks < MOST_CHUNKS:
        path = paths.popleft()
        known = batch.known[path] = index.files.get(path)
        try:
            content = read(index.workspace.root / path, max_bytes) if _admitted(index, path) else None
        except (FileNotFoundError, NotADirectoryError):
            content = None
        except UnreadableFile as error:
            # What is known of it stays, and it is tried again.
            unknown = FileRow(0, path, -1, 0, 0, 0, "", True, "")
            batch.rows.append(replace(known or unknown, racy=True, problem=f"unreadable: {error}"))
            continue
        except SkippedFile as error:
            batch.rows.append(_skipped(index, path, str(error)))
            batch.emptied.append(path)
            continue
        if content is None:
            batch.removed += [path] if known is not None else []
        elif restless is not None and restless(path, content.mtime_ns):
            batch.restless.append(path)
        else:
            yield from _add(index, batch, path, content, deep)
        yield
    return batch


def _admitted(index: WorkspaceIndex, path: str) -> bool:
    """Whether a scan would list this path: an event or an older entry may name one that it skips."""
    if not is_memory_path(index.workspace, path):
        return False
    why = refusal(index.workspace, path)
    if why:
        index.skipped = {**index.skipped, path: why}
    return not why


def _add(index: WorkspaceIndex, batch: FileBatch, path: str, content: FileContent, deep: bool) -> Pieces[None]:
    known, racy = index.files.get(path), time.time_ns() - max(content.mtime_ns, content.ctime_ns) < RACY_NS
    row = FileRow(0, path, content.size, content.mtime_ns, content.ctime_ns, content.inode, content.digest, racy, "")
    if known is not None and known.digest == content.digest and not (known.problem or deep):
        batch.rows.append(replace(row, id=known.id))
        return
    day = "" if minute_of(content.mtime_ns) in index.copied else content.day
    raw = decode(content.data)
    if has_markers(raw):
        row = replace(row, problem=MARKED)
    note = yield from index.parse_cache.parse_in_pieces(path, without_markers(raw), day)
    batch.notes[path] = (row, note)
    batch.data[path] = content.data
    batch.chunks += sum(len(memory.chunks) for memory in note.memories)


def _skipped(index: WorkspaceIndex, path: str, why: str) -> FileRow:
    try:
        seen = FileStat.of((index.workspace.root / path).stat())
    except OSError:
        return FileRow(0, path, -1, 0, 0, 0, "", True, why)
    return FileRow(0, path, seen.size, seen.mtime_ns, seen.ctime_ns, seen.inode, "", False, why)
