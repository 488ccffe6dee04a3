"""Chroma as the daemon sees it: where the collections are, and the process that has them, started, asked and ended."""

from __future__ import annotations

import logging
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memd.child import END_SECONDS, Child, ChildGone
from memd.errors import DiskFull, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import cache_folder

log = logging.getLogger("memd.chroma")

OPEN_SECONDS = 120.0
ANSWER_SECONDS = 120.0
"""How long the process may stand still over a call: on a busy machine it is slow, which is something else."""
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


class ChromaRows(ABC):
    """Rows in collections, by the digest of their text. Every call may raise StoreBroken or DiskFull.

    Only the sender's thread of `vectors.py` waits long for one.
    """

    @abstractmethod
    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        """Add rows, or replace them."""

    def describe(self, name: str, rows: Sequence[CollectionRow]) -> list[str]:
        """Tell anew what some rows are, whose vectors only the collection has; returns those that are not there."""
        return [row.digest for row in rows]

    @abstractmethod
    def drop(self, name: str, digests: Sequence[str]) -> None:
        """Remove rows."""

    @abstractmethod
    def held(self, name: str, digests: Sequence[str]) -> set[str]:
        """Those of some texts that are there."""

    @abstractmethod
    def page(self, name: str, offset: int, most: int) -> list[str]:
        """Some of all texts."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The rows of each collection there is."""

    def places(self, name: str) -> int:
        """The rows for which its index takes room, those that were dropped with them; 0 if nobody knows."""
        return 0

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a collection."""

    @abstractmethod
    def compact(self) -> None:
        """Give back the room of what was deleted, so that nothing of it can be read any more."""

    @abstractmethod
    def ping(self) -> None:
        """Wait until it answers, as long as any call may take."""

    @abstractmethod
    def close(self, seconds: float) -> None:
        """Let go of the rows, in some seconds at the most. Never fails."""


class ChromaGone(StoreBroken):
    """The process ended, or hangs, and so gave no answer."""


class ChromaProcess(ChromaRows):
    """A process that has the collections of a folder. Calls may come from any thread."""

    def __init__(self, folder: Path) -> None:
        self._child = Child("memd-chroma", "memd.indexer.store.chroma_process", str(folder))
        self._turn = threading.Lock()
        """Held by whoever sends."""

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def opened(self) -> str:
        """Wait until the folder is open; says what is wrong with it if it is damaged, and the process has ended then.

        StoreBroken if the process was killed meanwhile: that says nothing about the folder.
        """
        try:
            self._result(self._child.ready, OPEN_SECONDS)
        except (StoreBroken, DiskFull) as error:
            self.close(END_SECONDS)
            killed = isinstance(error, ChromaGone) and self._child.process.returncode == -signal.SIGKILL
            if killed or isinstance(error, DiskFull):
                raise
            return error.message
        return ""

    def add(self, name: str, rows: Sequence[CollectionRow]) -> None:
        self._call("add", name, list(rows))

    def drop(self, name: str, digests: Sequence[str]) -> None:
        self._call("drop", name, list(digests))

    def held(self, name: str, digests: Sequence[str]) -> set[str]:
        return set(self._call("held", name, list(digests)))

    def page(self, name: str, offset: int, most: int) -> list[str]:
        return list(self._call("page", name, offset, most))

    def counts(self) -> dict[str, int]:
        return dict(self._call("counts"))

    def places(self, name: str) -> int:
        return int(self._call("places", name))

    def delete(self, name: str) -> None:
        self._call("delete", name)

    def compact(self) -> None:
        self._call("compact")

    def ping(self) -> None:
        self._call("ping")

    def _call(self, operation: str, *args: Any) -> Any:
        with self._turn:
            answer = self._child.call(operation, *args)
        return self._result(answer, ANSWER_SECONDS)

    def _result(self, answer: Future[Any], seconds: float) -> Any:
        try:
            return self._child.result(answer, seconds)
        except ChildGone as error:
            raise _lost(str(error)) from error
        except TimeoutError as error:
            self._child.process.kill()
            raise _lost(str(error)) from None

    def close(self, seconds: float) -> None:
        """Let it close the folder, in some seconds at the most; a process that does not end is killed. Never fails."""
        if not self._child.close(seconds):
            log.warning("the process of the vector store did not end in time and is killed")


def _lost(why: str) -> ChromaGone:
    return ChromaGone(f"the process of the vector store is gone: {why}", "memd starts it again by itself")


# --- where the collections are --------------------------------------------------------------------------------


class ChromaPlace(ABC):
    """Where the collections are: opened when they are needed, given up when they are broken."""

    look_every: float | None = None
    """Seconds after which they are looked at though nothing was sent; None where only this home can change them."""

    @abstractmethod
    def look(self, names: Iterable[str]) -> dict[str, int] | None:
        """The rows of collections of these names and others, known without opening them; None if nobody knows.

        Of very many only some are counted.
        """

    @abstractmethod
    def open(self) -> ChromaRows:
        """Open them; StoreBroken if that fails for now."""

    def damage(self) -> str:
        """The damage that keeps them from being opened and can be mended; empty for none."""
        return ""

    @abstractmethod
    def put_aside(self, why: str) -> None:
        """Give up what is there, so that the next `open` finds nothing."""


class ChromaFolder(ChromaPlace):
    """The folder of the collections in the state directory; whoever opens it gets a process that has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._examined: ChromaProcess | None = None
        """A process that found the folder sound, for whoever opens it next."""

    def look(self, names: Iterable[str]) -> dict[str, int] | None:
        counts = cache_folder.counts(self.folder) if self.folder.exists() else {}
        return None if counts is None else dict.fromkeys(names, 0) | counts

    def open(self) -> ChromaProcess:
        """A folder that is damaged is put aside, and an empty one opened."""
        if self._examined is None and (problem := self._examine()):
            self.put_aside(problem)
            if problem := self._examine():
                raise StoreBroken(f"the vector store cannot be made: {problem}", "memd doctor")
        examined, self._examined = self._examined, None
        assert examined is not None
        return examined

    def damage(self) -> str:
        return self._examine() if self.folder.exists() else ""

    def _examine(self) -> str:
        child = ChromaProcess(self.folder)
        problem = child.opened()
        self._examined = None if problem else child
        return problem

    def put_aside(self, why: str) -> None:
        log.warning("the vector store is put aside and made again: %s", why)
        cache_folder.quarantine(self.folder.parent, self.folder)
