"""Looks at files on the disk: which changed, what their text is, which cannot be memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memd.indexer.indexing.scan import FileStat, ScanResult, is_memory_path, refusal
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import Note
from memd.notes.read import FileContent, SkippedFile, UnreadableFile, read

RACY_NS = 2_000_000_000
"""A file read this soon after its last change is read again: a second change may share the timestamp."""


@dataclass(slots=True)
class FileBatch:
    """What the disk says about a set of paths."""

    notes: dict[str, tuple[FileRow, Note]] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    """The bytes of each of `notes`."""
    rows: list[FileRow] = field(default_factory=list)
    """Files whose entry changes without their text: touched, skipped or unreadable."""
    emptied: list[str] = field(default_factory=list)
    """Files that are left out from now on; their memories go."""
    removed: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)
    """Files that are being written just now."""


def changed_paths(index: WorkspaceIndex, found: ScanResult) -> set[str]:
    """The paths whose stat differs from what the ledger knows, and those that are gone."""
    paths = {path for path, seen in found.files.items() if not _unchanged(index.files.get(path), seen)}
    return paths | (index.files.keys() - found.files.keys())


def _unchanged(row: FileRow | None, seen: FileStat) -> bool:
    return row is not None and not row.racy and FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode) == seen


def read_files(
    index: WorkspaceIndex,
    paths: Sequence[str],
    max_bytes: int,
    deep: bool,
    restless: Callable[[str, int], bool] | None = None,
) -> FileBatch:
    batch = FileBatch()
    for path in paths:
        known = index.files.get(path)
        if not _admitted(index, path):
            if known is not None:
                batch.removed.append(path)
            continue
        try:
            reading = read(index.workspace.root / path, max_bytes)
        except (FileNotFoundError, NotADirectoryError):
            if known is not None:
                batch.removed.append(path)
        except UnreadableFile as error:
            batch.rows.append(_kept(path, known, f"unreadable: {error}"))
        except SkippedFile as error:
            batch.rows.append(_left_out(index, path, str(error)))
            batch.emptied.append(path)
        else:
            if restless is not None and restless(path, reading.mtime_ns):
                batch.restless.append(path)
            else:
                _sort(index, batch, path, reading, deep)
    return batch


def _admitted(index: WorkspaceIndex, path: str) -> bool:
    """Whether a scan would list this path: an event, or an entry from before, may name one that it leaves out."""
    if not is_memory_path(index.workspace, path):
        return False
    why = refusal(index.workspace, path)
    if why:
        index.skipped = {**index.skipped, path: why}
    return not why


def _sort(index: WorkspaceIndex, batch: FileBatch, path: str, reading: FileContent, deep: bool) -> None:
    row, known = _row(path, reading), index.files.get(path)
    if known is not None and known.digest == reading.digest and not (known.problem or deep):
        batch.rows.append(replace(row, id=known.id))
        return
    batch.notes[path] = (row, index.parse_cache.parse(path, reading.text, reading.day))
    batch.data[path] = reading.data


def _row(path: str, reading: FileContent) -> FileRow:
    racy = time.time_ns() - max(reading.mtime_ns, reading.ctime_ns) < RACY_NS
    return FileRow(0, path, reading.size, reading.mtime_ns, reading.ctime_ns, reading.inode, reading.digest, racy, "")


def _kept(path: str, known: FileRow | None, problem: str) -> FileRow:
    """A file that cannot be read now: what is known of it stays, and it is tried again."""
    base = known or FileRow(0, path, -1, 0, 0, 0, "", True, problem)
    return replace(base, racy=True, problem=problem)


def _left_out(index: WorkspaceIndex, path: str, why: str) -> FileRow:
    try:
        status = (index.workspace.root / path).stat()
    except OSError:
        return FileRow(0, path, -1, 0, 0, 0, "", True, why)
    return FileRow(0, path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, "", False, why)
