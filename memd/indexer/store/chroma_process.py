"""The process that has Chroma: a folder of its own, or a server. It answers its parent over a socket, and ends with it.

Chroma's calls hold the interpreter for as long as they take, and its native part can crash. Here both cost nobody
else anything. The only file that imports chromadb.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

NICE = 10
if __name__ == "__main__":
    # Before the import, which takes a second of a core. The thread that started it may be as nice already.
    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))

import chromadb  # noqa: E402
import httpx  # noqa: E402
from chromadb.config import Settings as ChromaSettings  # noqa: E402
from chromadb.errors import ChromaError  # noqa: E402

from memd.child import encode, serve  # noqa: E402
from memd.config.addresses import is_loopback  # noqa: E402
from memd.errors import DiskFull, MemdError, StoreBroken  # noqa: E402
from memd.failpoints import failpoint  # noqa: E402
from memd.indexer.model.pooling import Vectors  # noqa: E402
from memd.indexer.store import cache_folder  # noqa: E402

INDEX = {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32}
"""Chroma's defaults found half of the neighbours on hard data; these find 99 in 100."""

QUIET = ChromaSettings(anonymized_telemetry=False)

LOCK_SECONDS = 20.0
"""How long the process of a daemon that was killed may take to let go of the folder; then it hangs and is killed."""
BOUND = (ChromaError, ValueError, TypeError, OSError, sqlite3.Error, httpx.HTTPError)
"""The errors that Chroma raises where it does not crash."""

FEW_FILES = 320
"""With so many Chroma keeps 130 indexes, 300 MB if they are small; with the usual 20,000 a thousand took 3.3 GB."""

PAGE = 250
"""Rows and collections that a server is asked for at a time: Chroma's cloud gives 300, one's own server any number."""


MOST_SHOWN = 300
"""Characters of what a server says that go into an error."""
_secrets: list[str] = []
"""The values of headers, which no message repeats, though a server may."""


T = TypeVar("T")


class Damaged(Exception):
    """The collections cannot be used."""


class Collections:
    """Carries out what the parent asks, one request after the other."""

    prefix = ""
    """The beginning of every collection's name."""
    told: dict[str, str] | None = None
    """The metadata that a collection gets when it is made."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.collections: dict[str, Any] = {}

    def collection(self, name: str) -> Any:
        if name not in self.collections:
            found = self.client.get_or_create_collection(
                self.prefix + name, metadata=self.told, embedding_function=None, configuration={"hnsw": INDEX}
            )
            self.check_owner(found)
            self.collections[name] = found
        return self.collections[name]

    def check_owner(self, found: Any) -> None:
        """Refuse a collection of somebody else."""

    # --- what can be asked ----------------------------------------------------------------------------------------

    def ping(self) -> None:
        """It answers."""

    def add(self, name: str, digests: list[str], vectors: Vectors) -> None:
        failpoint("vectors-before-add")
        self.collection(name).upsert(ids=digests, embeddings=vectors)
        failpoint("vectors-after-add")

    def drop(self, name: str, digests: list[str]) -> None:
        self.collection(name).delete(ids=digests)
        failpoint("vectors-after-drop")

    def search(self, name: str, vector: Vectors, limit: int) -> list[tuple[str, float]]:
        found = self.collection(name).query(
            query_embeddings=vector.reshape(1, -1), n_results=limit, include=["distances"]
        )
        return [(digest, 1.0 - float(far)) for digest, far in zip(found["ids"][0], found["distances"][0], strict=True)]

    def digests(self, name: str) -> list[str]:
        return list(self.collection(name).get(include=[])["ids"])

    def counts(self) -> dict[str, int]:
        return {found.name: found.count() for found in self.client.list_collections()}

    def places(self, name: str) -> int:
        return 0

    def delete(self, name: str) -> None:
        self.collections.pop(name, None)
        self.client.delete_collection(self.prefix + name)

    def compact(self) -> None:
        """Give room back."""

    def close(self) -> None:
        """Nothing more comes."""


class FolderCollections(Collections):
    """A folder that this process alone has open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        problem = cache_folder.broken(folder)
        if problem:
            raise Damaged(problem)
        closed_well = bool(cache_folder.sums_of(folder))
        _prepare(folder)
        cache_folder.remove(folder)
        with few_files():
            super().__init__(chromadb.PersistentClient(str(folder), settings=QUIET))
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

    def places(self, name: str) -> int:
        """By the file with four bytes for each, which Chroma writes after every thousand changes."""
        (index,) = self.indexes(str(self.collection(name).id))
        lengths = self.folder / index / "length.bin"
        return lengths.stat().st_size // 4 if lengths.is_file() else 0

    def compact(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute("VACUUM")
        self.remove_orphans()

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


class ServerCollections(Collections):
    """A Chroma server, with collections that are this home's: their names say of which ledger, their owner who writes.

    Of the API only what one's own server, a distributed one and Chroma's cloud have in common.
    """

    def __init__(self, place: dict[str, Any]) -> None:
        self.place = place
        self.prefix = f"memd-{place['ledger']}-"
        self.told = {"memd_owner": place["owner"], "memd_host": place["host"]}
        url = place["url"]
        if is_loopback(url):
            os.environ["NO_PROXY"] = "*"
        secure = url.startswith("https:")
        client = chromadb.HttpClient(
            url, urlsplit(url).port or (443 if secure else 80), secure, read_headers(place["headers_env"]),
            settings=QUIET, tenant=place["tenant"], database=place["database"],
        )  # fmt: skip
        super().__init__(client)

    def check_owner(self, found: Any) -> None:
        """Two homes never write one collection: that of a copied home is another's."""
        told = found.metadata or {}
        if told.get("memd_owner") != self.place["owner"]:
            raise Damaged(
                f"{found.name} belongs to another memd, on {told.get('memd_host', 'an unknown machine')};"
                " if that is gone, memd stop and memd doctor --fix take it over"
            )

    def ping(self) -> None:
        self.client.heartbeat()

    def digests(self, name: str) -> list[str]:
        collection, found = self.collection(name), list[str]()
        while page := collection.get(include=[], limit=PAGE, offset=len(found))["ids"]:
            found += page
        return found

    def counts(self) -> dict[str, int]:
        mine = [found for found in self.listed() if found.name.startswith(self.prefix)]
        for found in mine:
            if self.place["take_over"] and (found.metadata or {}).get("memd_owner") != self.place["owner"]:
                self.client.delete_collection(found.name)
                mine = [one for one in mine if one is not found]
                continue
            self.check_owner(found)
        return {found.name.removeprefix(self.prefix): found.count() for found in mine}

    def listed(self) -> list[Any]:
        every: list[Any] = []
        while page := self.client.list_collections(limit=PAGE, offset=len(every)):
            every += page
        return every

    def delete(self, name: str) -> None:
        self.check_owner(self.collection(name))
        super().delete(name)


def read_headers(variable: str) -> dict[str, str]:
    """The headers in an environment variable, one a line; a wrong one is not repeated in the message."""
    text = os.environ.get(variable, "").strip() if variable else ""
    if variable and not text:
        raise Damaged(f"there are no headers in ${variable}")
    headers = {}
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (colon and name and value and line.isascii() and line.isprintable()):
            raise Damaged(f"${variable} must have lines such as: Authorization: Bearer …")
        headers[name] = value
        _secrets.extend([value, value.split()[-1]])
    return headers


def open_and_serve(link: socket.socket, opened: Callable[[], Collections]) -> None:
    """Open the collections, then answer until the parent closes its end, or is no more."""
    collections = _attempt(opened)
    if isinstance(collections, MemdError):
        with suppress(BrokenPipeError):
            link.sendall(encode((0, collections)))
        return
    serve(link, lambda operation, *args: _attempt(getattr(collections, operation), *args))
    collections.close()


def _attempt(work: Callable[..., T], *args: Any) -> T | MemdError:
    """The result, or the error that it raised, as it is told to the parent."""
    try:
        return work(*args)
    except (Damaged, *BOUND) as error:
        return _told(error)


def _told(error: Exception) -> StoreBroken | DiskFull:
    said = " ".join(str(error).split())
    for secret in _secrets:
        said = said.replace(secret, "…")
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


def main(descriptor: str, place: str) -> None:
    """`place` is a folder, or what `ChromaServer` of the parent says of a server, as JSON."""
    os.umask(0o077)
    # Those who stop the daemon mean this process too, but it has to outlive the last message.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=int(descriptor)) as link:
        if place.startswith("{"):
            open_and_serve(link, lambda: ServerCollections(json.loads(place)))
            # There is nothing to close here, and the parent waits two seconds at the most.
            os._exit(0)
        with _own(Path(place)):
            open_and_serve(link, lambda: FolderCollections(Path(place)))


if __name__ == "__main__":
    main(*sys.argv[1:])
