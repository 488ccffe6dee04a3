"""The stores as a question sees them: the ledger, the indexes of the workspaces, the models.

The daemon has the stores themselves (own_stores.py); a reader process follows what the daemon commits (followed.py).
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from sqlite3 import Connection
from typing import Generic, TypeVar

from memd.errors import MemdError, UnknownWorkspace, did_you_mean, in_shell
from memd.indexer.model.embedder import Embedder
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import catalog
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.chroma_server import ChromaClient, ServerVectors
from memd.indexer.store.columns import ChunkColumns
from memd.indexer.store.ledger import Ledger, LedgerState
from memd.indexer.store.mirror import Mirror
from memd.indexer.store.text import TextIndex
from memd.indexer.store.vector_table import Pieces
from memd.models import Workspace
from memd.notes.names import date_of
from memd.notes.parse import ParseCache
from memd.prose import composed

T = TypeVar("T")
VectorIndex = Mirror | ServerVectors
"""The vectors of a workspace: in memory, or in a server."""


@dataclass(slots=True)
class ActiveModel:
    """The embedder in use, and its number in the ledger."""

    id: int
    embedder: Embedder


FIRST_LOOKS = 30
"""So many looks at a workspace read the columns of what they look at only; a question looks once or twice."""


class ModelChanged(MemdError):
    """The model that a question began with is no longer in use; the question can be asked again."""


MODEL_TRIES = 3
"""How often a question is asked because another model took over meanwhile."""


class TextOutdated(MemdError):
    """What a question may be about was just replaced, and the text index follows; it can be asked again at once."""


OUTDATED_SECONDS = 0.5
"""So long a question waits for a text index that is outdated; with a full disk it may be so for hours."""
OUTDATED_PAUSE = 0.002


class Loaded(Generic[T]):
    """Threads that want the value at once load it once. Whoever has got it can use it after it was let go."""

    def __init__(self, load: Callable[[], T]) -> None:
        self.load = load
        """Makes the value as it would be now, and does not keep it."""
        self.present: T | None = None
        """The value if it is loaded; only changed here."""
        self._lock = threading.Lock()

    def get(self) -> T:
        if (value := self.present) is None:
            with self._lock:
                value = self.present = self.load() if self.present is None else self.present
        return value

    def replace(self, make: Callable[[T | None], T]) -> None:
        """Make another value of the one that is loaded, if any; nobody loads one meanwhile."""
        with self._lock:
            self.present = make(self.present)

    def change(self, work: Callable[[T], None]) -> None:
        """Change the value if it is loaded; one that is being loaded is waited for, since it may lack the change."""
        with self._lock:
            if self.present is not None:
                work(self.present)

    def drop(self) -> T | None:
        """Let the value go; returns it."""
        with self._lock:
            value, self.present = self.present, None
            return value


class WorkspaceIndex(ABC):
    """A workspace as a question needs it: its words, its files, its vectors."""

    def __init__(self, stores: "Stores", number: int, workspace: Workspace, remote: bool = False) -> None:
        self.id = number
        self.workspace = workspace
        self.parse_cache = ParseCache()
        self.skipped: dict[str, str] = {}
        """Files that the last scan skipped, and why; only the daemon scans."""
        self.looked_into: dict[str, FileRow] = {}
        """Files that were read for words which the index does not know, each as it was then."""
        self.remote = remote
        """Whether a Chroma server has its vectors, and nobody else."""
        self._remote: dict[int, ServerVectors] = {}
        self._named: tuple[int, tuple[int, int], list[tuple[str, int]]] = (-1, (0, 0), [])
        """The clock's count and the stamp of the files when their names were last looked at, and the names."""
        self.text_since = -1
        """The clock's count since which the text index is as it is."""
        self._stores = stores
        self._columns: ChunkColumns | None = None
        self._looks = 0
        """How often its columns were wanted."""
        self._following = threading.Lock()

    @property
    def reader(self) -> Connection:
        """This thread's connection to the ledger."""
        return self._stores.reader

    @property
    def columns(self) -> ChunkColumns:
        """What ranks its chunks, as the ledger has it now."""
        with self._following:
            known = self._columns
            self._columns = ChunkColumns.read(self.reader, self.id) if known is None else known.followed(self.reader)
            return self._columns

    def columns_of(self, chunks: Collection[int]) -> ChunkColumns:
        """The columns, or those that some chunks need: reading all takes 4 µs a chunk, which the first looks need not
        wait for."""
        self._looks += 1
        if self._columns is None and self._looks < FIRST_LOOKS:
            return ChunkColumns.of_memories(self.reader, self.id, chunks)
        return self.columns

    def is_of(self, state: LedgerState) -> bool:
        """Whether its text index and its columns are not older nor newer than a state of the ledger."""
        columns = self._columns
        newer = self.text_since > state.seq or (columns is not None and columns.number > state.change)
        return not newer and self.id not in state.outdated

    def drop_columns(self) -> None:
        """Let the columns go; the first looks are first ones again."""
        self._columns, self._looks = None, 0

    @property
    def bring_back(self) -> str:
        """What to do while its directory is gone."""
        moved = "if it was moved, change its path in config.toml, then memd restart"
        return f"bring it back; {moved}; or: memd remove {in_shell(self.workspace.ns)}"

    @property
    def place(self) -> dict[str, str]:
        """Its name and its directory, as in results."""
        return {"ns": self.workspace.ns, "root": str(self.workspace.root)}

    @property
    @abstractmethod
    def text(self) -> TextIndex:
        """The text index; TextBroken when it is damaged, or is not what the ledger says."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, FileRow]:
        """The ledger's rows of its files, by path. It never changes: another one takes its place."""

    @property
    def searched(self) -> int:
        """How many files have a text that is searched."""
        return sum(not row.left_out for row in self.files.values())

    def known_files(self) -> Mapping[str, FileRow]:
        """The rows of the files for one look at many workspaces: rows that are not loaded may be read and not kept."""
        return self.files

    def names(self) -> list[tuple[str, int]]:
        """The names of files and their numbers, except dates, which say nothing that the notes do not know."""
        ledger, (seen, known, named) = self._stores.ledger, self._named
        if (seq := ledger.seq_seen()) != seen:
            # Not at every question: counting the files takes longer than all else about names.
            stamp = catalog.files_stamp(ledger.reader, self.id)
            if stamp != known:
                paths = [(path, number) for path, number in catalog.paths(ledger.reader, self.id) if not date_of(path)]
                named = [(composed(PurePosixPath(path).stem).casefold(), number) for path, number in paths]
            self._named = seq, stamp, named
        return named

    @abstractmethod
    def local_mirror(self, model: ActiveModel) -> Mirror | None:
        """The vectors of a model that are on this machine."""

    def mirror_of(self, model: ActiveModel) -> VectorIndex | None:
        """The vectors of a model; those for other languages are never in a server."""
        stores = self._stores
        foreign = stores.multilingual is not None and stores.multilingual.id == model.id
        if stores.engine is None or not self.remote or foreign:
            return self.local_mirror(model)
        known = self._remote.get(model.id)
        if known is None or known.client is not stores.engine:
            dims = model.embedder.dims
            known = self._remote[model.id] = ServerVectors(stores.engine, stores.ledger, self.id, model.id, dims)
        return known

    @property
    def mirror(self) -> VectorIndex | None:
        """The vectors of the model in use; None while there is none."""
        model = self._stores.model
        return self.mirror_of(model) if model is not None else None

    @property
    def foreign(self) -> Mirror | None:
        """The vectors of the model for other languages; None while it is not needed."""
        model = self._stores.multilingual
        return self.local_mirror(model) if model is not None else None

    def vectors_of(self, model: int) -> VectorIndex | None:
        """The vectors of a model by its number; None when it is no longer in use."""
        return next((self.mirror_of(one) for one in self._stores.models if one.id == model), None)


Indexes = Sequence[WorkspaceIndex]
"""The workspaces that someone asks about."""


class Stores:
    """The stores as a question needs them."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self.indexes: Mapping[str, WorkspaceIndex] = {}
        self.model: ActiveModel | None = None
        self.former: ActiveModel | None = None
        """The model before, while the vectors of the one in use are being made."""
        self.multilingual: ActiveModel | None = None
        """The model for other languages, while a workspace needs it."""
        self.question_vectors: dict[tuple[int, str], Future[Vectors]] = {}
        """The last questions' vectors, made or on their way, by model and text: each a matrix of one row."""
        self.pieces: dict[int, dict[int, Pieces]] = {}
        """By model and chunk, the vectors of a chunk's pieces that were compared lately."""
        self.engine: ChromaClient | None = None
        """The server that has the vectors of some workspaces."""
        self.link_similarity = 0.8
        """How much alike two memories must be to be linked."""
        self._outdated = -1, 0.0
        """The clock's count at which a text index was last found to be outdated, and until when that is waited for."""

    @property
    def reader(self) -> Connection:
        """The ledger as this thread reads it."""
        return self.ledger.reader

    def in_snapshot(self, work: Callable[[], T]) -> tuple[int, T]:
        """Read in one state of the ledger, with text indexes that hold what it says; and the clock's count in it."""
        tries = MODEL_TRIES
        while True:
            try:
                with self.ledger.snapshot():
                    return self.ledger.seq_seen(), work()
            except TextOutdated:
                time.sleep(OUTDATED_PAUSE)
            except ModelChanged:
                if not (tries := tries - 1):
                    raise

    def refuse_outdated(self, indexes: Iterable[WorkspaceIndex]) -> None:
        """TextOutdated if a workspace's text index or columns are not those of the snapshot, and soon will be."""
        state = self.ledger.state
        if not self.reader.in_transaction or all(index.is_of(state) for index in indexes):
            return
        if state.seq != self._outdated[0]:
            self._outdated = state.seq, time.monotonic() + OUTDATED_SECONDS
        if time.monotonic() < self._outdated[1]:
            raise TextOutdated("a note was just replaced", "ask again")

    def index(self, ns: str) -> WorkspaceIndex:
        """A workspace by its name; UnknownWorkspace if there is none."""
        return self.expect(ns, self.indexes)

    def expect(self, ns: str, known: Mapping[str, T]) -> T:
        """What is known by the name of a workspace; a name that none has is refused."""
        ns = ns if ns in known else next((name for name in known if composed(name) == composed(ns)), ns)
        if ns not in known:
            names = ", ".join(sorted(known)) or "none yet"
            meant = did_you_mean(ns, known)
            raise UnknownWorkspace(f"no workspace is called `{ns}` (known: {names}){meant}", "memd workspaces")
        return known[ns]

    def text_folder(self, number: int) -> Path:
        return self.folder / "text" / str(number)

    @property
    def serving(self) -> ActiveModel | None:
        """The model that questions are embedded with."""
        return self.former or self.model

    @property
    def models(self) -> list[ActiveModel]:
        """All that are loaded."""
        return [model for model in (self.model, self.former, self.multilingual) if model is not None]

    def is_partly_embedded(self, index: WorkspaceIndex) -> bool:
        """Whether some chunks of a workspace have a vector of the model that answers, and some have none."""
        made = index.vectors_of(self.serving.id) if self.serving is not None else None
        return 0 < len(made or ()) < catalog.chunk_count(self.reader, index.id)
