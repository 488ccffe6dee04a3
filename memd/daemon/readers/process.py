"""A reader process: answers questions from the files of the daemon that started it, and ends when the daemon does."""

import errno
import gc
import itertools
import logging
import os
import socket
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from memd.child import encode, receive
from memd.daemon.readers.messages import CallResult, DaemonCall, ReadCall, ReaderGone, Ready, load_work
from memd.errors import LedgerMoved, MemdError
from memd.indexer.query import search
from memd.indexer.store.followed import DaemonState, FollowedStores
from memd.indexer.store.ledger import FileId

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
        self._stores = FollowedStores(state, self._ask, ledger)
        self._threads = ThreadPoolExecutor(THREADS, "memd-reader")

    def serve(self) -> None:
        """Until the daemon closes its end, in whatever way."""
        self._send(encode(Ready()))
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
                    self._send(encode(Ready()))

    def _run(self, call: ReadCall) -> None:
        try:
            seq, value = self._stores.in_snapshot(partial(self._answer, call))
            answer = encode(CallResult(call.number, value, seq=seq))
        except MemdError as error:
            answer = encode(CallResult(call.number, error=error))
        except Exception as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM:
                # The daemon asks elsewhere, and starts another reader.
                os._exit(1)
            log.exception("a question failed in a reader")
            # The daemon tries it by itself, and finds out what it means.
            answer = encode(CallResult(call.number, error=ReaderGone(f"a question failed in a reader: {error!r}")))
        self._send(answer)

    def _answer(self, call: ReadCall) -> Any:
        # Loading it opens what it is about, as of the snapshot.
        work, args, kwargs = load_work(call.work, self._stores)
        return work(*args, **kwargs)

    def _send(self, content: bytes) -> None:
        with self._sending:
            self._connection.sendall(content)

    def _ask(self, name: str, *args: Any) -> Future[Any]:
        """Have the daemon do something."""
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        self._send(encode(DaemonCall(number, name, args)))
        return answer


def main(link: socket.socket, state: str, device: str, inode: str) -> None:
    sys.setswitchinterval(0.001)
    # Loaded by now, and what a question needs: no need to look through it again and again.
    assert search
    gc.freeze()
    try:
        ReaderProcess(link, Path(state), (int(device), int(inode))).serve()
    except (OSError, LedgerMoved):
        # The daemon has gone, or its ledger has. Its threads may still compute for nobody.
        os._exit(0)
