"""The conversation with the daemon: connect, greet, ask, read until the answer has come, connect again.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os

from memd import __version__
from memd.config.paths import socket_path_str
from memd.errors import MemdError, NoDaemon
from memd.protocol import wire
from memd.protocol.link import Closed, Link
from memd.protocol.messages import PROTOCOL, READS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    Progress = Callable[[dict[str, Any]], None]

TIMEOUT = 30.0
LONG_TIMEOUT = 900.0
"""For calls that read every file; the daemon reports progress long before that."""
UNGREETED = frozenset({"hello", "ping", "shutdown"})
"""Methods for which the daemon's version does not matter."""


class Conversation:
    """One connection to the daemon; the client adds a function for each method."""

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        autostart: bool = False,
        timeout: float = TIMEOUT,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self.path = os.fspath(socket) if socket else socket_path_str()
        self.daemon: dict[str, Any] | None = None
        """What `hello` told: version, pid, protocol, capabilities, limits."""
        self._autostart = autostart and socket is None
        self._timeout = timeout
        self._notice = notice or (lambda text: None)
        self._link: Link | None = None
        self._early: dict[int, dict[str, Any]] = {}
        self._told: list[dict[str, Any]] = []
        self._subscribed = False
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next call connects again."""
        if self._link:
            self._link.close()
        self._link, self.daemon = None, None
        self._early.clear()
        self._told.clear()
        self._subscribed = False

    def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        on_progress: Progress | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Call any method and return its result; errors come back as the classes of memd.errors.

        `on_progress` gets `{"phase", "done", "total"}` now and then while a long call runs. `timeout` is the
        longest silence to bear in this call.
        """
        asked = _Call(method, params, on_progress, timeout or self._timeout)
        # The daemon may have stopped since the last call, or be stopping just now.
        # A write that carries a number of its own is done once, however often it is asked for.
        again = method in READS or bool(params and params.get("request_id"))
        tries = 2 if again and (self._link or self._autostart) else 1
        for _ in range(tries):
            try:
                return self._ask(asked)
            except Closed:
                self.close()
            except NoDaemon:
                self.close()
                raise
        raise NoDaemon("the daemon hung up before it answered", "see why: memd logs; then try again")

    def told(self) -> Iterator[dict[str, Any]]:
        """What the subscriptions of this connection send, as it comes; NoDaemon when the connection ends."""
        while self._link and self._subscribed:
            if not self._told:
                try:
                    self._keep(wire.decode(self._link.line(None)))
                except Closed:
                    break
            while self._told:
                yield self._told.pop(0)
        self.close()
        raise NoDaemon("the daemon hung up, and the subscriptions ended", "subscribe again")

    def _ask(self, asked: _Call) -> dict[str, Any]:
        link = self._open()
        if self.daemon is None and asked.method not in UNGREETED:
            return self._ask_and_greet(link, asked)
        call_id, line = self._line(asked.method, asked.params)
        link.send(line)
        return self._receive(link, call_id, asked)

    def _ask_and_greet(self, link: Link, asked: _Call) -> dict[str, Any]:
        """The first call: `hello` goes along in the same write, to learn the daemon's version."""
        hello_id, hello = self._line("hello", greeting())
        if asked.method not in READS:
            # Not to a daemon that is about to be restarted.
            link.send(hello)
            self.daemon = self._receive(link, hello_id)
            self._replace_outdated()
            return self._ask(asked)
        call_id, line = self._line(asked.method, asked.params)
        link.send(hello + line)
        self.daemon = self._receive(link, hello_id)
        return self._ask(asked) if self._replace_outdated() else self._receive(link, call_id, asked)

    def _line(self, method: str, params: dict[str, Any] | None) -> tuple[int, bytes]:
        self._last_id += 1
        return self._last_id, wire.encode_request(self._last_id, method, params)

    def _receive(self, link: Link, call_id: int, asked: _Call | None = None) -> dict[str, Any]:
        """Read until the answer to `call_id` has come."""
        patience = asked.patience if asked else self._timeout
        while call_id not in self._early:
            message = wire.decode(link.line(patience))
            if not isinstance(message, dict):
                raise MemdError("the daemon sent something that is not an answer", "restart it: memd restart")
            if message.get("method") == "progress" and asked and asked.on_progress:
                asked.on_progress(message["params"])
            elif "method" not in message:
                # An error without an id is about a line that could not be read, and only ours was sent.
                self._early[call_id if message.get("id") is None else message["id"]] = message
            else:
                self._keep(message)
        answer = self._early.pop(call_id)
        if "error" in answer:
            wire.raise_error(answer["error"])
        return dict(answer["result"])

    def _keep(self, message: Any) -> None:
        """What a subscription sends while another call runs waits here for `told`."""
        if isinstance(message, dict) and message.get("method") == "subscription":
            self._told.append(message["params"])

    def _open(self) -> Link:
        if not self._link:
            try:
                self._link = Link(self.path, self._timeout)
            except NoDaemon:
                if not self._autostart:
                    raise
                from memd.protocol import start

                start.start()
                self._link = Link(self.path, self._timeout)
        return self._link

    def _replace_outdated(self) -> bool:
        """After an upgrade the old daemon still runs: restart it, once."""
        theirs = str((self.daemon or {}).get("version", "of unknown version"))
        if theirs == __version__:
            return False
        if not self._autostart or _release(theirs) > _release(__version__):
            self._notice(f"the daemon is memd {theirs} and this is {__version__}; to change it: memd restart")
            return False
        self._notice(f"the daemon was still memd {theirs}; restarting it as {__version__}")
        self.close()
        from memd.protocol import start

        start.restart()
        self._greet_new_daemon()
        return True

    def _greet_new_daemon(self) -> None:
        link = self._open()
        hello_id, hello = self._line("hello", greeting())
        link.send(hello)
        self.daemon = self._receive(link, hello_id)
        if self.daemon.get("version") != __version__:
            self._notice(
                f"it came back as memd {self.daemon.get('version')}: another installation of memd starts it; "
                "to make it this one: memd service install"
            )


class _Call:
    """What was asked, for when it must be asked again."""

    __slots__ = ("method", "on_progress", "params", "patience")

    def __init__(
        self, method: str, params: dict[str, Any] | None, on_progress: Progress | None, patience: float
    ) -> None:
        self.method = method
        self.params = {**(params or {}), "progress": True} if on_progress else params
        self.on_progress = on_progress
        self.patience = patience


def greeting() -> dict[str, Any]:
    return {"client": "memd", "version": __version__, "protocol": PROTOCOL}


def _release(version: str) -> list[int]:
    """`0.2.10` as numbers that compare; what follows the numbers does not count."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return numbers
