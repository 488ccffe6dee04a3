"""A process that embeds a backlog: texts in, vectors out over a socket pair, at low priority.

The daemon keeps its own model for questions and small saves. This process has another one for as long as there is
much to do; it ends when the daemon closes its end of the pair, in whatever way. When it dies or hangs, the daemon
embeds by itself. On a busy machine it is slow, which is something else: it hangs when it stands still.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

from memd.child import encode, receive, start_child
from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model.pooling import Vectors

NICE = 10
TICK = 1.0
"""Seconds between two looks at a process that gives no answer."""
PATIENCE = 60.0
"""Seconds without processor time, and without waiting for any, after which it hangs."""
MOST_WORK = 600.0
"""Seconds of processor time for one answer; what takes more runs in a circle."""
RUNNABLE = ("R", "D")
"""The states of a process that would go on if it were given the processor or the disk."""


class EmbeddingProcess:
    """The daemon's end."""

    def __init__(self, settings: EmbeddingSettings, cache: Path, foreign: bool = False) -> None:
        arguments = json.dumps(asdict(settings)), str(cache), str(int(foreign))
        self._child, self._socket = start_child("memd.indexer.model.embedding_process", *arguments)
        self.foreign = foreign
        """Whether it has the model for other languages."""
        self._socket.setblocking(False)

    @property
    def pid(self) -> int:
        return self._child.pid

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; ModelUnavailable when the process died, hangs or cannot embed."""
        left = memoryview(encode(list(texts)))
        try:
            while left:
                self._wait(select.POLLOUT)
                left = left[self._socket.send(left) :]
            vectors: Vectors = receive(self._socket, partial(self._wait, select.POLLIN))
        except OSError as error:
            raise ModelUnavailable(f"the process that embeds has ended or hangs: {error}") from error
        if len(vectors) != len(texts):
            raise ModelUnavailable("the process that embeds lost its place")
        return vectors

    def _wait(self, event: int) -> None:
        """Until the socket is ready, however long that takes while the process gets on; TimeoutError when it hangs."""
        ready = select.poll()
        ready.register(self._socket, event)
        began = last = _work_of(self.pid)[0]
        still = 0.0
        while not ready.poll(TICK * 1000):
            work, state = _work_of(self.pid)
            still = 0.0 if work > last or state in RUNNABLE else still + TICK
            last = work
            if still >= PATIENCE or work - began > MOST_WORK:
                raise TimeoutError(f"no answer, after {work - began:.0f} s of processor time")

    def interrupt(self) -> None:
        """Whoever waits for vectors waits no longer; may be called by any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the process; it holds nothing that is worth waiting for."""
        self._socket.close()
        with suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait()


def _work_of(pid: int) -> tuple[float, str]:
    """How many seconds of processor time a process has used, and its state; nothing where the system does not tell."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, ""
    return (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK"), state


def _end_with_the_daemon(connection: socket.socket) -> None:
    """Not only between two batches: nobody wants the rest of one."""
    closed = select.poll()
    closed.register(connection, select.POLLRDHUP)
    closed.poll()
    os._exit(0)


def main(descriptor: str, settings: str, cache: str, foreign: str) -> None:
    """Embed what comes, until the other end is closed."""
    from memd.indexer.model import multilingual
    from memd.indexer.model.embedder import load_embedder

    os.nice(NICE)
    connection = socket.socket(fileno=int(descriptor))
    threading.Thread(target=_end_with_the_daemon, args=(connection,), daemon=True).start()
    known = EmbeddingSettings(**json.loads(settings))
    embedder = multilingual.load(Path(cache)) if foreign == "1" else load_embedder(known, Path(cache))
    assert embedder is not None, "the daemon asks for a process only where it has a model"
    with suppress(ConnectionResetError, BrokenPipeError):
        while True:
            connection.sendall(encode(embedder.embed(receive(connection))))


if __name__ == "__main__":
    main(*sys.argv[1:])
