"""A process that memd starts for itself, and the socket pair to it; it ends when the socket is closed.

A message between the two is its length and a pickle: both ends are the same program, and nobody else has the socket.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

LENGTH = struct.Struct("!I")

_started: list[tuple[str, subprocess.Popen[bytes]]] = []
"""Every child of this process with its module, until it is found to have ended."""


def start_child(
    module: str, *arguments: str, env: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Run a module of memd with the number of its socket and some arguments; returns it with our end."""
    ours, theirs = socket.socketpair()
    # As safe from files in the current directory as this process is.
    safe = ["-P"] if sys.flags.safe_path else []
    command = [sys.executable, *safe, "-W", "ignore", "-m", module, str(theirs.fileno()), *arguments]
    with theirs:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env={**os.environ, **(env or {})}
        )
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


def receive(connection: socket.socket, wait: Callable[[], None] = lambda: None) -> Any:
    """The next message; ConnectionResetError when the other end has gone. `wait` comes before each part of it."""
    (length,) = LENGTH.unpack(_receive_exactly(connection, LENGTH.size, wait))
    return pickle.loads(_receive_exactly(connection, length, wait))


def _receive_exactly(connection: socket.socket, size: int, wait: Callable[[], None]) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        wait()
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("it closed the connection")
        view = view[count:]
    return data
