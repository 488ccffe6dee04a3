"""A process that memd starts for itself, and the socket pair to it; it ends when the socket is closed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping


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
    return process, ours


def receive_exactly(connection: socket.socket, size: int, wait: Callable[[], None] = lambda: None) -> bytearray:
    """So many bytes; ConnectionResetError when the other end closes before they came. `wait` comes before each part."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        wait()
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("it closed the connection")
        view = view[count:]
    return data
