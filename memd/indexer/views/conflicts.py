"""The conflicts of a workspace: copies beside notes, notes with markers, and what both versions began with."""

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memd.errors import NotFound
from memd.indexer.indexing.read_files import read_or_none
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.query import lookup
from memd.indexer.record import actions, history
from memd.indexer.store.catalog import numbers_of
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.notes import merging
from memd.notes.merging import Base, split
from memd.notes.read import MARKED, decode, sides, without_markers

GIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """A note of which there are two versions; without a copy, both stand in the note."""

    path: str
    copy: str
    theirs: str
    base: Base

    def merged(self, text: str) -> merging.Merged:
        """The note's text, merged with the other version."""
        if self.copy:
            return merging.merge(self.path, text, self.theirs, self.base)
        ours, theirs, base = sides(text)
        return merging.merge(self.path, ours, theirs, self.base if base is None else Base(base))


def found(stores: Stores, index: WorkspaceIndex, max_bytes: int) -> list[tuple[TwoVersions, str]]:
    """Every conflict that the last scan of a workspace met, and the text of its note."""
    return [known for path, copy in _listed(index) if (known := _two_versions(stores, index, path, copy, max_bytes))]


def one(stores: Stores, index: WorkspaceIndex, path: str, max_bytes: int) -> TwoVersions:
    """The conflict of a note, or of the copy that is named."""
    for original, copy in _listed(index):
        if path in (copy, original) and (known := _two_versions(stores, index, original, copy, max_bytes)):
            return known[0]
    raise NotFound(f"{path} has no conflict", "memd conflict list")


def count(left_out: Iterable[tuple[str, str]]) -> int:
    """How many notes have two versions, of the files that are left out in part or whole, with the reason."""
    return sum(why == MARKED or merging.original_of(path) is not None for path, why in left_out)


def _listed(index: WorkspaceIndex) -> Iterator[tuple[str, str]]:
    """Notes and their copies, which the last scan passed over; then notes with markers of a merge, which have none."""
    for path in sorted(index.skipped):
        original = merging.original_of(path)
        if original is not None and is_memory_path(index.workspace, original):
            yield original, path
    yield from ((path, "") for path, row in sorted(index.files.items()) if row.problem == MARKED)


def _two_versions(
    stores: Stores, index: WorkspaceIndex, path: str, copy: str, max_bytes: int
) -> tuple[TwoVersions, str] | None:
    note = read_or_none(index, path, max_bytes)
    other = read_or_none(index, copy, max_bytes) if copy else note
    if other is None:
        return None
    # What is settled is written: bytes that are not UTF-8 must come through.
    text = decode(note.data, "surrogateescape") if note is not None else ""
    ours, theirs = (text, without_markers(decode(other.data, "surrogateescape"))) if copy else sides(text)[:2]
    known = None if copy else _git_base(index.workspace.root, path)
    base = Base(_likely_base(stores, index, path, copy, ours, theirs), certain=False) if known is None else Base(known)
    return TwoVersions(path, copy, theirs, base), text


def _git_base(root: Path, path: str) -> str | None:
    """The base of an unfinished merge, by git."""
    # Of what the repository's own settings could have git run, nothing is run.
    command = ["git", "-C", str(root), "-c", "core.fsmonitor=false", "cat-file", "blob", f":1:./{path}"]
    try:
        shown = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return decode(shown.stdout, "surrogateescape") if shown.returncode == 0 else None


def _likely_base(stores: Stores, index: WorkspaceIndex, path: str, copy: str, ours: str, theirs: str) -> str:
    """The history of the sections that both sides have.

    Others are left out: they may be new on one side, and must not seem removed on the other.
    """
    reader = stores.reader
    mine, others = ({memory.slug: memory.text for memory, _ in split(path, text)[1]} for text in (ours, theirs))
    texts = []
    # What a conflict was settled as is no common past, if that was undone.
    settled = numbers_of(reader, "SELECT id FROM actions WHERE workspace = ? AND what = ?", index.id, actions.SETTLE)
    for slug, row in lookup.in_file(reader, index.id, path).items():
        if mine.get(slug, "") == others.get(slug):
            texts.append(mine[slug])
        elif slug in mine and slug in others:
            versions = [one for one in history.versions(reader, row["id"]) if one.digest and one.action not in settled]
            known = [history.text_of(reader, version.digest) or "" for version in versions]
            texts.append(merging.likely_base(known, mine[slug], others[slug], older=copy.endswith(".orig")))
    return "\n\n".join(texts)
