"""`memd mcp`: carries lines between an agent's standard streams and an MCP session inside the daemon.

Light on purpose: an agent starts one of these for every session. It loads nothing but the standard library's system
calls. It also outlives the daemon: when that is restarted, the session is opened again as it was, and what had no
answer yet is asked again; every write carries a number, so that none is done twice.
"""

from __future__ import annotations

import os
import select

from memd.cli import pages, say, session
from memd.cli.flags import Flags
from memd.cli.session import READ_BYTES, Lines, Session, TooLong, as_id
from memd.errors import MemdError, NoDaemon, TooLarge
from memd.protocol import wire
from memd.protocol.connection import Closed
from memd.protocol.wire import MAX_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = Flags(
    values={"--profile": "profile", "-n": "ns", "--ns": "ns", "-w": "workspace", "--workspace": "workspace"},
    switches={"--experimental": "experimental", "--no-start": "no_start"},
    choices={},
    numbers={},
)
STDIN, STDOUT = 0, 1
PIPE_BYTES = 4096
"""What a pipe that is ready takes without making us wait."""
HIGH = 1 << 20
"""While this much is still to be written, nothing more is read."""
LOOK_MS = 1_000
MOST_TRIES = 2
"""A request that twice saw the daemon go is not asked a third time: it may be the reason."""
LISTEN = "subscriptions/listen"


def parse(args: list[str]) -> dict[str, Any] | None:
    """What was asked for; None for Typer to explain what is wrong with it (or to help)."""
    read = FLAGS.read(args)
    return read[1] if read and not read[0] else None


def run(given: dict[str, Any]) -> int:
    """Serve until the agent or the person hangs up; errors are told on the standard error stream."""
    try:
        return Pump(_wish(given), not given.get("no_start")).run()
    except MemdError as error:
        return say.report(error)


def told(given: dict[str, Any]) -> dict[str, Any]:
    """What a session would be like, from one that is opened and left."""
    opened = session.opened(_wish(given), not given.get("no_start"))
    opened.close()
    return opened.told


def _wish(given: dict[str, Any]) -> dict[str, Any]:
    """What the session shall be like, as the daemon is told."""
    there = given.get("workspace")
    wish = {
        "profile": given.get("profile"),
        "experimental": given.get("experimental"),
        "ns": given.get("ns"),
        "cwd": os.path.realpath(there) if there else pages.working_directory(),
        "tz": os.environ.get("TZ", "").removeprefix(":"),
        "session": os.urandom(8).hex(),
    }
    return {name: value for name, value in wish.items() if value}


class Asked:
    """A request that has no answer yet."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.tries = 1


class Pump:
    """Both directions, and what must be said again to another daemon."""

    def __init__(self, wish: dict[str, Any], start: bool) -> None:
        self._wish = wish
        self._start = start
        self._link: Session | None = None
        self._input = Lines(MAX_REQUEST)
        self._output = Lines()
        self._to_daemon = bytearray()
        self._to_client = bytearray()
        self._client_done = False
        self._asked: dict[Any, Asked] = {}
        self._greeting: list[bytes] = []
        self._subscribed: dict[str, bytes] = {}
        self._listening: set[Any] = set()
        self._unheard: set[Any] = set()
        """Requests that were asked again only for the daemon to know; their answers are not passed on."""

    def run(self) -> int:
        self._link = session.opened(self._wish, self._start)
        while not self._finished():
            for fd, events in self._ready():
                if fd == STDOUT:
                    if events & ~select.POLLOUT:
                        return 0
                    self._write_out()
                elif fd == STDIN:
                    self._read_in()
                elif self._link is not None:
                    self._exchange(events)
            if self._link is None and self._needed():
                self._open_again()
        return 0

    def _finished(self) -> bool:
        gone = self._link is None and not self._asked
        return self._client_done and gone and not self._to_client

    def _ready(self) -> list[tuple[int, int]]:
        """Wait until something can be read or written; now and then look for a daemon that subscriptions wait for."""
        poll = select.poll()
        if not self._client_done and len(self._to_daemon) < HIGH:
            poll.register(STDIN, select.POLLIN)
        poll.register(STDOUT, select.POLLOUT if self._to_client else 0)
        if self._link is not None:
            reading = select.POLLIN if len(self._to_client) < HIGH else 0
            poll.register(self._link.fileno(), reading | (select.POLLOUT if self._to_daemon else 0))
        ready = poll.poll(LOOK_MS if self._link is None and self._subscribed else None)
        if not ready and self._link is None:
            self._look()
        return ready

    # --- the agent's side ---------------------------------------------------------------------------------

    def _read_in(self) -> None:
        data = os.read(STDIN, READ_BYTES)
        if not data:
            self._client_done = True
            self._finish_asking()
        for line in self._input.take(data) if data else self._input.left():
            if isinstance(line, TooLong):
                self._answer(line.number(), TooLarge(f"a message may have {MAX_REQUEST} bytes"))
            elif line.strip():
                self._remember(line)
                self._to_daemon += line

    def _remember(self, line: bytes) -> None:
        """Keep what another daemon would have to be told."""
        message = _read(line)
        method, number = message.get("method"), as_id(message.get("id"))
        if method == "initialize":
            self._greeting = [line]
        elif method == "notifications/initialized":
            self._greeting.append(line)
        elif method == "resources/subscribe":
            self._subscribed[_uri(message)] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(_uri(message), None)
        elif method == "notifications/cancelled":
            self._asked.pop(as_id(_named(message, "requestId")), None)
        if method is not None and number is not None:
            if method == LISTEN:
                self._listening.add(number)
            else:
                self._asked[number] = Asked(line)

    def _write_out(self) -> None:
        try:
            written = os.write(STDOUT, self._to_client[:PIPE_BYTES])
        except BrokenPipeError:
            raise SystemExit(0) from None
        del self._to_client[:written]

    def _answer(self, number: Any, error: MemdError) -> None:
        """Answer in the daemon's stead."""
        self._asked.pop(number, None)
        self._to_client += wire.encode_error(number, error)

    # --- the daemon's side --------------------------------------------------------------------------------

    def _exchange(self, events: int) -> None:
        assert self._link is not None
        try:
            if events & select.POLLOUT and self._to_daemon:
                del self._to_daemon[: self._link.send(bytes(self._to_daemon[:READ_BYTES]))]
                self._finish_asking()
            if events & ~select.POLLOUT:
                self._pass_on(self._link.receive())
        except Closed:
            self._lost()

    def _pass_on(self, data: bytes) -> None:
        for line in self._output.take(data):
            if isinstance(line, TooLong):
                # The daemon's lines have no limit.
                continue
            message = _read(line)
            number = as_id(message.get("id")) if "method" not in message else None
            self._asked.pop(number, None)
            self._listening.discard(number)
            if number is not None and number in self._unheard:
                self._unheard.discard(number)
            else:
                self._to_client += line

    def _finish_asking(self) -> None:
        """Tell the daemon that nothing more comes, once everything has been sent."""
        if self._client_done and not self._to_daemon and self._link is not None:
            self._link.finish()

    def _lost(self) -> None:
        """The daemon went: what it had half said is void."""
        if self._link is not None:
            self._link.close()
        self._link = None
        self._output, self._to_daemon = Lines(), bytearray()
        self._unheard.clear()
        for number in self._listening:
            # A stream of events cannot be resumed; whoever listens listens again and looks at everything anew.
            self._answer(number, NoDaemon("the daemon was restarted", "listen again"))
        self._listening.clear()
        for number in [number for number, asked in self._asked.items() if asked.tries >= MOST_TRIES]:
            self._answer(number, NoDaemon("the daemon went while it answered this", "see why: memd logs"))

    # --- opening ------------------------------------------------------------------------------------------

    def _needed(self) -> bool:
        """Whether a daemon should be there. A person may have stopped it: nobody starts one before he is asked."""
        return bool(self._asked or self._to_daemon)

    def _open_again(self) -> None:
        try:
            self._link = session.opened(self._wish, self._start)
        except MemdError as error:
            say.report(error)
            for number in list(self._asked):
                self._answer(number, error)
            self._to_daemon.clear()
            return
        self._say_again()

    def _look(self) -> None:
        """Go on where a daemon is back; none is started for subscriptions alone."""
        try:
            self._link = session.once(self._wish, start=False)
        except (MemdError, Closed):
            return
        self._say_again()

    def _say_again(self) -> None:
        """Bring a new daemon to where the old one was."""
        waiting = {asked.line for asked in self._asked.values()}
        before = [line for line in (*self._greeting, *self._subscribed.values()) if line not in waiting]
        self._unheard = {number for line in before if (number := as_id(_read(line).get("id"))) is not None}
        for asked in self._asked.values():
            asked.tries += 1
        # The greeting goes first, also where it has no answer yet.
        first = [line for line in self._greeting if line in waiting]
        again = [asked.line for asked in self._asked.values() if asked.line not in first]
        self._to_daemon = bytearray().join([*first, *before, *again])
        for uri in self._subscribed:
            # It may have changed while nobody looked.
            self._to_client += wire.encode_notification("notifications/resources/updated", {"uri": uri})
        self._finish_asking()


def _read(line: bytes) -> dict[str, Any]:
    """A message, or nothing of it where it is none; the daemon will say so."""
    try:
        message = wire.decode(line)
    except MemdError:
        return {}
    return message if isinstance(message, dict) else {}


def _named(message: dict[str, Any], name: str) -> Any:
    params = message.get("params")
    return params.get(name) if isinstance(params, dict) else None


def _uri(message: dict[str, Any]) -> str:
    return str(_named(message, "uri"))
