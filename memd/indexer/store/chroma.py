"""Chroma as the daemon sees it: where the collections are; and the folder of this home, which a process has."""

import logging
import signal
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from memd.child import END_SECONDS, Child, ChildGone
from memd.errors import DiskFull, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import cache_folder

log = logging.getLogger("memd.chroma")

OPEN_SECONDS = 120.0
NICE = 10
ANSWER_SECONDS = 120.0
"""How long the process may stand still over a call: on a busy machine it is slow, which is something else."""
REST_CLOSE_SECONDS = 60.0
"""How long it may take to close the folder where nobody waits: Chroma takes seconds to let a hundred collections go."""
INDEX = {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32}
"""Chroma's defaults found half of the neighbours on hard data; these find 99 in 100."""


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A text as a collection holds it: with what its first chunk is, for other programs to filter by."""

    digest: str
    vector: Vectors | None
    """None where only the collection has it."""
    document: str
    metadata: dict[str, Any]


class ChromaPlace(Protocol):
    """Where the collections are: opened when they are needed, given up when they are broken.

    Rows are known by the digest of their text. Every call may raise StoreBroken or DiskFull. Only the sender's thread
    of `vectors.py` waits long for one.
    """

    look_every: float | None = None
    """Seconds after which they are looked at though nothing was sent; None where only this home can change them."""

    def look(self, names: Iterable[str]) -> dict[str, int] | None:
        """The rows of collections of these names and others; None if they must be opened to know it.

        Of very many only some are counted.
        """

    def open(self) -> None:
        """Open them; StoreBroken if that fails for now."""

    def damage(self) -> str:
        """The damage that keeps them from being opened and can be mended; empty for none."""
        return ""

    def put_aside(self, why: str) -> None:
        """Give up what is there, so that the next `open` finds nothing."""

    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        """Add rows, or replace them."""

    def describe(self, name: str, rows: Sequence[CollectionRow]) -> list[str]:
        """Tell anew what some rows are, whose vectors only the collection has; returns those that are not there."""
        return [row.digest for row in rows]

    def drop(self, name: str, digests: Sequence[str]) -> tuple[int, int]:
        """Remove rows; returns for how many its index takes room now, and how many there are; 0 if nobody knows."""

    def digests(self, name: str) -> Iterable[str]:
        """Every row of a collection; none if there is no such one."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove collections, those that there are, so that nothing of them can be read any more."""

    def close(self, seconds: float) -> None:
        """Let go of them, in some seconds at the most, if they are open. Never fails."""


class ChromaGone(StoreBroken):
    """The process ended, or hangs, and so gave no answer."""


class ChromaFolder(ChromaPlace):
    """The folder of the collections in the state directory, and the process that has it while it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child: Child | None = None
        self._turn = threading.Lock()
        """Held by whoever sends."""

    def look(self, names: Iterable[str]) -> dict[str, int] | None:
        if self.child is not None:
            counts = self._call("counts")
        else:
            counts = cache_folder.counts(self.folder) if self.folder.exists() else {}
        return None if counts is None else dict.fromkeys(names, 0) | counts

    def open(self) -> None:
        """A folder that is damaged is put aside, and an empty one opened."""
        if problem := self._start():
            self.put_aside(problem)
            if problem := self._start():
                raise StoreBroken(f"the vector store cannot be made: {problem}", "memd doctor")

    def damage(self) -> str:
        return self._start() if self.folder.exists() else ""

    def _start(self) -> str:
        """Have a process open the folder; says what is wrong with it if it is damaged, and the process has ended then.

        StoreBroken if the process was killed meanwhile: that says nothing about the folder.
        """
        if self.child is not None:
            return ""
        child = self.child = Child("memd-chroma", "memd.indexer.store.chroma_process", str(self.folder), nice=NICE)
        try:
            _result(child, child.ready, OPEN_SECONDS)
        except (StoreBroken, DiskFull) as error:
            self.close(END_SECONDS)
            killed = isinstance(error, ChromaGone) and child.process.returncode == -signal.SIGKILL
            if killed or isinstance(error, DiskFull):
                raise
            return error.message
        return ""

    def put_aside(self, why: str) -> None:
        log.warning("the vector store is put aside and made again: %s", why)
        cache_folder.quarantine(self.folder.parent, self.folder)

    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        self._call("add", name, list(rows))

    def drop(self, name: str, digests: Sequence[str]) -> tuple[int, int]:
        places, rows = self._call("drop", name, list(digests))
        return places, rows

    def digests(self, name: str) -> list[str]:
        return list(self._call("digests", name))

    def delete(self, names: Iterable[str]) -> None:
        """By a process that ends with it: Chroma keeps the index of a deleted collection in memory."""
        self._call("delete", list(names))
        self.close(REST_CLOSE_SECONDS)
        self.open()

    def _call(self, operation: str, *args: Any) -> Any:
        with self._turn:
            if (child := self.child) is None:
                raise _lost("it was closed")
            answer = child.call(operation, *args)
        return _result(child, answer, ANSWER_SECONDS)

    def close(self, seconds: float) -> None:
        """Let the process close the folder; one that does not end in time is killed."""
        child, self.child = self.child, None
        if child is not None and not child.close(seconds):
            log.warning("the process of the vector store did not end in time and is killed")


def _result(child: Child, answer: Future[Any], seconds: float) -> Any:
    try:
        return child.result(answer, seconds)
    except ChildGone as error:
        raise _lost(str(error)) from error
    except TimeoutError as error:
        child.process.kill()
        raise _lost(str(error)) from None


def _lost(why: str) -> ChromaGone:
    return ChromaGone(f"the process of the vector store is gone: {why}", "memd starts it again by itself")
