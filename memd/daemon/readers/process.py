"""A reader process: answers questions from the files of the daemon that started it, and ends when the daemon does."""

from __future__ import annotations

import errno
import gc
import itertools
import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memd.child import encode, receive
from memd.daemon.readers.messages import CallResult, DaemonCall, ReadCall, ReaderGone, Ready, load_work
from memd.errors import LedgerMoved, MemdError
from memd.indexer.model.pooling import Vectors
from memd.indexer.query import search
from memd.indexer.store.followed import DaemonState, FollowedStores
from memd.indexer.store.ledger import FileId
from memd.indexer.store.mirror import MirrorPlace

log = logging.getLogger("memd.reader")

THREADS = 4
"""A question that takes long does not hold up the others."""


class ReaderProcess:
    """Runs what the daemon sends, each in a snapshot of the ledger."""

    def __init__(self, connection: socket.socket, state: Path, ledger: FileId) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._stores = FollowedStores(state, self, ledger)
        self._threads = ThreadPoolExecutor(THREADS, "memd-reader")

    def serve(self) -> None:
        """Until the daemon closes its end, in whatever way."""
        self._send(Ready())
        while True:
            match receive(self._connection):
                case ReadCall() as call:
                    self._threads.submit(self._run, call)
                case CallResult(number, value, error):
                    waiting = self._waiting.pop(number)
                    waiting.set_result(value) if error is None else waiting.set_exception(error)
                case DaemonState() as state:
                    self._stores.follow(state)
                    self._threads.submit(self._stores.read_ahead)
                case Ready():
                    self._send(Ready())

    def _run(self, call: ReadCall) -> None:
        try:
            with self._stores.snapshot() as seq:
                work, args, kwargs = load_work(call.work, self._stores)
                answer = encode(CallResult(call.number, work(*args, **kwargs), seq=seq))
        except MemdError as error:
            answer = encode(CallResult(call.number, error=error))
        except Exception as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM:
                # The daemon asks elsewhere, and starts another reader.
                os._exit(1)
            log.exception("a question failed in a reader")
            # The daemon tries it by itself, and finds out what it means.
            answer = encode(CallResult(call.number, error=ReaderGone(f"a question failed in a reader: {error!r}")))
        self._send_encoded(answer)

    def _send(self, message: Any) -> None:
        self._send_encoded(encode(message))

    def _send_encoded(self, content: bytes) -> None:
        with self._sending:
            self._connection.sendall(content)

    # --- what the daemon does for it ----------------------------------------------------------------------------

    def _begin(self, name: str, *args: Any) -> Future[Any]:
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        self._send(DaemonCall(number, name, args))
        return answer

    def _ask(self, name: str, *args: Any) -> Any:
        return self._begin(name, *args).result()

    def embed(self, model: int, texts: Sequence[str]) -> Future[Vectors]:
        return self._begin("embed", model, list(texts))

    def count_tokens(self, model: int, text: str) -> int:
        return int(self._ask("count_tokens", model, text))

    def mirror(self, ns: str, model: int) -> MirrorPlace | None:
        place: MirrorPlace | None = self._ask("mirror", ns, model)
        return place

    def nearest_texts(self, ns: str, vector: Vectors, depth: int) -> list[tuple[str, float]] | None:
        found: list[tuple[str, float]] | None = self._ask("nearest_texts", ns, vector, depth)
        return found


def main(descriptor: str, state: str, device: str, inode: str) -> None:
    sys.setswitchinterval(0.001)
    # Loaded by now, and what a question needs: no need to look through it again and again.
    assert search
    gc.freeze()
    try:
        ReaderProcess(socket.socket(fileno=int(descriptor)), Path(state), (int(device), int(inode))).serve()
    except (OSError, LedgerMoved):
        # The daemon has gone, or its ledger has. Its threads may still compute for nobody.
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
