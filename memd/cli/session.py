"""The daemon's end of `memd mcp`: a connection on which an MCP session was opened, and lines cut out of bytes.

Light on purpose: `memd mcp` loads it.
"""

from __future__ import annotations

import time

from memd.config.paths import socket_path_str
from memd.errors import Busy, MemdError, NoDaemon, UnknownMethod
from memd.protocol import wire
from memd.protocol.connection import Closed, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

OPEN_SECONDS = 60.0
PAUSE_SECONDS = 0.1
READ_BYTES = 1 << 16
TO_WRITE = 1
"""`SHUT_WR` of the `socket` module: nothing more is sent."""
EDGE = 1024
"""Bytes kept of either end of a line that is too long: clients write an id first or last."""
LONGEST_ID = 300
ID, METHOD = b'"id"', b'"method"'


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


def as_id(value: Any) -> str | float | None:
    """The id of a request; None for what can be none."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


class TooLong:
    """Both ends of a line that is longer than allowed. What lies between is not kept."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail

    def number(self) -> str | float | None:
        """The id of the request that the line is, by which the client knows what failed; None where none is found."""
        if METHOD not in self._head and METHOD not in self._tail:
            # An answer, most likely: its id is one of our own numbers.
            return None
        found = self._in_head()
        return self._in_tail() if found is None else found

    def _in_head(self) -> str | float | None:
        """What stands before an id must be JSON up to there: an id inside of the parameters is none of the request."""
        at = self._head.find(ID)
        while at >= 0:
            for end in range(at + len(ID), min(at + LONGEST_ID, len(self._head))):
                if self._head[end] in b",}" and (found := _id_of(self._head[:end] + b"}")) is not None:
                    return found
            at = self._head.find(ID, at + len(ID))
        return None

    def _in_tail(self) -> str | float | None:
        """The same from the end: what follows must close one object and no more."""
        at = self._tail.rfind(ID)
        while at >= 0:
            if self._tail[:at].rstrip().endswith(b",") and (found := _id_of(b"{" + self._tail[at:])) is not None:
                return found
            at = self._tail.rfind(ID, 0, at)
        return None


def _id_of(text: bytes) -> str | float | None:
    try:
        message = wire.decode(text)
    except MemdError:
        return None
    return as_id(message.get("id")) if isinstance(message, dict) else None


class Lines:
    """Cuts bytes into lines, whichever way they come; of one that is longer than allowed, only the ends are kept."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._begun = bytearray()
        self._head: bytes | None = None
        """How the line began, once it is too long; its end so far is then in `_begun`."""

    def take(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that end in `data`, each with its newline."""
        found: list[bytes | TooLong] = []
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add(part)
            found.append(self._ended())
        self._add(rest)
        return found

    def left(self) -> list[TooLong]:
        """At the end of everything: a line that is too long, though it has no end."""
        line = self._ended()
        return [line] if isinstance(line, TooLong) else []

    def _add(self, part: bytes) -> None:
        self._begun += part
        if self._head is None and self._most and len(self._begun) >= self._most:
            self._head = bytes(self._begun[:EDGE])
        if self._head is not None:
            del self._begun[:-EDGE]

    def _ended(self) -> bytes | TooLong:
        begun, head = bytes(self._begun), self._head
        self._begun.clear()
        self._head = None
        return begun + b"\n" if head is None else TooLong(head, begun)
