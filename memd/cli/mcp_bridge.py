"""`memd mcp`: carries lines between an agent's standard streams and an MCP session inside the daemon.

Light on purpose: an agent starts one of these for every session. It loads nothing but the standard library's system
calls. It also outlives the daemon: when that is restarted, the session is opened again as it was, and what had no
answer yet is sent again; every write carries a number, so that none is carried out twice.
"""

from __future__ import annotations

import os
import select
import time

from memd.cli import console, daemon_calls
from memd.cli.flags import MCP
from memd.config.paths import socket_path_str
from memd.errors import Busy, MemdError, NoDaemon, TooLarge
from memd.protocol import wire
from memd.protocol.connection import Closed, Connection
from memd.protocol.wire import MAX_REQUEST, as_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STDIN, STDOUT = 0, 1
PIPE_BYTES = 4096
"""The bytes that a ready pipe takes without making us wait."""
MAX_BUFFERED = 1 << 20
"""While this much is still to be written, nothing more is read."""
LOOK_MS = 1_000
LISTEN = "subscriptions/listen"
OPEN_SECONDS = 60.0
PAUSE_SECONDS = 0.1
READ_BYTES = 1 << 16
TO_WRITE = 1
"""`SHUT_WR` of the `socket` module: nothing more is sent."""
EDGE = 1024
"""Bytes kept of either end of a line that is too long: clients write an id first or last."""
METHOD = b'"method"'
ID = rb'"id"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+)(?=\s*[,}])'


def run_args(args: list[str]) -> int | None:
    """Serve as the flags say; None for Typer to explain what is wrong with them (or to help)."""
    return None if (given := parse(args)) is None else run(given)


def parse(args: list[str]) -> dict[str, Any] | None:
    read = MCP.read(args)
    # With --json a session is described and not served; that is Typer's.
    return read[1] if read and not read[0] and not read[1].get("json") else None


def run(args: dict[str, Any]) -> int:
    """Serve until the agent or the person hangs up."""
    return McpBridge(_open_params(args), not args.get("no_start")).run()


def describe(args: dict[str, Any]) -> dict[str, Any]:
    """The description of a session, from one that is opened and left."""
    session = open_session(_open_params(args), not args.get("no_start"))
    session.close()
    return session.answer


def _open_params(args: dict[str, Any]) -> dict[str, Any]:
    """The parameters of `mcp.open`."""
    directory = args.get("workspace")
    params = {
        **{name: args.get(name) for name in (*MCP.params, "ns")},
        "cwd": os.path.realpath(directory) if directory else daemon_calls.working_directory(),
        "tz": os.environ.get("TZ", "").removeprefix(":"),
        "session": os.urandom(8).hex(),
    }
    return {name: value for name, value in params.items() if value}


class McpBridge:
    """Both directions, and what must be sent again to another daemon."""

    def __init__(self, params: dict[str, Any], start: bool) -> None:
        self._params = params
        self._start = start
        self._link: DaemonSession | None = None
        self._input = LineSplitter(MAX_REQUEST)
        self._output = LineSplitter()
        self._to_daemon = bytearray()
        self._to_client = bytearray()
        self._client_done = False
        self._pending: dict[Any, bytes] = {}
        """The requests that have no answer yet."""
        self._resent: set[Any] = set()
        """Those of them that an earlier daemon had, too."""
        self._greeting: list[bytes] = []
        self._subscribed: dict[Any, bytes] = {}
        self._listening: set[Any] = set()
        self._unwanted: set[Any] = set()
        """Requests that were sent again only to bring the daemon up to date; their answers are not passed on."""

    def run(self) -> int:
        self._link = open_session(self._params, self._start)
        while not self._client_done or self._link is not None or self._pending or self._to_client:
            for fd, events in self._ready():
                if fd == STDOUT:
                    if events & ~select.POLLOUT:
                        return 0
                    self._write_out()
                elif fd == STDIN:
                    self._read_in()
                elif self._link is not None:
                    self._exchange(self._link, events)
            # A person may have stopped the daemon: none is started without a request.
            if self._link is None and (self._pending or self._to_daemon):
                self._reopen()
        return 0

    def _ready(self) -> list[tuple[int, int]]:
        """Wait until something can be read or written; now and then look for a daemon that subscriptions wait for."""
        poll = select.poll()
        if not self._client_done and len(self._to_daemon) < MAX_BUFFERED:
            poll.register(STDIN, select.POLLIN)
        poll.register(STDOUT, select.POLLOUT if self._to_client else 0)
        if self._link is not None:
            reading = select.POLLIN if len(self._to_client) < MAX_BUFFERED else 0
            poll.register(self._link.fileno(), reading | (select.POLLOUT if self._to_daemon else 0))
        ready = poll.poll(LOOK_MS if self._link is None and self._subscribed else None)
        if not ready and self._link is None:
            self._find_daemon()
        return ready

    # --- the agent's side ---------------------------------------------------------------------------------

    def _read_in(self) -> None:
        data = os.read(STDIN, READ_BYTES)
        if not data:
            self._client_done = True
            self._finish_sending()
        for line in self._input.take(data) if data else self._input.left():
            if isinstance(line, TooLong):
                self._answer(line.number(), TooLarge(f"a message may have {MAX_REQUEST} bytes"))
            elif line.strip():
                self._remember(line)
                self._to_daemon += line

    def _remember(self, line: bytes) -> None:
        """Keep what would have to be sent to another daemon."""
        message = _read(line)
        method, number = message.get("method"), as_id(message.get("id"))
        if method == "initialize":
            self._greeting = [line]
        elif method == "notifications/initialized":
            self._greeting.append(line)
        elif method == "resources/subscribe":
            self._subscribed[_named(message, "uri")] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(_named(message, "uri"), None)
        elif method == "notifications/cancelled":
            self._pending.pop(_named(message, "requestId"), None)
        if method is not None and number is not None:
            if method == LISTEN:
                self._listening.add(number)
            else:
                self._pending[number] = line

    def _write_out(self) -> None:
        try:
            written = os.write(STDOUT, self._to_client[:PIPE_BYTES])
        except BrokenPipeError:
            raise SystemExit(0) from None
        del self._to_client[:written]

    def _answer(self, number: Any, error: MemdError) -> None:
        """Answer in the daemon's stead."""
        self._pending.pop(number, None)
        self._to_client += wire.encode_error(number, error)

    # --- the daemon's side --------------------------------------------------------------------------------

    def _exchange(self, link: DaemonSession, events: int) -> None:
        try:
            if events & select.POLLOUT and self._to_daemon:
                del self._to_daemon[: link.write(bytes(self._to_daemon[:READ_BYTES]))]
                self._finish_sending()
            if events & ~select.POLLOUT:
                self._pass_on(link.read())
        except Closed:
            link.close()
            self._lost()

    def _pass_on(self, data: bytes) -> None:
        for line in self._output.take(data):
            # The daemon's lines have no limit.
            assert not isinstance(line, TooLong)
            message = _read(line)
            number = as_id(message.get("id")) if "method" not in message else None
            self._pending.pop(number, None)
            self._listening.discard(number)
            if number in self._unwanted:
                self._unwanted.discard(number)
            else:
                self._to_client += line

    def _finish_sending(self) -> None:
        """Tell the daemon that nothing more comes, once everything has been sent."""
        if self._client_done and not self._to_daemon and self._link is not None:
            self._link.finish()

    def _lost(self) -> None:
        """The daemon went: half a line of it is void."""
        self._link = None
        self._output, self._to_daemon = LineSplitter(), bytearray()
        self._unwanted.clear()
        for number in self._listening:
            # A stream of events cannot be resumed; whoever listens listens again and looks at everything anew.
            self._answer(number, NoDaemon("the daemon was restarted", "listen again"))
        self._listening.clear()
        # A request during which the daemon went twice is not sent a third time: it may be the reason.
        for number in self._resent & self._pending.keys():
            self._answer(number, NoDaemon("the daemon ended before it answered this", "see why: memd logs"))

    # --- opening ------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        try:
            self._link = open_session(self._params, self._start)
        except MemdError as error:
            console.report(error)
            for number in list(self._pending):
                self._answer(number, error)
            self._to_daemon.clear()
            return
        self._resend()

    def _find_daemon(self) -> None:
        """Go on where a daemon is back; none is started for subscriptions alone."""
        try:
            self._link = open_once(self._params, start=False)
        except (MemdError, Closed):
            return
        self._resend()

    def _resend(self) -> None:
        """Bring a new daemon to where the old one was."""
        waiting = self._pending.values()
        before = [line for line in (*self._greeting, *self._subscribed.values()) if line not in waiting]
        self._unwanted = {number for line in before if (number := as_id(_read(line).get("id"))) is not None}
        self._resent = set(self._pending)
        # The greeting goes first, also where it has no answer yet.
        first = [line for line in self._greeting if line in waiting]
        again = [line for line in waiting if line not in first]
        self._to_daemon = bytearray().join([*first, *before, *again])
        for uri in self._subscribed:
            # It may have changed while nobody looked.
            self._to_client += wire.encode_notification("notifications/resources/updated", {"uri": uri})
        self._finish_sending()


def _read(line: bytes) -> dict[str, Any]:
    """A message, or nothing of it where it is none; the daemon will say so."""
    try:
        message = wire.decode(line)
    except MemdError:
        return {}
    return message if isinstance(message, dict) else {}


def _named(message: dict[str, Any], name: str) -> str | float | None:
    """The text or the number that a message names; None where it does not."""
    params = message.get("params")
    return as_id(params.get(name)) if isinstance(params, dict) else None


# --- the daemon's end ----------------------------------------------------------------------------------------------


class DaemonSession(Connection):
    """A connection that becomes an MCP session: from then on bytes come and go without waiting."""

    answer: dict[str, Any]
    """The daemon's answer: profile, workspace, tools."""

    def open(self, params: dict[str, Any]) -> None:
        self.send(wire.encode_request(1, "mcp.open", params))
        # The daemon sends one line and then waits for ours, so nothing is read too much.
        reply = wire.decode(self.line(OPEN_SECONDS))
        if "error" in reply:
            wire.raise_error(reply["error"])
        self.answer = dict(reply["result"])
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def write(self, data: bytes) -> int:
        """How much of it went out."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            raise Closed from None

    def read(self) -> bytes:
        """The bytes that have come; Closed when the daemon hung up."""
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            raise Closed from None
        if not data:
            raise Closed
        return data

    def finish(self) -> None:
        """Say that no more requests follow."""
        try:
            self._socket.shutdown(TO_WRITE)
        except OSError:
            # It is gone already; reading will tell.
            return


def open_session(params: dict[str, Any], start: bool) -> DaemonSession:
    """A session in the daemon, which may be starting or stopping just now."""
    until = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return open_once(params, start)
        except (Closed, Busy):
            if time.monotonic() > until:
                raise NoDaemon("the daemon closes the connection before it answers", "see why: memd logs") from None
        time.sleep(PAUSE_SECONDS)


def open_once(params: dict[str, Any], start: bool) -> DaemonSession:
    """One try at `open_session`; `start` starts a daemon where none runs."""
    try:
        session = DaemonSession(socket_path_str(), OPEN_SECONDS)
    except NoDaemon:
        if not start:
            raise
        from memd.protocol import start as process

        process.start()
        session = DaemonSession(socket_path_str(), OPEN_SECONDS)
    try:
        session.open(params)
    except BaseException:
        session.close()
        raise
    return session


class TooLong:
    """Both ends of a line that is longer than allowed. The bytes between are not kept."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail

    def number(self) -> str | float | None:
        """The id of the request that the line is, by which the client knows what failed; None if none is found.

        What stands before an id in the head must be JSON up to there, and what follows one in the tail must close one
        object and no more: an id inside of the parameters is not the request's.
        """
        import re

        if METHOD not in self._head and METHOD not in self._tail:
            # Most likely an answer: its id is one of our own numbers.
            return None
        heads = (self._head[: at.end()] + b"}" for at in re.finditer(ID, self._head))
        tails = [b"{" + self._tail[at.start(1) :] for at in re.finditer(rb",\s*(" + ID + rb")", self._tail)]
        objects = (*heads, *reversed(tails))
        return next((found for text in objects if (found := as_id(_read(text).get("id"))) is not None), None)


class LineSplitter:
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
