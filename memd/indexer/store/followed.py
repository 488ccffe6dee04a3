"""The stores as a reader process sees them: it follows what the daemon commits, and writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from memd.errors import Busy, MemdError, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import Scale, remember_scale
from memd.indexer.store import catalog
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.ledger import FileId, FollowedLedger
from memd.indexer.store.loaded import Loaded
from memd.indexer.store.mirror import Mirror, MirrorPlace
from memd.indexer.store.stores import ActiveModel, Stores, WorkspaceIndex, named_files
from memd.indexer.store.text import FollowedTextIndex, TextIndex
from memd.models import Workspace

MOST_OPEN = 64
"""Workspaces that a reader has open."""

TRIES = 5
"""How often something is opened that a commit changes, or that the daemon closes, at the same moment."""


@dataclass(frozen=True, slots=True)
class FollowedModel:
    """What a reader knows of a model that is loaded in the daemon."""

    id: int
    name: str
    fingerprint: str
    dims: int
    scale: Scale


@dataclass(frozen=True, slots=True)
class DaemonState:
    """What a reader has to know besides the files."""

    workspaces: tuple[tuple[int, Workspace], ...]
    model: FollowedModel | None
    former: FollowedModel | None
    multilingual: FollowedModel | None = None


class Daemon(Protocol):
    """What a reader asks the daemon for."""

    def embed(self, model: int, texts: Sequence[str]) -> Future[Vectors]:
        """The vectors of some texts."""

    def count_tokens(self, model: int, text: str) -> int:
        """The number of tokens of a text."""

    def mirror(self, ns: str, model: int) -> MirrorPlace | None:
        """Where a workspace's vectors are to be attached."""

    def nearest_texts(self, ns: str, vector: Vectors, depth: int) -> list[tuple[str, float]] | None:
        """What Chroma finds nearest in a workspace."""


@dataclass(frozen=True, slots=True)
class DaemonEmbedder:
    """A model that is loaded in the daemon."""

    daemon: Daemon
    id: int
    name: str
    fingerprint: str
    dims: int

    def embed(self, texts: Sequence[str], urgent: bool = False) -> Vectors:
        return self.daemon.embed(self.id, texts).result()

    def begin(self, text: str) -> Future[Vectors]:
        """Have a text embedded, and go on meanwhile."""
        return self.daemon.embed(self.id, [text])

    def count_tokens(self, text: str) -> int:
        return self.daemon.count_tokens(self.id, text)


class FollowedIndex(WorkspaceIndex):
    """One workspace: what a question needs of it is read when it is needed, and again after a commit."""

    def __init__(self, stores: FollowedStores, number: int, workspace: Workspace) -> None:
        nothing = Loaded[Mirror | None](lambda: None)
        mirrors = nothing, nothing, nothing
        text = Loaded[TextIndex](lambda: FollowedTextIndex(stores.text_folder(number)))
        files = Loaded[Mapping[str, FileRow]](lambda: catalog.files(stores.ledger.reader, number))
        super().__init__(number, workspace, text, files, *mirrors)
        self._stores = stores
        self._lock = threading.Lock()
        self._text_seen = self._files_seen = -1
        """The clock's count when these were last read."""
        self._named: tuple[tuple[int, int], list[tuple[str, int]]] = ((0, 0), [])
        self._mirrors: dict[int, Mirror | None] = {}

    def follow(self, seq: int) -> None:
        """Read at least what the ledger had at this count of the clock."""
        with self._lock:
            if seq > self._text_seen:
                self._text.change(_follow)
                self._text_seen = seq

    @property
    def files(self) -> Mapping[str, FileRow]:
        seq = self._stores.ledger.seq_seen()
        if seq > self._files_seen:
            self._files.drop()
            self._files_seen = seq
        return self._files.get()

    @files.setter
    def files(self, rows: Mapping[str, FileRow]) -> None:
        raise TypeError("a reader does not write")

    def names(self) -> list[tuple[str, int]]:
        connection = self._stores.ledger.reader
        stamp = catalog.files_stamp(connection, self.id)
        if self._named[0] != stamp:
            self._named = stamp, named_files(catalog.paths(connection, self.id))
        return self._named[1]

    @property
    def mirror(self) -> Mirror | None:
        return self._mirror_of(self._stores.model)

    @property
    def former(self) -> Mirror | None:
        return self._mirror_of(self._stores.former)

    @property
    def foreign(self) -> Mirror | None:
        return self._mirror_of(self._stores.multilingual)

    def _mirror_of(self, model: ActiveModel | None) -> Mirror | None:
        if model is None:
            return None
        known = self._mirrors.get(model.id)
        if known is None or known.closed:
            ask = partial(self._stores.daemon.mirror, self.workspace.ns, model.id)
            known = attached(ask, model.embedder.dims, model.id)
            current = {one.id for one in self._stores.models}
            self._mirrors = {one: mirror for one, mirror in self._mirrors.items() if one in current} | {model.id: known}
        return known

    def nearest_texts(self, vector: Vectors, depth: int) -> list[tuple[str, float]] | None:
        return self._stores.daemon.nearest_texts(self.workspace.ns, vector, depth)

    def close(self) -> None:
        super().close()
        self._mirrors, self._named = {}, ((0, 0), [])


def attached(ask: Callable[[], MirrorPlace | None], dims: int, model: int) -> Mirror | None:
    """The daemon's mirror; asked for again when it was closed before it could be opened here, as among many it is."""
    for _ in range(TRIES):
        place = ask()
        if place is None:
            return None
        if (mirror := Mirror.attach(place, dims, model)) is not None:
            return mirror
    raise Busy("the daemon opens and closes its indexes faster than they can be read", "ask again")


def _follow(text: TextIndex) -> None:
    assert isinstance(text, FollowedTextIndex)
    text.follow()


class FollowedStores(Stores):
    """The stores of the daemon, for reading."""

    def __init__(self, folder: Path, daemon: Daemon, ledger: FileId | None = None) -> None:
        self.daemon = daemon
        self._workspaces: dict[str, tuple[int, Workspace]] = {}
        self._followed: dict[str, FollowedIndex] = {}
        self._opening = threading.Lock()
        self._prepare(folder, FollowedLedger(folder / "state.db", ledger))

    def follow(self, state: DaemonState) -> None:
        """Take over which workspaces and models there are."""
        self._workspaces = {workspace.ns: (number, workspace) for number, workspace in state.workspaces}
        self._followed = {
            ns: index for ns, index in self._followed.items() if self._workspaces.get(ns) == (index.id, index.workspace)
        }
        self.model, self.former = self._model(state.model), self._model(state.former)
        self.multilingual = self._model(state.multilingual)
        self.question_vectors.clear()

    def _model(self, known: FollowedModel | None) -> ActiveModel | None:
        if known is None:
            return None
        remember_scale(known.fingerprint, known.scale)
        return ActiveModel(known.id, DaemonEmbedder(self.daemon, known.id, known.name, known.fingerprint, known.dims))

    def read_ahead(self) -> None:
        """Open what the first questions would wait for, where there are few workspaces."""
        if len(self._workspaces) <= MOST_OPEN:
            for ns in list(self._workspaces):
                with suppress(MemdError):
                    index = self.index(ns)
                    index.text.postings().warm()
                    _ = index.mirror

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        """One state of the ledger for all that is read inside; yields the clock's count."""
        with self.ledger.snapshot():
            seq = self.ledger.seq = self.ledger.seq_seen()
            yield seq

    def index(self, ns: str) -> WorkspaceIndex:
        if ns not in self._workspaces:
            return super().index(ns)
        index = self._followed.get(ns) or self._open(ns)
        for left in reversed(range(TRIES)):
            try:
                index.follow(self.ledger.seq_seen())
                break
            except StoreBroken:
                # A commit may have removed a file between the look at the folder and the opening.
                if not left:
                    raise
        return index

    def _open(self, ns: str) -> FollowedIndex:
        """A workspace that was not asked before; the one that was not asked for the longest time makes room."""
        with self._opening:
            if ns not in self._followed:
                if len(self._followed) >= MOST_OPEN:
                    oldest = min(self._followed, key=lambda name: self._followed[name].used)
                    self._followed.pop(oldest).close()
                self._followed[ns] = FollowedIndex(self, *self._workspaces[ns])
            return self._followed[ns]
