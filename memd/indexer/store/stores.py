"""The open stores: the ledger, the caches of each workspace, and the model."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from memd.errors import DiskFull, MemdError, StoreBroken, UnknownWorkspace, did_you_mean
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.ledger import CACHES_OF, Ledger
from memd.indexer.store.loaded import Loaded
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.text import FORMAT_FILE, TextIndex
from memd.indexer.store.vectors import Collection, CollectionSource, VectorStore, collection_name
from memd.models import Note, Workspace
from memd.notes.names import date_of
from memd.notes.parse import ParseCache

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.model.pooling import Vectors

log = logging.getLogger("memd.stores")

BUILDING = "building"
"""The folder for an index under construction and the one it replaces; a start deletes what it finds there."""


@dataclass(slots=True, eq=False)
class WorkspaceIndex:
    """One workspace and its caches, loaded when they are first used. Only the writer thread changes or closes them."""

    id: int
    workspace: Workspace
    _text: Loaded[TextIndex]
    _files: Loaded[Mapping[str, FileRow]]
    _mirror: Loaded[Mirror | None]
    _former: Loaded[Mirror | None]
    _foreign: Loaded[Mirror | None]
    collection: Collection | None = None
    polyglot: bool = False
    """Whether it was asked in another language than English: then all its chunks get vectors for that."""
    compares_languages: bool = False
    """Whether these were seen to be there since the start; what is new may lack them for a moment."""
    held: frozenset[str] = frozenset()
    """Files that vanished together; their entries stay until the files come back or the user accepts the loss."""
    missing: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    copied: frozenset[int] = frozenset()
    """The minutes in which files were copied, as the last scan saw it."""
    unlinked: set[int] = field(default_factory=set)
    """Memories whose names or mentions changed since their edges were last updated."""
    unrestored: dict[int, str] = field(default_factory=dict)
    """Actions that failed and whose files may have to be restored yet, with the reason; only a full disk leaves any."""
    parse_cache: ParseCache = field(default_factory=ParseCache)
    applied: dict[str, tuple[str, Note]] = field(default_factory=dict)
    """Recently changed files as they were last indexed: the digest of the file, and the note."""
    used: float = 0.0
    """When somebody last used one of its caches."""
    _names: tuple[Mapping[str, FileRow], list[tuple[str, int]]] | None = None

    @property
    def place(self) -> dict[str, str]:
        """Its name and its directory, as in results."""
        return {"ns": self.workspace.ns, "root": str(self.workspace.root)}

    def names(self) -> list[tuple[str, int]]:
        """The names of files and their numbers."""
        files, known = self.files, self._names
        if known is None or known[0] is not files:
            named = named_files((path, row.id) for path, row in files.items())
            self._names = known = files, named
        return known[1]

    # --- its caches ---------------------------------------------------------------------------------------

    @property
    def text(self) -> TextIndex:
        """The text index; StoreBroken when it is damaged, or is not what the ledger says."""
        self.used = time.monotonic()
        return self._text.get()

    @property
    def open_text(self) -> TextIndex | None:
        """The text index if it is open."""
        return self._text.present

    @property
    def files(self) -> Mapping[str, FileRow]:
        """The ledger's rows of its files, by path. It never changes: the writer puts another one in its place."""
        self.used = time.monotonic()
        return self._files.get()

    @files.setter
    def files(self, rows: Mapping[str, FileRow]) -> None:
        self._files.replace(lambda _: MappingProxyType(rows))

    def known_files(self) -> Mapping[str, FileRow]:
        """The same for one look at many workspaces: rows that are not loaded are read and not kept."""
        files = self._files.present
        return self._files.read() if files is None else files

    @property
    def mirror(self) -> Mirror | None:
        """The vectors of the model in use; None while there is none."""
        self.used = time.monotonic()
        return self._mirror.get()

    @property
    def open_mirror(self) -> Mirror | None:
        """The same if they are loaded."""
        return self._mirror.present

    @property
    def former(self) -> Mirror | None:
        """The vectors of the previous model, while those of the new one are being made."""
        return self._former.get()

    @property
    def foreign(self) -> Mirror | None:
        """The vectors of the model for other languages; None while it is not needed."""
        return self._foreign.get()

    def nearest_texts(self, vector: Vectors, depth: int) -> list[tuple[str, float]] | None:
        """What Chroma finds nearest, by the digests of texts; None when it cannot say, or is not in step."""
        return self.collection.search(vector, depth) if self.collection is not None else None

    def follow_vectors(self, ids: list[int], vectors: Vectors, model: int) -> None:
        """Add vectors of a model, which the ledger has, to those that are loaded."""

        def follow(mirror: Mirror | None) -> None:
            if mirror is not None and mirror.model == model:
                mirror.add(ids, vectors)

        for mirrors in (self._mirror, self._former, self._foreign):
            mirrors.change(follow)

    def vectors_of(self, model: int) -> Mirror | None:
        """The vectors of a model that answers questions, wherever a change of models has put them."""
        former = self.former
        found = former if former is not None and former.model == model else self.mirror
        return found if found is not None and found.model == model else None

    def keep_former(self) -> None:
        """The vectors that are loaded are those of the previous model from now on."""
        kept = self._mirror.present
        self._former.replace(lambda loaded: kept if loaded is None else loaded)

    def take_former_back(self) -> None:
        """The vectors of the previous model are those of the model in use again."""
        kept, other = self._former.present, self._mirror.present
        self._mirror.replace(lambda _: kept)
        _let_go(other)
        self._former.drop()

    def drop_vectors(self, dropped: Sequence[int]) -> None:
        """Drop the vectors of chunks that the ledger no longer has from those that are loaded."""
        for mirrors in (self._mirror, self._former, self._foreign):
            mirrors.change(lambda mirror: mirror.drop(dropped) if mirror is not None else None)

    def drop_mirrors(self) -> None:
        """Let the vectors go; the next question loads them from the ledger."""
        self.drop_mirror()
        self.drop_foreign()
        self.drop_former()

    def drop_mirror(self) -> None:
        """Let the vectors of the model in use go, unless they were kept as those of the previous one."""
        dropped = self._mirror.drop()
        if dropped is not self._former.present:
            _let_go(dropped)

    def drop_foreign(self) -> None:
        """Let the vectors for other languages go."""
        _let_go(self._foreign.drop())

    def drop_former(self) -> None:
        """Let the vectors of the previous model go."""
        _let_go(self._former.drop())

    def with_other(self, text: TextIndex, mirror: Mirror | None) -> WorkspaceIndex:
        """The same workspace with other words and vectors, for questions about the past."""
        mirrors = Loaded(lambda: mirror), Loaded[Mirror | None](lambda: None), Loaded[Mirror | None](lambda: None)
        return WorkspaceIndex(self.id, self.workspace, Loaded(lambda: text), self._files, *mirrors)

    @property
    def is_open(self) -> bool:
        """Whether one of its caches is loaded."""
        caches = self._text, self._files, self._mirror, self._former, self._foreign
        return any(cache.loaded for cache in caches)

    @property
    def memory(self) -> int:
        """About how many bytes its large caches take."""
        text, mirrors = self._text.present, (self._mirror.present, self._former.present, self._foreign.present)
        vectors = sum(mirror.memory for mirror in mirrors if mirror is not None)
        return vectors + (text.memory if text is not None else 0)

    def close(self) -> None:
        """Let all caches go; whoever reads one of them can go on."""
        text = self._text.drop()
        if text is not None:
            text.close()
        self._files.drop()
        self.drop_mirrors()
        self.parse_cache, self.applied, self._names = ParseCache(), {}, None


def _let_go(mirror: Mirror | None) -> None:
    if mirror is not None:
        mirror.close()


def named_files(files: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The names of files and their numbers, except dates, which say nothing that the notes do not know."""
    return [(PurePosixPath(path).stem.casefold(), number) for path, number in files if not date_of(path)]


@dataclass(slots=True)
class ActiveModel:
    """The embedder in use, and its number in the ledger."""

    id: int
    embedder: Embedder


class ModelChanged(MemdError):
    """The model that a question began with is no longer in use; the question can be asked again."""


class Stores:
    """Everything that is open, in the one process that holds the lock."""

    def __init__(self, folder: Path, mend: bool = True, most_open: int = 128, most_open_mb: int = 1_024) -> None:
        self.mend = mend
        """Whether caches that cannot be used are removed, or only reported."""
        self.most_open, self.most_bytes = most_open, most_open_mb << 20
        """How many workspaces may have open caches, and how much memory these may take."""
        self._prepare(folder, Ledger(folder / "state.db"))
        if mend:
            own_caches(folder, self.ledger.id)
            shutil.rmtree(folder / BUILDING, ignore_errors=True)

    @classmethod
    def of(cls, folder: Path, ledger: Ledger) -> Self:
        """Stores over a ledger that is open already."""
        stores = cls.__new__(cls)
        stores._prepare(folder, ledger)
        return stores

    def _prepare(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self.indexes: dict[str, WorkspaceIndex] = {}
        self.vectors: VectorStore | None = None
        self.model: ActiveModel | None = None
        self.former: ActiveModel | None = None
        self.multilingual: ActiveModel | None = None
        """The model for other languages, while a workspace needs it."""
        self.question_vectors: dict[tuple[int, str], Future[Vectors]] = {}
        """The last questions' vectors, made or on their way, by model and text: each a matrix of one row."""
        self.link_similarity = 0.8
        """How much alike two memories must be to be linked."""
        self.embedded = 0
        """Texts that went through the model since the start."""

    # --- indexes ------------------------------------------------------------------------------------------

    def open_index(self, workspace: Workspace) -> WorkspaceIndex:
        """Begin to keep a workspace; its caches are loaded when they are first used."""
        self.open_workspaces([workspace])
        return self.indexes[workspace.ns]

    def open_workspaces(self, workspaces: Iterable[Workspace]) -> None:
        """Begin to keep workspaces, in one transaction."""
        with self.ledger.write() as connection:
            numbers = [(catalog.workspace_id(connection, workspace), workspace) for workspace in workspaces]
            polyglots = catalog.polyglots(connection)
        opened = {workspace.ns: self._closed_index(number, workspace) for number, workspace in numbers}
        for index in opened.values():
            index.polyglot = index.id in polyglots
        self.indexes = {**self.indexes, **opened}

    def _closed_index(self, number: int, workspace: Workspace) -> WorkspaceIndex:
        return WorkspaceIndex(
            number, workspace,
            Loaded(partial(self._open_text, number)),
            Loaded(lambda: catalog.files(self.ledger.latest, number)),
            Loaded(lambda: self._mirror(number, self.model)),
            Loaded(lambda: self._mirror(number, self.former)),
            Loaded(lambda: self._mirror(number, self.multilingual)),
        )  # fmt: skip

    def _open_text(self, number: int) -> TextIndex:
        text = TextIndex(self.text_folder(number))
        dirty, chunks = catalog.expected_text(self.ledger.latest, number)
        if not dirty and text.count() != chunks:
            raise StoreBroken(f"the text index has {text.count()} of {chunks} chunks", "memd doctor --fix")
        return text

    def mend_text(self, index: WorkspaceIndex) -> None:
        """Put a text index aside that cannot be opened, and start an empty one; the caller fills it."""
        self.suspect_text(index)
        try:
            _ = index.text
        except StoreBroken as error:
            log.warning("text index of workspace %d is broken, put aside and built again: %s", index.id, error)
            self.renew_text(index)

    def has_text(self, index: WorkspaceIndex) -> bool:
        """Whether there is a text index that holds what the ledger says; one that is not open need only exist."""
        text = index.open_text
        if text is None:
            return (self.text_folder(index.id) / FORMAT_FILE).exists()
        return text.count() == catalog.expected_text(self.ledger.reader, index.id)[1]

    def suspect_text(self, index: WorkspaceIndex) -> None:
        """Let the text index be opened though it may not be what the ledger says; the caller compares them."""
        with self.ledger.write() as connection:
            catalog.mark(connection, index.id, text=True)

    def renew_text(self, index: WorkspaceIndex) -> None:
        """Put a broken text index aside and start an empty one; the caller fills it from the ledger."""
        index._text.replace(partial(self._empty_text, index.id))

    def _empty_text(self, number: int, broken: TextIndex | None) -> TextIndex:
        if broken is not None:
            broken.close()
        quarantine(self.folder, self.text_folder(number))
        with self.ledger.write() as connection:
            catalog.mark(connection, number, text=True)
        return TextIndex(self.text_folder(number))

    def swap_text(self, index: WorkspaceIndex, fresh: Path) -> None:
        """Use an index that another process built; the caller adds what changed meanwhile."""
        self.suspect_text(index)
        index._text.replace(partial(self._swapped_text, index.id, fresh))

    def _swapped_text(self, number: int, fresh: Path, old: TextIndex | None) -> TextIndex:
        folder, aside = self.text_folder(number), fresh.with_name(f"{fresh.name}.old")
        if old is not None:
            with suppress(StoreBroken):
                # Opened before the folders change places, so that questions can go on with it.
                old.postings()
        if folder.exists():
            folder.rename(aside)
        fresh.rename(folder)
        text = TextIndex(folder)
        if old is not None:
            old.close()
        shutil.rmtree(aside, ignore_errors=True)
        return text

    def text_folder(self, number: int) -> Path:
        return self.folder / "text" / str(number)

    def close_index(self, ns: str) -> None:
        index = self.indexes[ns]
        self.indexes = {name: other for name, other in self.indexes.items() if name != ns}
        index.close()

    @property
    def open_indexes(self) -> list[WorkspaceIndex]:
        """The indexes with open caches."""
        return [index for index in self.indexes.values() if index.is_open]

    @property
    def crowded(self) -> bool:
        """Whether more is open than may be."""
        opened = self.open_indexes
        return len(opened) > self.most_open or (
            len(opened) > 1 and sum(index.memory for index in opened) > self.most_bytes
        )

    def close_unused(self) -> None:
        """Close what was not used for the longest time, where too much is open.

        Only the writer calls this, between two steps: nobody else may close what it is writing to.
        """
        recent = sorted(self.open_indexes, key=lambda index: -index.used)
        memory = 0
        for nth, index in enumerate(recent):
            memory += index.memory
            if nth >= self.most_open or (nth and memory > self.most_bytes):
                index.close()

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
            self.vectors.forget(number)

    def index(self, ns: str) -> WorkspaceIndex:
        if ns not in self.indexes:
            known = ", ".join(sorted(self.indexes)) or "none yet"
            meant = did_you_mean(ns, self.indexes)
            raise UnknownWorkspace(f"no workspace is called `{ns}` (known: {known}){meant}", "memd workspaces")
        return self.indexes[ns]

    # --- vectors ------------------------------------------------------------------------------------------

    def use_model(self, embedder: Embedder, source: str) -> None:
        """Embed with a model from now on; the one before it answers until the new one's vectors are complete.

        Questions go on meanwhile: at each step what serves is found in one place at least.
        """
        with self.ledger.write() as connection:
            number = vector_table.model_id(connection, embedder.name, embedder.fingerprint, embedder.dims, source)
        model, before, former = ActiveModel(number, embedder), self.model, self.former
        if before is not None and before.id == number:
            self.model = model
            return
        if former is not None and former.id == number:
            self.model = model
            for index in self.indexes.values():
                index.take_former_back()
            self.former = None
            return
        if former is None and before is not None:
            self.former = before
            for index in self.indexes.values():
                index.keep_former()
        self.model = model
        for index in self.indexes.values():
            index.drop_mirror()
        if self.all_fit:
            # The first question should not wait for them.
            for index in self.indexes.values():
                _ = index.mirror

    def use_no_model(self) -> None:
        """Answer by words alone; the ledger keeps the vectors."""
        self.model = self.former = self.multilingual = None
        for index in self.indexes.values():
            index.drop_mirrors()

    def use_multilingual(self, embedder: Embedder) -> None:
        """Begin to embed texts and questions in other languages with a model of their own."""
        source = vector_table.MULTILINGUAL
        with self.ledger.write() as connection:
            number = vector_table.model_id(connection, embedder.name, embedder.fingerprint, embedder.dims, source)
        self.multilingual = ActiveModel(number, embedder)
        for index in self.indexes.values():
            index.drop_foreign()

    def drop_multilingual(self) -> None:
        self.multilingual = None
        for index in self.indexes.values():
            index.drop_foreign()

    @property
    def serving(self) -> ActiveModel | None:
        """The model that questions are embedded with."""
        return self.former or self.model

    @property
    def models(self) -> list[ActiveModel]:
        """All that are loaded."""
        return [model for model in (self.model, self.former, self.multilingual) if model is not None]

    @property
    def all_fit(self) -> bool:
        """Whether all workspaces may be open at once."""
        return len(self.indexes) <= self.most_open

    def _mirror(self, number: int, model: ActiveModel | None) -> Mirror | None:
        if model is None:
            return None
        mirror = Mirror(model.embedder.dims, model.id)
        for part in vector_table.slices_of_workspace(self.ledger.latest, model.id, number, mirror.dims):
            mirror.add(*part)
        return mirror

    def vector_count(self, index: WorkspaceIndex) -> int:
        """How many chunks of a workspace have a vector of the model in use; no vectors are loaded for it."""
        mirror = index.open_mirror
        if mirror is not None or self.model is None:
            return len(mirror) if mirror is not None else 0
        return vector_table.embedded_count(self.ledger.reader, self.model.id, index.id)

    def is_partly_embedded(self, index: WorkspaceIndex) -> bool:
        """Whether some chunks of a workspace have a vector of the model that answers, and some have none."""
        made = index.vectors_of(self.serving.id) if self.serving is not None else None
        return 0 < len(made or ()) < catalog.chunk_count(self.ledger.reader, index.id)

    def pending_foreign(self, index: WorkspaceIndex) -> int:
        """How many chunks of a workspace are to have a vector for other languages, and have none."""
        model, among = self.multilingual, f"{vector_table.OF_OTHER_LANGUAGES} AND c.workspace = {index.id}"
        missing = vector_table.pending_counts(self.ledger.reader, model.id if model is not None else 0, among=among)
        return missing.get(index.id, 0)

    def use_former(self, number: int, embedder: Embedder) -> None:
        """Answer with the previous model until the new one's vectors are complete."""
        self.former = ActiveModel(number, embedder)

    def drop_former(self) -> None:
        if self.former is not None:
            self.former = None
            for index in self.indexes.values():
                index.drop_former()

    def use_vectors(self, vectors: VectorStore) -> None:
        """Have the collections follow the ledger from now on; those of other workspaces and models are deleted."""
        self.vectors = vectors
        vectors.wanted = self._wanted_collections
        texts = vector_table.text_counts(self.ledger.reader, self.model.id) if self.model is not None else {}
        behind = catalog.behind(self.ledger.reader)
        for index in self.indexes.values():
            self._open_collection(index, texts.get(index.id, 0), index.id in behind)
        vectors.sweep()
        self.mark_behind(*self.indexes.values())

    def _wanted_collections(self) -> set[str]:
        numbers = [row["id"] for row in catalog.workspace_rows(self.ledger.reader)]
        return {collection_name(number, self.model.id) for number in numbers} if self.model is not None else set()

    def open_collection(self, index: WorkspaceIndex) -> None:
        """Give a workspace its collection; one that the ledger does not vouch for is compared with it."""
        if self.vectors is not None and self.model is not None:
            texts = vector_table.text_counts(self.ledger.reader, self.model.id, index.id)
            self._open_collection(index, texts.get(index.id, 0), index.id in catalog.behind(self.ledger.reader))
            self.mark_behind(index)

    def _open_collection(self, index: WorkspaceIndex, texts: int, behind: bool) -> None:
        if self.vectors is not None and self.model is not None:
            source = CollectionSource(self.ledger, index.id, self.model.id, self.model.embedder.dims)
            index.collection = self.vectors.collection(source, None if behind else texts)

    def renew_collection(self, index: WorkspaceIndex) -> bool:
        """Have a workspace's collection deleted and made again from the ledger; False if it is not open."""
        if index.collection is None:
            return False
        index.collection.renew()
        self.mark_behind(index)
        return True

    def mark_behind(self, *indexes: WorkspaceIndex) -> None:
        """Note in the ledger which of some collections have to follow."""
        behind = [index for index in indexes if index.collection is not None and index.collection.behind]
        if behind:
            with self.ledger.write() as connection:
                for index in behind:
                    catalog.mark(connection, index.id, vectors=True)

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
