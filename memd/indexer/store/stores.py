"""The open stores: the ledger, the caches of each workspace, and the model."""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from memd.errors import DiskFull, StoreBroken, UnknownWorkspace
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.text import TextIndex
from memd.models import Note, Workspace
from memd.notes.names import date_of
from memd.notes.parse import ParseCache

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.model.pooling import Vectors
    from memd.indexer.store.vectors import Collection, VectorStore

log = logging.getLogger("memd.stores")

CACHES_OF = "caches-of"
"""The file that says which ledger the caches beside it were built from."""

BUILDING = "building"
"""The folder for an index under construction and the one it replaces; a start deletes what it finds there."""


@dataclass(slots=True, eq=False)
class WorkspaceIndex:
    """One workspace and its caches. Only the writer thread changes it."""

    id: int
    workspace: Workspace
    text: TextIndex
    files: dict[str, FileRow]
    collection: Collection | None = None
    mirror: Mirror | None = None
    former: Mirror | None = None
    """The vectors of the previous model, while those of the new one are being made."""
    held: frozenset[str] = frozenset()
    """Files that vanished together; their entries stay until the files come back or the user accepts the loss."""
    missing: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    unlinked: set[int] = field(default_factory=set)
    """Memories whose names or mentions changed since their edges were last updated."""
    parse_cache: ParseCache = field(default_factory=ParseCache)
    applied: dict[str, tuple[str, Note]] = field(default_factory=dict)
    """Recently changed files as they were last indexed: the digest of the file, and the note."""
    _names: tuple[dict[str, FileRow], int, list[tuple[str, str]]] | None = None

    @property
    def place(self) -> dict[str, str]:
        """Its name and its directory, as in results."""
        return {"ns": self.workspace.ns, "root": str(self.workspace.root)}

    def names(self) -> list[tuple[str, str]]:
        """The names of files and their paths, except dates, which say nothing that the notes do not know."""
        files, known = self.files, self._names
        if known is None or known[0] is not files or known[1] != len(files):
            named = [(PurePosixPath(path).stem.casefold(), path) for path in list(files) if not date_of(path)]
            self._names = known = files, len(files), named
        return known[2]


@dataclass(slots=True)
class ActiveModel:
    """The embedder in use, and its number in the ledger."""

    id: int
    embedder: Embedder


class Stores:
    """Everything that is open, in the one process that holds the lock."""

    def __init__(self, folder: Path, mend: bool = True) -> None:
        self.folder = folder
        self.mend = mend
        """Whether a broken cache is put aside and built again, or only reported."""
        self.ledger = Ledger(folder / "state.db")
        if mend:
            own_caches(folder, self.ledger.id)
            shutil.rmtree(folder / BUILDING, ignore_errors=True)
        self.indexes: dict[str, WorkspaceIndex] = {}
        self.vectors: VectorStore | None = None
        self.model: ActiveModel | None = None
        self.former: ActiveModel | None = None
        self.trouble = ""
        """What is wrong with Chroma, until it is opened again; meanwhile the mirror answers."""
        self.question_vectors: dict[tuple[int, str], Vectors] = {}
        """A cache of the last questions' vectors, by model and text."""
        self.embedded = 0
        """Texts that went through the model since the start."""

    # --- indexes ------------------------------------------------------------------------------------------

    def open_index(self, workspace: Workspace) -> WorkspaceIndex:
        with self.ledger.write() as connection:
            number = catalog.workspace_id(connection, workspace)
        text = self._open_text(number)
        files = catalog.files(self.ledger.reader, number)
        index = WorkspaceIndex(number, workspace, text, files)
        self.indexes = {**self.indexes, workspace.ns: index}
        return index

    def _open_text(self, number: int) -> TextIndex:
        try:
            return TextIndex(self.text_folder(number))
        except StoreBroken as error:
            if not self.mend:
                raise
            log.warning("text index of workspace %d is broken, put aside and built again: %s", number, error)
            return self._empty_text(number)

    def renew_text(self, index: WorkspaceIndex) -> None:
        """Put a broken text index aside and start an empty one; the caller fills it from the ledger."""
        index.text.close()
        index.text = self._empty_text(index.id)

    def _empty_text(self, number: int) -> TextIndex:
        quarantine(self.folder, self.text_folder(number))
        with self.ledger.write() as connection:
            catalog.mark(connection, number, text=True)
        return TextIndex(self.text_folder(number))

    def swap_text(self, index: WorkspaceIndex, fresh: Path) -> None:
        """Use an index that another process built; the caller adds what changed meanwhile."""
        old, folder, aside = index.text, self.text_folder(index.id), fresh.with_name(f"{fresh.name}.old")
        with suppress(StoreBroken):
            # Opened before the folders change places, so that questions can go on with it.
            old.postings()
        with self.ledger.write() as connection:
            catalog.mark(connection, index.id, text=True)
        if folder.exists():
            folder.rename(aside)
        fresh.rename(folder)
        index.text = TextIndex(folder)
        old.close()
        shutil.rmtree(aside, ignore_errors=True)

    def text_folder(self, number: int) -> Path:
        return self.folder / "text" / str(number)

    def close_index(self, ns: str) -> None:
        index = self.indexes[ns]
        self.indexes = {name: other for name, other in self.indexes.items() if name != ns}
        index.text.close()

    def forget(self, index: WorkspaceIndex) -> None:
        """Remove every trace of a workspace except its files."""
        self.close_index(index.workspace.ns)
        self.forget_number(index.id)

    def forget_number(self, number: int) -> None:
        with self.ledger.write() as connection:
            catalog.forget_workspace(connection, number)
            vector_table.sweep(connection)
            self.ledger.tick(connection)
        shutil.rmtree(self.text_folder(number), ignore_errors=True)
        if self.vectors is not None:
            self.vectors.drop(number)

    def index(self, ns: str) -> WorkspaceIndex:
        if ns not in self.indexes:
            known = ", ".join(sorted(self.indexes)) or "none yet"
            raise UnknownWorkspace(f"no workspace is called `{ns}` (known: {known})", "memd workspaces")
        return self.indexes[ns]

    # --- vectors ------------------------------------------------------------------------------------------

    def use_model(self, embedder: Embedder, source: str) -> None:
        with self.ledger.write() as connection:
            number = vector_table.model_id(connection, embedder.name, embedder.fingerprint, embedder.dims, source)
        self.model = ActiveModel(number, embedder)
        for index in self.indexes.values():
            self.load_mirror(index)

    def load_mirror(self, index: WorkspaceIndex) -> None:
        if self.model is not None:
            index.mirror = self._mirror(index, self.model)

    def _mirror(self, index: WorkspaceIndex, model: ActiveModel) -> Mirror:
        mirror = Mirror(model.embedder.dims)
        mirror.add(*vector_table.of_workspace(self.ledger.reader, model.id, index.id, model.embedder.dims))
        return mirror

    def use_former(self, number: int, embedder: Embedder) -> None:
        """Answer with the previous model until the new one's vectors are complete."""
        former = ActiveModel(number, embedder)
        for index in self.indexes.values():
            index.former = self._mirror(index, former)
        self.former = former

    def drop_former(self) -> None:
        self.former = None
        for index in self.indexes.values():
            index.former = None

    def use_vectors(self, vectors: VectorStore) -> None:
        self.vectors, self.trouble = vectors, ""
        for index in self.indexes.values():
            self.open_collection(index)

    def open_collection(self, index: WorkspaceIndex) -> None:
        if self.vectors is not None and self.model is not None:
            index.collection = self.vectors.collection(index.id, self.model.id)

    def drop_vectors(self, why: str) -> None:
        """Continue without Chroma: the mirror answers, the ledger keeps the vectors."""
        log.error("the vector store failed and is closed: %s", why)
        failed, self.vectors, self.trouble = self.vectors, None, why
        for index in self.indexes.values():
            index.collection = None
        if failed is not None:
            with suppress(StoreBroken):
                failed.close(sound=False)

    def close(self) -> None:
        for ns in list(self.indexes):
            self.close_index(ns)
        if self.vectors is not None:
            self.vectors.close()
        self.ledger.close()


def own_caches(state: Path, ledger: str) -> None:
    """Delete the caches of another ledger, where the same numbers mean other chunks."""
    stamp = state / CACHES_OF
    try:
        known = stamp.read_text() if stamp.exists() else ""
        if known == ledger:
            return
        for name in ("text", "chroma"):
            if (state / name).exists():
                shutil.rmtree(state / name)
        stamp.write_text(ledger)
    except OSError as error:
        raise DiskFull(f"{state} cannot be written: {error.strerror}", "make room, then: memd start") from error


def quarantine(state: Path, folder: Path) -> Path | None:
    """Put a broken cache aside for inspection; only the last one of a name is kept."""
    if not folder.exists():
        return None
    aside = state / "quarantine"
    aside.mkdir(mode=0o700, exist_ok=True)
    name = "-".join(folder.relative_to(state).parts)
    for older in aside.glob(f"{name}.*"):
        shutil.rmtree(older, ignore_errors=True) if older.is_dir() else older.unlink(missing_ok=True)
    target = aside / f"{name}.{time.strftime('%Y%m%dT%H%M%S')}"
    folder.rename(target)
    os.utime(target)
    return target
