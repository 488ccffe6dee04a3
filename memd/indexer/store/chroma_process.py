"""The process that has Chroma, with a folder of its own. It answers its parent over a socket, and ends with it.

Chroma's calls hold the interpreter for as long as they take, and its native part can crash. Here both cost nobody
else anything. The only file that imports chromadb.
"""

import fcntl
import os
import resource
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import chromadb
from chromadb.config import Settings as ChromaSettings
from chromadb.errors import ChromaError

from memd.child import serve
from memd.errors import DiskFull, MemdError, StoreBroken
from memd.failpoints import failpoint
from memd.indexer.store import cache_folder
from memd.indexer.store.chroma import INDEX, CollectionRow

QUIET = ChromaSettings(anonymized_telemetry=False)

LOCK_SECONDS = 20.0
"""How long the process of a daemon that was killed may take to let go of the folder; then it hangs and is killed."""
BOUND = (ChromaError, ValueError, TypeError, OSError, sqlite3.Error)
"""The errors that Chroma raises where it does not crash."""

FEW_FILES = 320
"""With so many Chroma keeps 130 indexes, 300 MB if they are small; with the usual 20,000 a thousand took 3.3 GB."""

FORGET = "DELETE FROM embedding_metadata_array WHERE id NOT IN (SELECT id FROM embeddings); VACUUM"
"""Without it Chroma takes the tags of deleted rows for those of the next ones, which get the same numbers."""

MOST_SHOWN = 300
"""Characters of what Chroma says that go into an error."""


T = TypeVar("T")


class Damaged(Exception):
    """The collections cannot be used."""


class Collections:
    """A folder that this process alone has open. Carries out what the parent asks, one request after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        problem = cache_folder.broken(folder)
        if problem:
            raise Damaged(problem)
        closed_well = bool(cache_folder.sums_of(folder))
        _prepare(folder)
        cache_folder.remove(folder)
        with few_files():
            self.client = chromadb.PersistentClient(str(folder), settings=QUIET)
        self.remove_orphans()
        if not closed_well:
            self.look()

    def look(self) -> None:
        """Read every collection as questions would: damaged files show it here, or crash the process.

        A thousand of them take a minute. If the daemon ends meanwhile, so does this process, and the next one looks.
        """
        daemon = os.getppid()
        for found in self.client.list_collections():
            if os.getppid() != daemon:
                raise SystemExit
            first = found.get(limit=1, include=["embeddings"])
            if first["ids"]:
                nearest = min(10, found.count())
                found.query(query_embeddings=first["embeddings"], n_results=nearest, include=["distances"])

    def collection(self, name: str) -> Any:
        hnsw = {"hnsw": INDEX}
        return self.client.get_or_create_collection(name, embedding_function=None, configuration=hnsw)

    # --- what can be asked ----------------------------------------------------------------------------------------

    def add(self, name: str, rows: list[CollectionRow]) -> None:
        failpoint("vectors-before-add")
        self.collection(name).upsert(
            ids=[row.digest for row in rows], embeddings=[row.vector for row in rows],
            documents=[row.document for row in rows], metadatas=[row.metadata for row in rows],
        )  # fmt: skip
        failpoint("vectors-after-add")

    def drop(self, name: str, digests: list[str]) -> tuple[int, int]:
        collection = self.collection(name)
        collection.delete(ids=digests)
        failpoint("vectors-after-drop")
        return self.places(str(collection.id)), collection.count()

    def digests(self, name: str) -> list[str]:
        return list(self.collection(name).get(include=[])["ids"])

    def counts(self) -> dict[str, int]:
        return {found.name: found.count() for found in self.client.list_collections()}

    def delete(self, names: list[str]) -> None:
        """With every trace: Chroma leaves the vectors in folders of their own, the tags, the texts in free pages."""
        for name in {found.name for found in self.client.list_collections()} & set(names):
            self.client.delete_collection(name)
        with closing(self.connect()) as connection:
            connection.executescript(FORGET)
        self.remove_orphans()

    def places(self, collection: str) -> int:
        """The rows for which its index takes room, those that were dropped with them: by the file with four bytes for
        each, which Chroma writes after every thousand changes."""
        (index,) = self.indexes(collection)
        lengths = self.folder / index / "length.bin"
        return lengths.stat().st_size // 4 if lengths.is_file() else 0

    def remove_orphans(self) -> None:
        """Remove the folders of indexes whose collection was deleted; Chroma leaves them, with all vectors."""
        known = self.indexes()
        for folder in self.folder.iterdir():
            if folder.is_dir() and folder.name not in known:
                shutil.rmtree(folder)

    def indexes(self, collection: str = "%") -> set[str]:
        """The folders of the indexes of one collection or of all."""
        query = "SELECT id FROM segments WHERE scope = 'VECTOR' AND collection LIKE ?"
        with closing(self.connect()) as connection:
            return {name for (name,) in connection.execute(query, (collection,))}

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "chroma.sqlite3", timeout=5)

    def close(self) -> None:
        """Leave the folder so that the next one can trust it."""
        counts = self.counts()
        self.client.close()
        cache_folder.write_counts(self.folder, counts)
        cache_folder.write(self.folder)


@contextmanager
def few_files() -> Iterator[None]:
    """Have Chroma believe that it may open few files: it keeps indexes in memory by how many it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, FEW_FILES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_and_serve(link: socket.socket, folder: Path) -> None:
    """Open the collections, then answer until the parent closes its end, or is no more."""
    collections = _attempt(Collections, folder)
    if isinstance(collections, MemdError):
        # The parent hears of it, and closes its end.
        serve(link, lambda *_: None, ready=collections)
        return
    serve(link, lambda operation, *args: _attempt(getattr(collections, operation), *args))
    collections.close()


def _attempt(work: Callable[..., T], *args: Any) -> T | MemdError:
    """The result, or the error that it raised, as it is told to the parent."""
    try:
        return work(*args)
    except (Damaged, *BOUND) as error:
        said = " ".join(str(error).split())
        told = said[:MOST_SHOWN] or type(error).__name__
        if "full" in said or "No space" in said:
            return DiskFull(f"the vectors could not be written: {told}", "make room; memd goes on by itself")
        return StoreBroken(f"the vector store failed: {told}", "memd goes on by itself; memd doctor tells more")


def _own(folder: Path) -> IO[str]:
    """Make the folder this process's own; one that another process has is waited for."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = cache_folder.lock_of(folder).open("a+")
    until = time.monotonic() + LOCK_SECONDS
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        if time.monotonic() > until:
            # It was told to end when its daemon ended, and it does not: it hangs. Who holds the lock lives, so the
            # number is still its own.
            lock.seek(0)
            with suppress(ValueError, ProcessLookupError):
                os.kill(int(lock.read()), signal.SIGKILL)
        time.sleep(0.05)
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _prepare(folder: Path) -> None:
    """Make an empty folder, unless there is one of this version."""
    if cache_folder.format_of(folder) == cache_folder.CHROMA_FORMAT:
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    cache_folder.write_format(folder, cache_folder.CHROMA_FORMAT)


def main(link: socket.socket, folder: str) -> None:
    os.umask(0o077)
    # Those who stop the daemon mean this process too, but it has to outlive the last message.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with link, _own(Path(folder)):
        open_and_serve(link, Path(folder))
