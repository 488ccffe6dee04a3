"""The stores as a reader process sees them: it follows what the daemon commits, and writes nothing."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from memd.config.schema import VectorsSettings
from memd.errors import Busy, MemdError, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import ModelScale
from memd.indexer.store import catalog
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.chroma_server import ChromaClient
from memd.indexer.store.ledger import FileId, FollowedLedger
from memd.indexer.store.mirror import Mirror, MirrorPlace
from memd.indexer.store.stores import ActiveModel, Loaded, Stores, WorkspaceIndex
from memd.indexer.store.text import FollowedTextIndex, TextIndex
from memd.models import Workspace

MOST_OPEN = 64
"""Workspaces that a reader has open."""

TRIES = 5
"""How often something is opened that a commit changes, or that the daemon closes, at the same moment."""


@dataclass(frozen=True, slots=True)
class FollowedModel:
    """A model that is loaded in the daemon, as a reader knows it."""

    id: int
    name: str
    fingerprint: str
    dims: int
    scale: ModelScale


FollowedWorkspace = tuple[int, Workspace, bool]
"""A workspace with its number, and whether its vectors are in the server."""


@dataclass(frozen=True, slots=True)
class DaemonState:
    """The state of the daemon that a reader has to know besides the files."""

    workspaces: tuple[FollowedWorkspace, ...]
    model: FollowedModel | None
    former: FollowedModel | None
    multilingual: FollowedModel | None = None
    engine: tuple[VectorsSettings, str] | None = None
    """The server that has vectors, and the ledger whose they are."""


AskDaemon = Callable[..., Future[Any]]
"""Asks the daemon for something that only it can do: by its name (`ReaderPool` has them all), with arguments."""


@dataclass(frozen=True, slots=True)
class DaemonEmbedder(FollowedModel):
    """The same as an embedder: the daemon does the work."""

    ask: AskDaemon

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        vectors: Vectors = self.ask("embed", self.id, list(texts), question).result()
        return vectors

    def begin(self, text: str) -> Future[Vectors]:
        """Have a question embedded, and go on meanwhile."""
        return self.ask("embed", self.id, [text], True)

    def count_tokens(self, text: str) -> int:
        return int(self.ask("count_tokens", self.id, text).result())


class FollowedIndex(WorkspaceIndex):
    """One workspace: what a question needs of it is read when it is needed, and again after a commit."""

    _stores: "FollowedStores"

    def __init__(self, stores: "FollowedStores", number: int, workspace: Workspace, remote: bool) -> None:
        super().__init__(stores, number, workspace, remote)
        self.used = 0.0
        """When it was last asked."""
        self._text = Loaded(lambda: FollowedTextIndex(stores.text_folder(number)))
        self.text_seen = -1
        """The clock's count when the text index was last read."""
        self._files: tuple[int, Mapping[str, FileRow]] = (-1, {})
        """The rows of the files, and the clock's count when they were read."""
        self._mirrors: dict[int, Mirror | None] = {}

    def follow(self, seq: int) -> None:
        """Read at least what the ledger had at this count of the clock."""
        self.used = time.monotonic()
        if seq > self.text_seen:
            self._text.change(partial(self._follow_text, seq))
            self.text_seen = max(seq, self.text_seen)

    def _follow_text(self, seq: int, text: FollowedTextIndex) -> None:
        if text.follow():
            self.text_since = seq

    @property
    def text(self) -> TextIndex:
        return self._text.get()

    @property
    def files(self) -> Mapping[str, FileRow]:
        seq = self._stores.ledger.seq_seen()
        if seq > self._files[0]:
            self._files = seq, catalog.files(self._stores.reader, self.id)
        return self._files[1]

    def local_mirror(self, model: ActiveModel) -> Mirror | None:
        known = self._mirrors.get(model.id)
        if known is None or known.closed:
            ask = partial(self._stores.ask, "mirror", self.workspace.ns, model.id)
            known = attached(lambda: ask().result(), model.embedder.dims, model.id)
            current = {one.id for one in self._stores.models}
            self._mirrors = {one: mirror for one, mirror in self._mirrors.items() if one in current} | {model.id: known}
        return known

    def close(self) -> None:
        """Let go of what was read; whoever reads it can go on."""
        self.drop_columns()
        if (text := self._text.present) is not None:
            text.close()


def attached(ask: Callable[[], MirrorPlace | None], dims: int, model: int) -> Mirror | None:
    """The daemon's mirror; asked for again when it was closed before it could be opened here, as among many it is."""
    for _ in range(TRIES):
        place = ask()
        if place is None:
            return None
        if (mirror := Mirror.attach(place, dims, model)) is not None:
            return mirror
    raise Busy("the daemon opens and closes its indexes faster than they can be read", "ask again")


class FollowedStores(Stores):
    """The stores of the daemon, for reading."""

    def __init__(self, folder: Path, ask: AskDaemon, ledger: FileId | None = None) -> None:
        super().__init__(folder, FollowedLedger(folder / "state.db", ledger))
        self.ask = ask
        self._workspaces: dict[str, FollowedWorkspace] = {}
        self._followed: dict[str, FollowedIndex] = {}
        self._opening = threading.Lock()

    def follow(self, state: DaemonState) -> None:
        """Take over which workspaces and models there are; a text index may have changed without a tick."""
        self._workspaces = {known[1].ns: known for known in state.workspaces}
        known, before = self._workspaces, self._followed.items()
        self._followed = {ns: one for ns, one in before if known.get(ns) == (one.id, one.workspace, one.remote)}
        for index in self._followed.values():
            index.text_seen = -1
        if (self.engine.address if self.engine is not None else None) != state.engine:
            self.engine = ChromaClient(*state.engine) if state.engine is not None else None
        self.model, self.former = self._model(state.model), self._model(state.former)
        self.multilingual = self._model(state.multilingual)
        self.question_vectors.clear()

    def _model(self, known: FollowedModel | None) -> ActiveModel | None:
        if known is None:
            return None
        embedder = DaemonEmbedder(known.id, known.name, known.fingerprint, known.dims, known.scale, self.ask)
        return ActiveModel(known.id, embedder)

    def read_ahead(self) -> None:
        """Open what the first questions would wait for, where there are few workspaces."""
        if len(self._workspaces) <= MOST_OPEN:
            for ns in list(self._workspaces):
                with suppress(MemdError):
                    index = self.index(ns)
                    index.text.postings().warm()
                    _ = index.columns, index.mirror

    def index(self, ns: str) -> FollowedIndex:
        self.expect(ns, self._workspaces)
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
