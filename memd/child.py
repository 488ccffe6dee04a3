"""A process that memd starts for itself, and the socket pair to it; it ends when the socket is closed.

A message between the two is its length and a pickle: both ends are the same program, and nobody else has the socket.
`Child` is the parent's end, for calls and their answers; `serve` is the other. The reader processes, which are asked
by an event loop and ask back, use the messages alone. The process runs this file, which calls `main` of its module.
"""

import itertools
import os
import pickle
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from typing import Any

from memd.processes import work_of

LENGTH = struct.Struct("!I")
SEND_SECONDS = 120
"""Longer than any child takes nothing in on a busy machine: one that takes longer hangs."""
END_SECONDS = 2.0
"""How long a child that closed its end may take to end."""
TICK = 1.0
"""Seconds between two looks at a child that gives no answer."""
MOST_WORK = 600.0
"""Seconds of processor time for one answer; what takes more runs in a circle."""
RUNNABLE = ("R", "D", "U")
"""The states of a process that would go on if it were given the processor or the disk; the last is that of macOS."""

_started: list[tuple[str, subprocess.Popen[bytes]]] = []
"""Every child of this process with its module, until it is found to have ended."""


def start_child(
    module: str, *arguments: str, nice: int = 0, environment: Mapping[str, str] = os.environ
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Have a process call `main` of a module, with its socket and some arguments; returns it with our end. It is at
    least so nice, and has this environment."""
    ours, theirs = socket.socketpair()
    # -P: what lies in the current directory is not memd's code.
    program = [sys.executable, "-P", "-W", "ignore", "-m", "memd.child"]
    command = [*program, module, str(nice), str(theirs.fileno()), *arguments]
    with theirs:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=dict(environment))
    _started.append((module, process))
    return process, ours


def running_children() -> list[tuple[str, int]]:
    """The module and the number of each child that runs."""
    _started[:] = [(module, process) for module, process in _started if process.poll() is None]
    return [(module, process.pid) for module, process in _started]


def encode(message: Any) -> bytes:
    """A message as it is sent."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def receive(connection: socket.socket) -> Any:
    """The next message; ConnectionResetError when the other end has gone."""
    (length,) = LENGTH.unpack(_receive_exactly(connection, LENGTH.size))
    return pickle.loads(_receive_exactly(connection, length))


def _receive_exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        if not (count := connection.recv_into(view)):
            raise ConnectionResetError("it closed the connection")
        view = view[count:]
    return data


class ChildGone(Exception):
    """The process ended, or was ended because it hung, and so gave no answer."""


class Child:
    """A process that is asked: each call has a number, and a thread hands out the answers. One caller at a time."""

    def __init__(self, thread: str, module: str, *arguments: str, nice: int = 0) -> None:
        self.process, self._link = start_child(module, *arguments, nice=nice)
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        self.ready: Future[Any] = Future()
        """Its first message, which it sends without being asked."""
        self._numbers = itertools.count(1)
        self._waiting = {0: self.ready}
        self._gone = ""
        self._lock = threading.Lock()
        self._receiver = threading.Thread(target=self._receive, name=thread, daemon=True)
        self._receiver.start()

    def call(self, *arguments: Any) -> Future[Any]:
        """Have it carry out something; ChildGone if it ends meanwhile."""
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self._gone:
                answer.set_exception(ChildGone(self._gone))
                return answer
            self._waiting[number] = answer
        try:
            self._link.sendall(encode((number, arguments)))
        except OSError:
            # It ended, or it hangs and takes nothing in any more; half a message cannot be taken back.
            self.process.kill()
        return answer

    def result(self, answer: Future[Any], patience: float) -> Any:
        """The answer, however long that takes while the child gets on; TimeoutError when it stands still, and hangs.

        `patience`: seconds without processor time, and without waiting for any. A busy machine makes a child slow.
        """
        began, last, still, tick = None, -1.0, 0.0, min(TICK, patience)
        while True:
            try:
                return answer.result(tick)
            except TimeoutError:
                work, state = work_of(self.process.pid)
            still = 0.0 if work > last or state in RUNNABLE else still + tick
            began, last = work if began is None else began, work
            if still >= patience or work - began > MOST_WORK:
                raise TimeoutError(f"no answer, after {work - began:.0f} s of processor time")

    def _receive(self) -> None:
        with suppress(ConnectionError):
            while True:
                number, result = receive(self._link)
                with self._lock:
                    answer = self._waiting.pop(number)
                answer.set_exception(result) if isinstance(result, Exception) else answer.set_result(result)
        why = self._ending()
        with self._lock:
            self._gone = why
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.set_exception(ChildGone(why))

    def _ending(self) -> str:
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "it closed its end"
        return f"it crashed (signal {-code})" if code < 0 else f"it ended with exit code {code}"

    def close(self, seconds: float = 0.0) -> bool:
        """Say that nothing more comes, and wait until it ends; one that does not is killed. Says whether it ended."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        if not (ended := self.process.poll() is not None):
            self.process.kill()
            self.process.wait()
        self._receiver.join(END_SECONDS)
        self._link.close()
        return ended


def serve(connection: socket.socket, answer: Callable[..., Any], ready: Any = None) -> None:
    """The child's end: say that it is ready, then answer calls until the parent closes its end, or is no more.

    An answer is a result, or an exception that the caller is to get.
    """
    with suppress(ConnectionError):
        connection.sendall(encode((0, ready)))
        while True:
            number, arguments = receive(connection)
            connection.sendall(encode((number, answer(*arguments))))


def ending_with_parent(connection: socket.socket, code: int = 0) -> socket.socket:
    """The same connection. As soon as the parent closes its end this process ends, in the middle of its work too:
    nobody wants the rest."""

    def wait() -> None:
        closed = select.poll()
        # macOS tells of either end by the one that it has.
        closed.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))
        closed.poll()
        os._exit(code)

    threading.Thread(target=wait, daemon=True).start()
    return connection


def run(module: str, nice: str, descriptor: str, *arguments: str) -> None:
    """What the process does: give way, then call `main` of its module."""
    # Before the import, which may take a second of a core. The thread that started it may be as nice already.
    os.setpriority(os.PRIO_PROCESS, 0, max(int(nice), os.getpriority(os.PRIO_PROCESS, 0)))
    import_module(module).main(socket.socket(fileno=int(descriptor)), *arguments)


if __name__ == "__main__":
    run(*sys.argv[1:])
