"""The process that has Chroma: it owns the folder, answers its parent over a socket, and ends when that closes.

Chroma's calls hold the interpreter for as long as they take, and its native part can crash. Here both cost nobody
else anything. The only file that imports chromadb.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

NICE = 10
if __name__ == "__main__":
    # Before the import, which takes a second of a core. The thread that started it may be as nice already.
    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))

import chromadb  # noqa: E402
import numpy as np  # noqa: E402
from chromadb.config import Settings as ChromaSettings  # noqa: E402
from chromadb.errors import ChromaError  # noqa: E402

from memd.failpoints import failpoint  # noqa: E402
from memd.indexer.store import checksums, chroma_folder  # noqa: E402
from memd.indexer.store.vector_wire import Header, read_message, write_message  # noqa: E402

INDEX = {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32}
"""Chroma's defaults found half of the neighbours on hard data; these find 99 in 100."""

LOCK_SECONDS = 20.0
"""How long the process of a daemon that was killed may take to let go of the folder; then it hangs and is killed."""
BOUND = (ChromaError, ValueError, TypeError, OSError, sqlite3.Error)
"""What Chroma raises where it does not crash."""


class Damaged(Exception):
    """The folder cannot be used."""


class ChromaServer:
    """Carries out what the parent asks, one request after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        problem = checksums.broken(folder)
        if problem:
            raise Damaged(problem)
        closed_well = bool(checksums.read(folder))
        _prepare(folder)
        checksums.remove(folder)
        self.client = chromadb.PersistentClient(str(folder), settings=ChromaSettings(anonymized_telemetry=False))
        self.collections: dict[str, Any] = {}
        if not closed_well:
            self.look()

    def look(self) -> None:
        """Read every collection as questions would: damaged files show it here, or crash the process."""
        for found in self.client.list_collections():
            first = found.get(limit=1, include=["embeddings"])
            if first["ids"]:
                nearest = min(10, found.count())
                found.query(query_embeddings=first["embeddings"], n_results=nearest, include=["distances"])

    def collection(self, name: str) -> Any:
        if name not in self.collections:
            self.collections[name] = self.client.get_or_create_collection(
                name, embedding_function=None, configuration={"hnsw": INDEX}
            )
        return self.collections[name]

    # --- what can be asked ----------------------------------------------------------------------------------------

    def ping(self, asked: Header, numbers: bytes) -> Header:
        return {}

    def add(self, asked: Header, numbers: bytes) -> Header:
        vectors = np.frombuffer(numbers, np.float32).reshape(len(asked["digests"]), -1)
        failpoint("vectors-before-add")
        self.collection(asked["name"]).upsert(ids=asked["digests"], embeddings=vectors)
        failpoint("vectors-after-add")
        return {}

    def drop(self, asked: Header, numbers: bytes) -> Header:
        self.collection(asked["name"]).delete(ids=asked["digests"])
        failpoint("vectors-after-drop")
        return {}

    def search(self, asked: Header, numbers: bytes) -> Header:
        vector = np.frombuffer(numbers, np.float32).reshape(1, -1)
        found = self.collection(asked["name"]).query(
            query_embeddings=vector, n_results=asked["limit"], include=["distances"]
        )
        return {"digests": found["ids"][0], "distances": [float(distance) for distance in found["distances"][0]]}

    def digests(self, asked: Header, numbers: bytes) -> Header:
        return {"digests": self.collection(asked["name"]).get(include=[])["ids"]}

    def counts(self, asked: Header, numbers: bytes) -> Header:
        return {"counts": {found.name: found.count() for found in self.client.list_collections()}}

    def delete(self, asked: Header, numbers: bytes) -> Header:
        self.collections.pop(asked["name"], None)
        self.client.delete_collection(asked["name"])
        return {}

    def compact(self, asked: Header, numbers: bytes) -> Header:
        with closing(sqlite3.connect(self.folder / "chroma.sqlite3", timeout=5)) as connection:
            connection.execute("VACUUM")
        return {}

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the folder so that the next one can trust it."""
        counts = self.counts({}, b"")["counts"]
        self.client.close()
        chroma_folder.write_counts(self.folder, counts)
        checksums.write(self.folder)


def serve(link: socket.socket, folder: Path) -> None:
    """Open the folder, then answer until the parent closes its end, or is no more."""
    try:
        server = ChromaServer(folder)
    except (Damaged, *BOUND) as error:
        with suppress(BrokenPipeError):
            write_message(link, _told(error))
        return
    with suppress(BrokenPipeError):
        write_message(link, {})
        while (message := read_message(link)) is not None:
            write_message(link, _answer(server, *message))
    server.close()


def _answer(server: ChromaServer, asked: Header, numbers: bytes) -> Header:
    operation: Callable[[Header, bytes], Header] = getattr(server, asked["op"])
    try:
        return {"nth": asked["nth"], **operation(asked, numbers)}
    except BOUND as error:
        return {"nth": asked["nth"], **_told(error)}


def _told(error: Exception) -> Header:
    return {"error": str(error), "full": "full" in str(error) or "No space" in str(error)}


def _own(folder: Path) -> IO[str]:
    """Make the folder this process's own; one that another process has is waited for."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = chroma_folder.lock_of(folder).open("a+")
    until = time.monotonic() + LOCK_SECONDS
    while not _locked(lock):
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


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _prepare(folder: Path) -> None:
    """Make an empty folder, unless there is one of this version."""
    if chroma_folder.right_format(folder):
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    chroma_folder.write_format(folder)


def main(descriptor: str, folder: str) -> None:
    os.umask(0o077)
    # Those who stop the daemon mean this process too, but it has to outlive the last message.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock = _own(Path(folder))
    with lock, socket.socket(fileno=int(descriptor)) as link:
        serve(link, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
