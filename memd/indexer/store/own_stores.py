"""The stores of the one process that holds the lock: the ledger, the caches of each workspace, and the models."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memd.indexer.model.embedder import Embedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.cache_folder import format_of, own_caches, quarantine
from memd.indexer.store.catalog import FileRow, TextState
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.segment import TextBroken
from memd.indexer.store.stores import ActiveModel, Loaded, Stores, WorkspaceIndex
from memd.indexer.store.text import FORMAT, TextIndex
from memd.indexer.store.vectors import Collection, VectorStore, collection_name
from memd.models import Note, Workspace
from memd.notes.parse import ParseCache

BUILDING = "building"
"""The folder for an index under construction and the one it replaces; a start deletes what it finds there."""
PURGING = "purging"
"""The ledger's setting that has the workspaces of which something was forgotten that is not removed everywhere yet."""


class OwnIndex(WorkspaceIndex):
    """One workspace and its caches, loaded when they are first used. Only the writer thread changes or closes them."""

    def __init__(self, stores: OwnStores, number: int, workspace: Workspace, remote: bool, multilingual: bool) -> None:
        super().__init__(stores, number, workspace, remote)
        self.collection: Collection | None = None
        self.multilingual = multilingual
        """Whether it was asked in another language than English: then all its chunks get vectors for that."""
        self.compares_languages = False
        """Whether these were seen to be there since the start; what is new may lack them for a moment."""
        self.held: frozenset[str] = frozenset()
        """Files that vanished together; their entries stay until the files come back or the user accepts the loss."""
        self.missing = False
        self.copied: frozenset[int] = frozenset()
        """The minutes in which files were copied, as the last scan saw it."""
        self.unlinked: set[int] = set()
        """Memories whose names or mentions changed since their edges were last updated."""
        self.unrestored: dict[int, str] = {}
        """Actions that failed and whose files may have to be restored yet, with the reason: a full disk leaves some."""
        self.applied: dict[str, tuple[str, Note]] = {}
        """Recently changed files as they were last indexed: the digest of the file, and the note."""
        self.used = 0.0
        """When somebody last used one of its caches."""
        self._text = Loaded(partial(stores.open_text, number))
        self._files = Loaded(lambda: catalog.files(stores.ledger.latest, number))
        self._mirrors: dict[int, Loaded[Mirror]] = {}
        """The vectors of each model, by its number."""
        self._read_mirror = stores.read_mirror

    @property
    def text(self) -> TextIndex:
        self.used = time.monotonic()
        return self._text.get()

    @property
    def open_text(self) -> TextIndex | None:
        """The text index if it is open."""
        return self._text.present

    @property
    def files(self) -> Mapping[str, FileRow]:
        self.used = time.monotonic()
        return self._files.get()

    @files.setter
    def files(self, rows: Mapping[str, FileRow]) -> None:
        self._files.replace(lambda _: MappingProxyType(rows))

    def known_files(self) -> Mapping[str, FileRow]:
        files = self._files.present
        return self._files.load() if files is None else files

    def left_out(self) -> Iterator[tuple[str, str]]:
        """The files whose text is not searched, and why."""
        yield from ((path, row.problem) for path, row in self.files.items() if row.left_out)
        yield from self.skipped.items()

    # --- vectors --------------------------------------------------------------------------------------------------

    def local_mirror(self, model: ActiveModel) -> Mirror:
        self.used = time.monotonic()
        return self._mirrors.setdefault(model.id, Loaded(partial(self._read_mirror, self.id, model))).get()

    def open_mirror(self, model: ActiveModel) -> Mirror | None:
        """The vectors of a model if they are loaded."""
        loaded = self._mirrors.get(model.id)
        return loaded.present if loaded is not None else None

    def follow_vectors(self, ids: list[int], vectors: Vectors, model: int) -> None:
        """Add vectors of a model, which the ledger has, to those that are loaded."""
        if (mirror := self._mirrors.get(model)) is not None:
            mirror.change(lambda loaded: loaded.add(ids, vectors))

    def drop_vectors(self, dropped: Sequence[int]) -> None:
        """Drop the vectors of chunks that the ledger no longer has from those that are loaded."""
        for mirror in list(self._mirrors.values()):
            mirror.change(lambda loaded: loaded.drop(dropped))

    def drop_mirrors(self, keep: AbstractSet[int] = frozenset()) -> None:
        """Let the vectors go, but for those of some models; the next question loads them from the ledger."""
        for model, mirror in list(self._mirrors.items()):
            # It stays in the dictionary: a question that loads it again just now must not have one that nobody follows.
            if model not in keep and (dropped := mirror.drop()) is not None:
                dropped.close()

    # --- what is loaded -------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether one of its caches is loaded."""
        caches: list[Loaded[Any]] = [self._text, self._files, *self._mirrors.values()]
        return any(cache.present is not None for cache in caches)

    @property
    def memory(self) -> int:
        """About how many bytes its large caches take."""
        caches = self._text.present, *(mirror.present for mirror in list(self._mirrors.values()))
        return sum(cache.memory for cache in caches if cache is not None)

    def close(self) -> None:
        """Let all caches go; whoever reads one of them can go on."""
        text = self._text.drop()
        if text is not None:
            text.close()
        self._files.drop()
        self.drop_columns()
        self.drop_mirrors()
        self.parse_cache, self.applied = ParseCache(), {}


class OwnStores(Stores):
    """Everything that is open, in the one process that holds the lock.

    `mend`: whether caches that cannot be used are removed, or only reported.
    """

    indexes: dict[str, OwnIndex]

    def __init__(self, folder: Path, mend: bool = True, most_open: int = 128, most_open_mb: int = 1_024) -> None:
        super().__init__(folder, Ledger(folder / "state.db"))
        self.most_open, self.most_bytes = most_open, most_open_mb << 20
        """How many workspaces may have open caches, and how much memory these may take."""
        self.vectors: VectorStore | None = None
        self.embedded = 0
        """Texts that went through the model since the start."""
        if mend:
            own_caches(folder, self.ledger.id)
            # The caches from which a killed process had yet to remove something are made again from the ledger. What
            # its Chroma still writes there goes when the folder is opened: it no longer says its format.
            holding = [folder / "chroma", *map(self.text_folder, self.purging)] if self.purging else []
            for cache in (folder / BUILDING, *holding):
                shutil.rmtree(cache, ignore_errors=True)

    # --- indexes ------------------------------------------------------------------------------------------

    def index(self, ns: str) -> OwnIndex:
        return self.expect(ns, self.indexes)

    def open_index(self, workspace: Workspace) -> OwnIndex:
        """Begin to keep a workspace; its caches are loaded when they are first used."""
        self.open_workspaces([workspace])
        index = self.indexes[workspace.ns]
        self.open_collections(index)
        return index

    def open_workspaces(self, workspaces: Sequence[Workspace]) -> None:
        """Begin to keep workspaces, in one transaction."""
        names = {workspace.ns for workspace in workspaces}
        used = {index.id for ns, index in self.indexes.items() if ns not in names}
        with self.ledger.write() as connection:
            numbers = zip(catalog.workspace_ids(connection, workspaces, used), workspaces, strict=True)
            multilingual = catalog.numbers_of(connection, "SELECT id FROM workspaces WHERE polyglot")
            remote = catalog.numbers_of(connection, "SELECT id FROM workspaces WHERE remote")
        opened = (OwnIndex(self, number, one, number in remote, number in multilingual) for number, one in numbers)
        self.indexes = self.indexes | {index.workspace.ns: index for index in opened}

    def change_workspace(self, workspace: Workspace) -> None:
        """Other files of the same directory are memory from now on."""
        self.indexes[workspace.ns].workspace = workspace
        # Another value: readers compare it by identity.
        self.indexes = dict(self.indexes)

    def open_text(self, number: int) -> TextIndex:
        """Open a text index; TextBroken when it is damaged, or is not what the ledger says."""
        text = TextIndex(self.text_folder(number))
        dirty, chunks = catalog.expected_text(self.ledger.latest, number)
        if not dirty and text.count() != chunks:
            raise TextBroken(f"the text index has {text.count()} of {chunks} chunks", "memd doctor --fix")
        return text

    def has_text(self, index: OwnIndex) -> bool:
        """Whether there is a text index that holds what the ledger says; one that is not open need have the form."""
        dirty, chunks = catalog.expected_text(self.reader, index.id)
        if dirty or index.open_text is None:
            return not dirty and self.has_form(index)
        with suppress(TextBroken):
            return index.open_text.count() == chunks
        return False

    def has_form(self, index: OwnIndex) -> bool:
        """Whether the folder of a text index is of this memd's form; any other is made anew when it is opened."""
        return format_of(self.text_folder(index.id)) == FORMAT

    def suspect_text(self, index: OwnIndex) -> None:
        """Let the text index be opened though it may not be what the ledger says; the caller compares them."""
        self.ledger.transact(catalog.mark_text, index.id, TextState.BEHIND)

    def have_texts_read_again(self) -> None:
        """Tell the readers that a text index changed and the clock did not: they are told whenever this is another."""
        self.indexes = dict(self.indexes)

    def renew_text(self, index: OwnIndex) -> None:
        """Put a broken text index aside and start an empty one; the caller fills it from the ledger."""
        index._text.replace(partial(self._empty_text, index))

    def _empty_text(self, index: OwnIndex, broken: TextIndex | None) -> TextIndex:
        if broken is not None:
            broken.close()
        quarantine(self.folder, self.text_folder(index.id))
        self.suspect_text(index)
        return TextIndex(self.text_folder(index.id))

    def swap_text(self, index: OwnIndex, fresh: Path) -> None:
        """Use an index that another process built; the caller adds what changed meanwhile."""
        self.suspect_text(index)
        index._text.replace(partial(self._swapped_text, index.id, fresh))

    def _swapped_text(self, number: int, fresh: Path, old: TextIndex | None) -> TextIndex:
        folder, aside = self.text_folder(number), fresh.with_name(f"{fresh.name}.old")
        if old is not None:
            with suppress(TextBroken):
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

    def close_index(self, ns: str) -> None:
        index = self.indexes[ns]
        self.indexes = {name: other for name, other in self.indexes.items() if name != ns}
        index.close()

    @property
    def open_indexes(self) -> list[OwnIndex]:
        """The indexes with open caches."""
        return [index for index in self.indexes.values() if index.is_open]

    def close_unused(self) -> None:
        """Close what was not used for the longest time, where too much is open.

        Only the writer calls this, between two steps: nobody else may close what it is writing to.
        """
        for index in self._unused():
            index.close()

    def _unused(self) -> Iterator[OwnIndex]:
        memory = 0
        for nth, index in enumerate(sorted(self.open_indexes, key=lambda index: -index.used)):
            memory += index.memory
            if nth >= self.most_open or (nth and memory > self.most_bytes):
                yield index

    @property
    def purging(self) -> set[int]:
        """The workspaces of which caches and free pages may hold what was forgotten."""
        return set(json.loads(self.ledger.setting(PURGING) or "[]"))

    def end_purging(self, numbers: AbstractSet[int]) -> None:
        """Nothing holds it any more, unless a collection has yet to be made again."""
        renewing = {one.id for one in self.indexes.values() if one.collection is not None and one.collection.renewing}
        left = self.purging - (numbers - renewing)
        self.ledger.transact(self.ledger.save_setting, PURGING, json.dumps([*left]))

    def stop_watching(self, number: int, hard: bool = False) -> None:
        """Drop the caches of a workspace; `hard`: every trace of it except its files."""
        for index in [index for index in self.indexes.values() if index.id == number]:
            self.close_index(index.workspace.ns)
        with self.ledger.forgetting() if hard else self.ledger.write() as connection:
            (catalog.forget_workspace if hard else catalog.stop_watching)(connection, number)
            vector_table.sweep(connection)
            self.ledger.tick(connection)
            if hard:
                self.ledger.save_setting(connection, PURGING, json.dumps([*self.purging, number]))
        shutil.rmtree(self.text_folder(number), ignore_errors=True)
        if self.vectors is not None:
            self.vectors.sweep()
        if hard and not self.ledger.compact():
            self.end_purging({number})

    # --- vectors ------------------------------------------------------------------------------------------

    def use_model(self, embedder: Embedder, source: str) -> None:
        """Embed with a model from now on; the one before it answers until the new one's vectors are complete.

        Questions go on meanwhile: at each step there is a model that serves, and its vectors.
        """
        model, before = self._known_model(embedder, source), self.model
        self.question_vectors.clear()
        if before is not None and before.id == model.id:
            self.model = model
            return
        if self.former is not None and self.former.id == model.id:
            # The change is taken back: what answers is the model in use again.
            self.model, self.former = model, None
        else:
            self.former, self.model = self.former or before, model
        self._drop_unused_mirrors()
        self.open_collections(*self.indexes.values())
        if self.vectors is not None:
            self.vectors.sweep()
        if self.all_fit:
            # The first question should not wait for them.
            for index in self.indexes.values():
                _ = index.mirror

    def _known_model(self, embedder: Embedder, source: str) -> ActiveModel:
        with self.ledger.write() as connection:
            vector_table.recognise(connection, embedder)
            number = vector_table.model_id(connection, embedder.name, embedder.fingerprint, embedder.dims, source)
        return ActiveModel(number, embedder)

    def use_former(self, number: int, embedder: Embedder) -> None:
        """Answer with the previous model until the new one's vectors are complete."""
        self.former = ActiveModel(number, embedder)

    def drop_former(self) -> None:
        self.former = None
        self._drop_unused_mirrors()

    def use_multilingual(self, embedder: Embedder) -> None:
        """Begin to embed texts and questions in other languages with a model of their own."""
        self.multilingual = self._known_model(embedder, vector_table.MULTILINGUAL)

    def drop_multilingual(self) -> None:
        self.multilingual = None
        self._drop_unused_mirrors()

    def use_no_model(self) -> None:
        """Answer by words alone; the ledger keeps the vectors."""
        self.model = self.former = self.multilingual = None
        self._drop_unused_mirrors()

    def _drop_unused_mirrors(self) -> None:
        numbers = {model.id for model in self.models}
        for index in self.indexes.values():
            index.drop_mirrors(keep=numbers)

    @property
    def all_fit(self) -> bool:
        """Whether all workspaces may be open at once."""
        return len(self.indexes) <= self.most_open

    def read_mirror(self, number: int, model: ActiveModel) -> Mirror:
        """The vectors of a workspace made by a model, as the ledger has them."""
        mirror = Mirror(model.embedder.dims, model.id, self.folder / BUILDING)
        for part in vector_table.of_workspace(self.ledger.latest, model.id, number, mirror.dims):
            mirror.add(*part)
        return mirror

    def vector_count(self, index: OwnIndex) -> int:
        """How many chunks of a workspace have a vector of the model in use; no vectors are loaded for it."""
        if self.model is None:
            return 0
        mirror = index.open_mirror(self.model)
        if mirror is not None:
            return len(mirror)
        return vector_table.embedded_count(self.reader, self.model.id, index.id)

    def pending_foreign(self, index: OwnIndex) -> int:
        """How many chunks of a workspace are to have a vector for other languages, and have none."""
        model, among = self.multilingual, f"{vector_table.OF_OTHER_LANGUAGES} AND c.workspace = {index.id}"
        missing = vector_table.pending_counts(self.reader, model.id if model is not None else 0, among=among)
        return missing.get(index.id, 0)

    def use_vectors(self, vectors: VectorStore) -> None:
        """Have the collections follow the ledger from now on; those of other workspaces and models are deleted."""
        self.vectors = vectors
        self.open_collections(*self.indexes.values())
        vectors.start(self._wanted_collections)

    def _wanted_collections(self) -> set[str]:
        numbers = [row["id"] for row in catalog.workspace_rows(self.reader)]
        return {collection_name(number, model.id) for number in numbers for model in self._sent_models}

    @property
    def _sent_models(self) -> list[ActiveModel]:
        """The model in use, and the one before as long as it answers."""
        return [model for model in (self.model, self.former) if model is not None]

    def open_collections(self, *indexes: OwnIndex) -> None:
        """Give workspaces their collections."""
        if self.vectors is None or self.model is None:
            return
        for index in indexes:
            for model in reversed(self._sent_models if index.remote else [self.model]):
                index.collection = self.vectors.collection(index.id, model.id, model.embedder.dims)
                index.collection.remote = index.remote

    def renew_collection(self, index: OwnIndex) -> bool:
        """Have a workspace's collection deleted and made again from the ledger; False if it is not open."""
        if index.collection is not None:
            # Nobody else has the vectors of a remote one; what is gone from the ledger is dropped from it.
            index.collection.compare() if index.remote else index.collection.renew()
        return index.collection is not None

    def move_vectors(self, index: OwnIndex, remote: bool) -> None:
        """Have questions ask the server for a workspace's vectors, which it has by now; or this machine again."""
        with self.ledger.write() as connection:
            connection.execute("UPDATE workspaces SET remote = ? WHERE id = ?", (remote, index.id))
        index.remote = remote
        self.open_collections(index)
        index.drop_mirrors(keep={self.multilingual.id} if self.multilingual is not None else frozenset())
        # The readers are told when this is another.
        self.indexes = dict(self.indexes)

    def close(self) -> None:
        for ns in list(self.indexes):
            self.close_index(ns)
        if self.vectors is not None:
            self.vectors.close()
        self.ledger.close()
