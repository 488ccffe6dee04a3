"""The vector collections (Chroma): a cache of the ledger's vectors, by chunk number."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings as ChromaSettings
from chromadb.errors import ChromaError, NotFoundError

from memd.errors import DiskFull, StoreBroken
from memd.failpoints import failpoint
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import checksums

FORMAT = 1
"""The version of the format; a folder of another version is built again."""

INDEX = {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32}
"""Chroma's defaults found half of the neighbours on hard data; these find 99 in 100."""

BATCH = 1_000
MARKER = "open.json"
PROBE_SECONDS = 60


class VectorStore:
    """The one Chroma client of the one process that may have it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _prepare(folder)
        # The marker is removed on a clean close. A process that died with the folder open may have left files that
        # crash the next one, which therefore opens a marked folder in a child first.
        (folder / MARKER).write_text(json.dumps({"pid": os.getpid()}))
        checksums.remove(folder)
        with _translated():
            self._client = chromadb.PersistentClient(str(folder), settings=_settings())

    def collection(self, workspace: int, model: int) -> Collection:
        with _translated():
            collection = self._client.get_or_create_collection(
                f"ws-{workspace}-model-{model}", embedding_function=None, configuration={"hnsw": INDEX}
            )
        return Collection(collection)

    def drop(self, workspace: int, keep_model: int | None = None) -> None:
        """Remove a workspace's collections, except the one of `keep_model`."""
        with _translated():
            for name in self._names():
                if name.startswith(f"ws-{workspace}-") and name != f"ws-{workspace}-model-{keep_model}":
                    self._client.delete_collection(name)

    def workspaces(self) -> set[int]:
        """The workspaces that have a collection."""
        with _translated():
            return {int(name.split("-")[1]) for name in self._names()}

    def _names(self) -> list[str]:
        return [collection.name for collection in self._client.list_collections()]

    def close(self, sound: bool = True) -> None:
        """Close the folder; without `sound` it stays marked, and is probed before it is opened again."""
        with _translated():
            self._client.close()
        if sound:
            checksums.write(self.folder)
            (self.folder / MARKER).unlink(missing_ok=True)


class Collection:
    """The vectors of one workspace, by one model."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def add(self, ids: Sequence[int], vectors: Vectors) -> None:
        for at in range(0, len(ids), BATCH):
            with _translated():
                failpoint("vectors-before-add")
                self._collection.upsert(
                    ids=[str(chunk) for chunk in ids[at : at + BATCH]], embeddings=vectors[at : at + BATCH]
                )
                failpoint("vectors-after-add")

    def drop(self, ids: Sequence[int]) -> None:
        for at in range(0, len(ids), BATCH):
            with _translated():
                self._collection.delete(ids=[str(chunk) for chunk in ids[at : at + BATCH]])
                failpoint("vectors-after-drop")

    def search(self, vector: Vectors, limit: int) -> list[tuple[int, float]]:
        """Chunk numbers with their cosine, nearest first."""
        with _translated():
            found = self._collection.query(
                query_embeddings=vector.reshape(1, -1), n_results=limit, include=["distances"]
            )
        nearest = zip(found["ids"][0], found["distances"][0], strict=True)
        return [(int(chunk), 1.0 - float(distance)) for chunk, distance in nearest]

    def count(self) -> int:
        with _translated():
            return int(self._collection.count())

    def ids(self) -> set[int]:
        with _translated():
            return {int(chunk) for chunk in self._collection.get(include=[])["ids"]}


def damage(folder: Path, suspect: bool = False) -> str:
    """What is wrong with a folder, found without opening it in this process; empty when nothing is."""
    if not folder.exists():
        return ""
    # The marker is left by a process that died with the folder open.
    return checksums.broken(folder) or (probe(folder) if suspect or (folder / MARKER).exists() else "")


def probe(folder: Path) -> str:
    """Open the folder in a child process, which a native crash may kill; empty when it is sound."""
    command = [sys.executable, "-m", "memd.indexer.store.vectors", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it did not open within {PROBE_SECONDS} s"
    if done.returncode < 0:
        return f"opening it crashed (signal {-done.returncode})"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
    return ""


def _look(folder: Path) -> None:
    """In the child: read every collection as the daemon would."""
    client = chromadb.PersistentClient(str(folder), settings=_settings())
    for collection in client.list_collections():
        first = collection.get(limit=1, include=["embeddings"])
        if first["ids"]:
            nearest = min(10, collection.count())
            collection.query(query_embeddings=first["embeddings"], n_results=nearest, include=["distances"])


def _prepare(folder: Path) -> None:
    """Make an empty folder, unless there is one of this version."""
    stamp = folder / "format.json"
    try:
        right = json.loads(stamp.read_text()).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        right = False
    if right:
        return
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, mode=0o700)
        stamp.write_text(json.dumps({"format": FORMAT}))
    except OSError as error:
        raise DiskFull(f"the vector store could not be made: {error}", "make room; memd goes on by itself") from error


def _settings() -> ChromaSettings:
    return ChromaSettings(anonymized_telemetry=False)


@contextmanager
def _translated() -> Iterator[None]:
    """Chroma's errors, and the panics of its native part, as memd's."""
    try:
        yield
    except NotFoundError as error:
        raise StoreBroken(f"a vector collection is missing: {error}", "memd doctor --fix") from error
    except (ChromaError, ValueError, TypeError, OSError) as error:
        if "full" in str(error) or "No space" in str(error):
            raise DiskFull(f"the vectors could not be written: {error}", "make room; memd goes on by itself") from error
        raise StoreBroken(f"the vector store failed: {error}", "memd doctor --fix") from error
    except BaseException as error:
        # A panic is raised past Exception and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise StoreBroken(f"the vector store panicked: {error}", "memd doctor --fix") from error


if __name__ == "__main__":
    _look(Path(sys.argv[1]))
