"""Chroma as the daemon sees it: where the collections are, and the process that has them, started, asked and ended."""

from __future__ import annotations

import hashlib
import json
import logging
import signal
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from memd.child import END_SECONDS, Child, ChildGone
from memd.config.addresses import is_exposed
from memd.config.schema import VectorsSettings
from memd.errors import DiskFull, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import cache_folder

log = logging.getLogger("memd.chroma")

OPEN_SECONDS = 120.0
ANSWER_SECONDS = 120.0
"""How long the process may stand still over a call: on a busy machine it is slow, which is something else."""
SEARCH_SECONDS = 0.1
"""Comparing 100,000 vectors in memory takes 10 ms: a question does not wait much longer than that."""
LATE_SECONDS = 10.0
"""After an answer that was late, questions are not sent for so long."""


class ChromaGone(StoreBroken):
    """The process ended, or hangs, and so gave no answer."""


class ChromaProcess:
    """A process that has the collections: rows of vectors by the digest of their text.

    Every call may raise StoreBroken or DiskFull, and may come from any thread. Only the sender's thread of `vectors.py`
    waits long for one.
    """

    def __init__(self, place: Path | str) -> None:
        self._child = Child("memd-chroma", "memd.indexer.store.chroma_process", str(place))
        self._turn = threading.Lock()
        """Held by whoever sends."""
        self._late_until = 0.0

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

    def add(self, name: str, digests: Sequence[str], vectors: Vectors) -> None:
        self._call("add", name, list(digests), vectors)

    def drop(self, name: str, digests: Sequence[str]) -> None:
        self._call("drop", name, list(digests))

    def digests(self, name: str) -> set[str]:
        return set(self._call("digests", name))

    def counts(self) -> dict[str, int]:
        """The rows of each collection there is."""
        return dict(self._call("counts"))

    def places(self, name: str) -> int:
        """The rows for which its index takes room, those that were dropped with them; 0 if nobody knows."""
        return int(self._call("places", name))

    def delete(self, name: str) -> None:
        self._call("delete", name)

    def compact(self) -> None:
        """Give back the room of what was deleted, so that nothing of it can be read any more."""
        self._call("compact")

    def ping(self) -> None:
        """Wait until it answers, as long as any call may take."""
        self._call("ping")

    def search(self, name: str, vector: Vectors, limit: int) -> list[tuple[str, float]] | None:
        """Digests with their cosine, nearest first; None while others are asking. StoreBroken if the answer is late."""
        if time.monotonic() < self._late_until or not self._turn.acquire(blocking=False):
            return None
        try:
            asked = self._child.call("search", name, vector, limit)
        finally:
            self._turn.release()
        try:
            found: list[tuple[str, float]] = asked.result(SEARCH_SECONDS)
        except ChildGone as error:
            raise _lost(str(error)) from error
        except TimeoutError:
            self._late_until = time.monotonic() + LATE_SECONDS
            raise _lost(f"it did not answer within {SEARCH_SECONDS:g} s") from None
        return found

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

    def counts(self) -> dict[str, int] | None:
        """The rows of each collection, known without opening them; None if that cannot be trusted."""
        return None

    @abstractmethod
    def open(self) -> ChromaProcess:
        """A process that has them; StoreBroken if that fails for now."""

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

    def counts(self) -> dict[str, int] | None:
        return cache_folder.counts(self.folder) if self.folder.exists() else {}

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


class ChromaServer(ChromaPlace):
    """A Chroma server, which a process asks that whoever opens it gets. Other homes may have collections there."""

    def __init__(self, settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> None:
        self.settings = settings
        self._place = {
            "url": settings.url.rstrip("/"), "tenant": settings.tenant, "database": settings.database,
            "headers_env": settings.headers_env, "ledger": ledger, "owner": _owner(state),
            "host": socket.gethostname(), "take_over": take_over,
        }  # fmt: skip

    def open(self) -> ChromaProcess:
        url = self.settings.url
        if is_exposed(url) and not self.settings.plain_http:
            raise StoreBroken(
                f"{url} is another machine, and http:// lets others read and change vectors on the way",
                "use https://, or set vectors.plain_http = true for a network that you trust",
            )
        child = ChromaProcess(json.dumps(self._place))
        if problem := child.opened():
            raise StoreBroken(f"the Chroma server {url} cannot be used: {problem}", "memd goes on by itself")
        return child

    def put_aside(self, why: str) -> None:
        """A collection on a server is not thrown away because it is out of reach; it is compared when it is back."""


def chroma_place(settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> ChromaPlace:
    """Where the settings have the collections."""
    if settings.engine == "server":
        return ChromaServer(settings, state, ledger, take_over)
    return ChromaFolder(state / "chroma")


def _owner(state: Path) -> str:
    """This home on this machine, whatever the machine is called today."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii")
    except OSError:
        machine = socket.gethostname()
    return hashlib.sha256(f"{machine.strip()}\n{state.resolve()}".encode()).hexdigest()[:16]
