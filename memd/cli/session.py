"""The daemon's end of `memd mcp`: a connection on which an MCP session was opened, and lines cut out of bytes.

Light on purpose: `memd mcp` loads it.
"""

from __future__ import annotations

import time

from memd.config.paths import socket_path_str
from memd.errors import Busy, NoDaemon, UnknownMethod
from memd.protocol import wire
from memd.protocol.link import Closed, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

OPEN_SECONDS = 60.0
PAUSE_SECONDS = 0.1
READ_BYTES = 1 << 16
TO_WRITE = 1
"""`SHUT_WR` of the `socket` module: nothing more is sent."""


class Session:
    """An open session, as bytes that come and go without waiting."""

    def __init__(self, link: _socket.socket, told: dict[str, Any]) -> None:
        self._link = link
        self.told = told
        """What the daemon answered: profile, workspace, tools."""
        link.setblocking(False)

    def fileno(self) -> int:
        return self._link.fileno()

    def send(self, data: bytes) -> int:
        """How much of it went out."""
        try:
            return self._link.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            raise Closed from None

    def receive(self) -> bytes:
        """What has come; Closed when the daemon hung up."""
        try:
            data = self._link.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            raise Closed from None
        if not data:
            raise Closed
        return data

    def finish(self) -> None:
        """Say that nothing more will be asked."""
        try:
            self._link.shutdown(TO_WRITE)
        except OSError:
            # It is gone already; reading will tell.
            return

    def close(self) -> None:
        self._link.close()


def opened(wish: dict[str, Any], start: bool) -> Session:
    """A session in the daemon, which may be starting or stopping just now."""
    until = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return once(wish, start)
        except (Closed, Busy):
            if time.monotonic() > until:
                raise NoDaemon("the daemon hangs up before it answers", "see why: memd logs") from None
        time.sleep(PAUSE_SECONDS)


def once(wish: dict[str, Any], start: bool) -> Session:
    """One try at `opened`; a daemon from before there were sessions is restarted."""
    link = _connected(start)
    try:
        told = _ask(link, wish)
    except UnknownMethod:
        link.close()
        if not start:
            raise NoDaemon("the daemon is of an older memd", "restart it: memd restart") from None
        from memd.protocol import start as starting

        starting.restart()
        return once(wish, start=False)
    except BaseException:
        link.close()
        raise
    return Session(link, told)


def _connected(start: bool) -> _socket.socket:
    try:
        return connect(socket_path_str(), OPEN_SECONDS)
    except NoDaemon:
        if not start:
            raise
        from memd.protocol import start as starting

        starting.start()
        return connect(socket_path_str(), OPEN_SECONDS)


def _ask(link: _socket.socket, wish: dict[str, Any]) -> dict[str, Any]:
    """Open the session. The daemon sends one line and then waits for ours, so nothing is read too much."""
    answer = bytearray()
    try:
        link.sendall(wire.encode_request(1, "mcp.open", wish))
        while not answer.endswith(b"\n"):
            data = link.recv(READ_BYTES)
            if not data:
                raise Closed
            answer += data
    except TimeoutError:
        raise NoDaemon(f"the daemon did not answer within {OPEN_SECONDS:g} seconds", "see why: memd logs") from None
    except OSError:
        raise Closed from None
    told = wire.decode(bytes(answer))
    if "error" in told:
        wire.raise_error(told["error"])
    return dict(told["result"])


class Lines:
    """Cuts bytes into lines, whichever way they come; None stands for a line that is longer than allowed."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._begun = bytearray()
        self._skipping = False

    def take(self, data: bytes) -> list[bytes | None]:
        """The lines that end in `data`, each with its newline."""
        found: list[bytes | None] = []
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._begun += part
            if not self._skipping:
                found.append(bytes(self._begun) + b"\n" if self._fits() else None)
            self._begun.clear()
            self._skipping = False
        self._begun += rest
        if not self._fits():
            self._begun.clear()
            if not self._skipping:
                found.append(None)
            self._skipping = True
        return found

    def _fits(self) -> bool:
        return not self._most or len(self._begun) < self._most
