"""Chroma in a child process, as the daemon sees it: started, asked, and ended. It has a folder, or asks a server."""

from __future__ import annotations

import hashlib
import json
import logging
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from pathlib import Path
from typing import Any

from memd.child import encode, receive, start_child
from memd.config.addresses import is_exposed
from memd.config.schema import VectorsSettings
from memd.errors import DiskFull, MemdError, StoreBroken
from memd.indexer.model.pooling import Vectors
from memd.indexer.store import chroma_folder
from memd.indexer.store.stores import quarantine
from memd.indexer.store.vector_rows import VectorHost

log = logging.getLogger("memd.chroma")

OPEN_SECONDS = 120.0
ANSWER_SECONDS = 120.0
"""Longer than any call takes on a busy machine: a process that takes longer hangs."""
SEARCH_SECONDS = 0.1
"""Comparing 100,000 vectors in memory takes 10 ms: a question does not wait much longer than that."""
LATE_SECONDS = 10.0
"""After an answer that was late, questions are not sent for so long."""
END_SECONDS = 2.0


class ChromaGone(StoreBroken):
    """The process ended, or hangs, and so gave no answer."""


class ChromaFolder:
    """The folder of the collections in the state directory; whoever opens it gets a process that has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._examined: ChromaChild | None = None
        """A process that found the folder sound, for whoever opens it next."""

    def counts(self) -> dict[str, int] | None:
        return chroma_folder.counts(self.folder) if self.folder.exists() else {}

    def open(self) -> ChromaChild:
        """A folder that is damaged is put aside, and an empty one opened."""
        if examined := self._examined:
            self._examined = None
            return examined
        child = ChromaChild(self.folder)
        if problem := child.opened():
            self.put_aside(problem)
            child = ChromaChild(self.folder)
            if problem := child.opened():
                raise StoreBroken(f"the vector store cannot be made: {problem}", "memd doctor")
        return child

    def damage(self) -> str:
        """What keeps the folder from being opened; empty when nothing does."""
        if not self.folder.exists():
            return ""
        child = ChromaChild(self.folder)
        problem = child.opened()
        self._examined = None if problem else child
        return problem

    def put_aside(self, why: str) -> None:
        log.warning("the vector store is put aside and made again: %s", why)
        quarantine(self.folder.parent, self.folder)


class ChromaServer:
    """A Chroma server, which a process asks that whoever opens it gets. Other homes may have collections there."""

    def __init__(self, settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> None:
        self.settings = settings
        self._place = {
            "url": settings.url.rstrip("/"), "tenant": settings.tenant, "database": settings.database,
            "headers_env": settings.headers_env, "ledger": ledger, "owner": _owner(state),
            "host": socket.gethostname(), "take_over": take_over,
        }  # fmt: skip

    def counts(self) -> dict[str, int] | None:
        return None

    def open(self) -> ChromaChild:
        url = self.settings.url
        if is_exposed(url) and not self.settings.plain_http:
            raise StoreBroken(
                f"{url} is another machine, and http:// lets others read and change vectors on the way",
                "use https://, or set vectors.plain_http = true for a network that you trust",
            )
        child = ChromaChild(json.dumps(self._place))
        if problem := child.opened():
            raise StoreBroken(f"the Chroma server {url} cannot be used: {problem}", "memd goes on by itself")
        return child

    def put_aside(self, why: str) -> None:
        """What a server has is not thrown away because it is out of reach; it is compared when it is back."""


def vector_host(settings: VectorsSettings, state: Path, ledger: str, take_over: bool = False) -> VectorHost:
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


class ChromaChild:
    """One process that has Chroma. It answers one question after the other; a thread takes in the answers."""

    def __init__(self, place: Path | str) -> None:
        self._link, self._process = _started(place)
        self._waiting: dict[int, Future[Any]] = {0: Future()}
        """Those who wait for an answer, by its number; the first says whether the folder was opened."""
        self._nth = 0
        self._gone = ""
        self._late_until = 0.0
        self._lock = threading.Lock()
        """Guards the above."""
        self._turn = threading.Lock()
        """Held by whoever sends."""
        self._receiver = threading.Thread(target=self._receive, name="memd-chroma", daemon=True)
        self._receiver.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def opened(self) -> str:
        """Wait until the folder is open; says what is wrong with it if it is damaged, and the process has ended then.

        StoreBroken if the process was killed meanwhile: that says nothing about the folder.
        """
        try:
            self._result(self._waiting[0], OPEN_SECONDS)
        except StoreBroken as error:
            self.close(END_SECONDS)
            if isinstance(error, ChromaGone) and self._process.returncode == -signal.SIGKILL:
                raise
            return error.message
        except DiskFull:
            self.close(END_SECONDS)
            raise
        return ""

    # --- what can be asked ----------------------------------------------------------------------------------------

    def add(self, name: str, digests: Sequence[str], vectors: Vectors) -> None:
        self._call("add", name, list(digests), vectors)

    def drop(self, name: str, digests: Sequence[str]) -> None:
        self._call("drop", name, list(digests))

    def digests(self, name: str) -> set[str]:
        return set(self._call("digests", name))

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

    def search(self, name: str, vector: Vectors, limit: int) -> list[tuple[str, float]] | None:
        if time.monotonic() < self._late_until:
            return None
        if not self._turn.acquire(blocking=False):
            return None
        try:
            asked = self._send("search", name, vector, limit)
        finally:
            self._turn.release()
        try:
            found: list[tuple[str, float]] = asked.result(SEARCH_SECONDS)
        except NotInTime:
            self._late_until = time.monotonic() + LATE_SECONDS
            raise _lost(f"it did not answer within {SEARCH_SECONDS:g} s") from None
        return found

    def _call(self, operation: str, *args: Any) -> Any:
        with self._turn:
            answer = self._send(operation, *args)
        return self._result(answer, ANSWER_SECONDS)

    def _send(self, operation: str, *args: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            if self._gone:
                raise _lost(self._gone)
            nth = self._nth = self._nth + 1
            self._waiting[nth] = answer
        try:
            self._link.sendall(encode((nth, operation, args)))
        except OSError:
            # It ended, or it hangs and takes nothing in any more; half a message cannot be taken back.
            self._process.kill()
        return answer

    def _result(self, answer: Future[Any], seconds: float) -> Any:
        try:
            return answer.result(seconds)
        except NotInTime:
            self._process.kill()
            raise _lost(f"it did not answer within {seconds:g} s") from None

    def _receive(self) -> None:
        """Hand out the answers, until there are no more."""
        with suppress(ConnectionError):
            while True:
                nth, result = receive(self._link)
                with self._lock:
                    answer = self._waiting.pop(nth)
                answer.set_exception(result) if isinstance(result, MemdError) else answer.set_result(result)
        why = _ending(self._process)
        with self._lock:
            self._gone = why
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.set_exception(_lost(why))

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self, seconds: float) -> None:
        """Say that nothing more comes, which lets it close the folder; a process that does not end is killed."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            log.warning("the process of the vector store did not end in time and is killed")
            self._process.kill()
            self._process.wait()
        self._receiver.join(END_SECONDS)
        self._link.close()


def _started(place: Path | str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    process, ours = start_child("memd.indexer.store.chroma_process", str(place))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_SECONDS), 0))
    return ours, process


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return "it closed its end"
    return f"it crashed (signal {-code})" if code < 0 else f"it ended with exit code {code}"


def _lost(why: str) -> ChromaGone:
    return ChromaGone(f"the process of the vector store is gone: {why}", "memd starts it again by itself")
