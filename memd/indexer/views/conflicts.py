"""The conflicts of a workspace: copies beside notes, notes with markers, and what both versions began with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memd.errors import NotFound
from memd.indexer.indexing.read_files import read_or_none
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.notes import conflicts
from memd.notes.incoming_file import split
from memd.notes.markers import MARKED, sides
from memd.notes.read import decode

GIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """A note of which there are two versions; without a copy, both stand in the note."""

    path: str
    copy: str
    theirs: str
    base: str | None

    def merged(self, text: str) -> conflicts.Merged:
        """The note's text, merged with the other version."""
        if self.copy:
            return conflicts.merge(self.path, text, self.theirs, self.base)
        ours, theirs, base = sides(text)
        return conflicts.merge(self.path, ours, theirs, base if base is not None else self.base)


def found(stores: Stores, index: WorkspaceIndex, max_bytes: int) -> list[tuple[TwoVersions, str]]:
    """Every conflict that the last scan of a workspace met, and the text of its note."""
    listed = [*_copies(index), *((path, "") for path in sorted(index.files))]
    return [known for path, copy in listed if (known := _two_versions(stores, index, path, copy, max_bytes))]


def one(stores: Stores, index: WorkspaceIndex, path: str, max_bytes: int) -> TwoVersions:
    """The conflict of a note, or of the copy that is named."""
    for known, _ in found(stores, index, max_bytes):
        if path in (known.copy, known.path):
            return known
    raise NotFound(f"{path} has no conflict", "memd conflict list")


def _copies(index: WorkspaceIndex) -> Iterator[tuple[str, str]]:
    """Notes and their copies, which the last scan passed over."""
    for path in sorted(index.skipped):
        original = conflicts.original_of(path)
        if original is not None and is_memory_path(index.workspace, original):
            yield original, path


def _two_versions(
    stores: Stores, index: WorkspaceIndex, path: str, copy: str, max_bytes: int
) -> tuple[TwoVersions, str] | None:
    if not copy and index.files[path].problem != MARKED:
        return None
    note = read_or_none(index, path, max_bytes)
    other = read_or_none(index, copy, max_bytes) if copy else note
    if other is None:
        return None
    text = decode(note.data) if note is not None else ""
    theirs = other.text if copy else sides(text)[1]
    base = _git_base(index.workspace.root, path)
    return TwoVersions(path, copy, theirs, _known_base(stores, index, path, theirs) if base is None else base), text


def _git_base(root: Path, path: str) -> str | None:
    """What git says both sides of an unfinished merge began with."""
    # Of what the repository's own settings could have git run, nothing is run.
    command = ["git", "-C", str(root), "-c", "core.fsmonitor=false", "cat-file", "blob", f":1:./{path}"]
    try:
        shown = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shown.stdout.decode("utf-8", "replace") if shown.returncode == 0 else None


def _known_base(stores: Stores, index: WorkspaceIndex, path: str, theirs: str) -> str:
    """What the history knows: the text that a section had before it was last changed here.

    Sections that the other side does not have are left out: they may be new here, and must not seem removed there.
    """
    reader, shared = stores.ledger.reader, {memory.slug for memory, _ in split(path, theirs)[1]}
    rows = reader.execute(
        "SELECT m.id, m.slug FROM memories m JOIN files f ON f.id = m.file WHERE m.workspace = ? AND f.path = ?"
        " ORDER BY m.start_line",
        (index.id, path),
    )
    texts = []
    for row in rows:
        versions = [version.digest for version in history.versions(reader, row["id"]) if version.digest]
        if row["slug"] in shared and versions:
            texts.append(history.text_of(reader, versions[-2] if len(versions) > 1 else versions[-1]) or "")
    return "\n\n".join(texts)
