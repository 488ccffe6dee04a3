"""The conversation with the daemon: connect, greet, ask, read until the answer has come, connect again.

`Talk` is the conversation itself, written once. It awaits its connection; that of `Conversation` blocks and never
really waits, so that a call runs to its end in one go, without a loop. Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os
import time

from memd import __version__
from memd.config.paths import socket_path_str
from memd.errors import MemdError, NoDaemon
from memd.protocol import wire
from memd.protocol.link import Closed, Link
from memd.protocol.messages import PROTOCOL, READS, SHOWN, SIGNED
from memd.protocol.twin import as_it_is

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any, Protocol, Self

    from memd.protocol.results import Subscribed
    from memd.protocol.twin import Progress, R

    class Connection(Protocol):
        """What a conversation needs of its link beside lines."""

        def close(self) -> None: ...


TIMEOUT = 30.0
LONG_TIMEOUT = 900.0
"""For calls that read every file; the daemon reports progress long before that."""
UNGREETED = frozenset({"hello", "ping", "shutdown"})
"""Methods for which the daemon's version does not matter."""
WHO = "python"
PAUSE = 0.1
"""Seconds before the second retry; twice as long before each further one."""


class Talk:
    """One connection to the daemon, whichever way its lines come and go."""

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        autostart: bool = False,
        timeout: float = TIMEOUT,
        notice: Callable[[str], None] | None = None,
        *,
        bind: str | None = None,
        who: str | None = None,
        retries: int = 1,
    ) -> None:
        self.path = os.fspath(socket) if socket else socket_path_str()
        self.daemon: dict[str, Any] | None = None
        """What `hello` told: version, pid, protocol, capabilities, limits."""
        self._autostart = autostart and socket is None
        self._timeout = timeout
        self._notice = notice or as_it_is
        self._bind = bind
        self._who = who or WHO
        self._retries = retries
        self._link: Any = None
        self._awaited: set[int] = set()
        self._early: dict[int, dict[str, Any]] = {}
        self._told: list[dict[str, Any]] = []
        self._subscribed = False
        self._last_id = 0

    if TYPE_CHECKING:
        # What a link can do; each kind of client has its own.
        async def _connect(self) -> Connection: ...
        async def _send(self, data: bytes) -> None: ...
        async def _next(self, patience: float | None) -> bytes: ...
        async def _pause(self, seconds: float) -> None: ...
        async def _do(self, work: Callable[[], None]) -> None:
            """Something that takes seconds, such as starting a daemon."""

    # --- a call ---------------------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        if self._link:
            self._link.close()
        self._link, self.daemon = None, None
        self._early.clear()
        self._told.clear()
        self._subscribed = False

    async def _answer(self, asked: Call) -> dict[str, Any]:
        """The answer to a call; where that does no harm, it is asked again when the connection was lost."""
        # The daemon may have stopped since the last call, or be stopping just now.
        left = self._retries if asked.repeatable and (self._link or self._autostart) else 0
        lost = 0
        while True:
            try:
                return await self._once(asked)
            except Closed:
                self._hang_up()
                if lost == left:
                    raise NoDaemon(
                        "the daemon hung up before it answered", "see why: memd logs; then try again"
                    ) from None
            except NoDaemon:
                self._hang_up()
                if lost in (0, left):
                    raise
            lost += 1
            if lost > 1:
                await self._pause(PAUSE * 2 ** (lost - 2))

    async def _once(self, asked: Call) -> dict[str, Any]:
        # Answers that nobody waits for any more: their calls were given up.
        self._awaited.clear()
        self._early.clear()
        await self._open()
        if self.daemon is None and (asked.method not in UNGREETED or (self._bind and asked.method != "hello")):
            return await self._ask_and_greet(asked)
        call_id, line = self._line(asked.method, asked.params)
        await self._send(line)
        return await self._receive(call_id, asked)

    async def _ask_and_greet(self, asked: Call) -> dict[str, Any]:
        """The first call: `hello` goes along in the same write, to learn the daemon's version."""
        hello_id, hello = self._line("hello", self._greeting())
        if asked.method not in READS or self._bind:
            # Not to a daemon that is about to be restarted, nor where the binding may be refused.
            await self._send(hello)
            self.daemon = await self._receive(hello_id)
            await self._replace_outdated()
            return await self._once(asked)
        call_id, line = self._line(asked.method, asked.params)
        await self._send(hello + line)
        self.daemon = await self._receive(hello_id)
        return await (self._once(asked) if await self._replace_outdated() else self._receive(call_id, asked))

    def _greeting(self) -> dict[str, Any]:
        return {**greeting(), **({"bind": self._bind} if self._bind else {})}

    def _line(self, method: str, params: dict[str, Any] | None) -> tuple[int, bytes]:
        self._last_id += 1
        self._awaited.add(self._last_id)
        return self._last_id, wire.encode_request(self._last_id, method, params)

    async def _receive(self, call_id: int, asked: Call | None = None) -> dict[str, Any]:
        """Read until the answer to `call_id` has come."""
        patience = (asked and asked.patience) or self._timeout
        while call_id not in self._early:
            message = wire.decode(await self._next(patience))
            if not isinstance(message, dict):
                raise MemdError("the daemon sent something that is not an answer", "restart it: memd restart")
            if message.get("method") == "progress" and asked and asked.on_progress:
                asked.on_progress(message["params"])
            elif "method" not in message:
                # An error without an id is about a line that could not be read, and only ours was sent.
                number = call_id if message.get("id") is None else message["id"]
                if number in self._awaited:
                    self._early[number] = message
            else:
                self._keep(message)
        answer = self._early.pop(call_id)
        if "error" in answer:
            wire.raise_error(answer["error"])
        return dict(answer["result"])

    def _keep(self, message: Any) -> None:
        """What a subscription sends while another call runs waits here for `told`."""
        if isinstance(message, dict) and message.get("method") in ("subscription", "watch"):
            self._told.append(message["params"])

    def _listening(self, told: Subscribed) -> Subscribed:
        self._subscribed = True
        return told

    async def _open(self) -> None:
        if not self._link:
            try:
                self._link = await self._connect()
            except NoDaemon:
                if not self._autostart:
                    raise
                from memd.protocol import start

                await self._do(start.start)
                self._link = await self._connect()

    # --- an upgrade -----------------------------------------------------------------------------------------

    async def _replace_outdated(self) -> bool:
        """After an upgrade the old daemon still runs: restart it, once."""
        theirs = str((self.daemon or {}).get("version", "of unknown version"))
        if theirs == __version__:
            return False
        if not self._autostart or _release(theirs) > _release(__version__):
            self._notice(f"the daemon is memd {theirs} and this is {__version__}; to change it: memd restart")
            return False
        self._notice(f"the daemon was still memd {theirs}; restarting it as {__version__}")
        self._hang_up()
        from memd.protocol import start

        await self._do(start.restart)
        await self._greet_new_daemon()
        return True

    async def _greet_new_daemon(self) -> None:
        await self._open()
        hello_id, hello = self._line("hello", self._greeting())
        await self._send(hello)
        self.daemon = await self._receive(hello_id)
        if self.daemon.get("version") != __version__:
            self._notice(
                f"it came back as memd {self.daemon.get('version')}: another installation of memd starts it; "
                "to make it this one: memd service install"
            )

    def _asked(
        self, method: str, params: dict[str, Any] | None, on_progress: Progress | None, timeout: float | None
    ) -> Call:
        params = params or {}
        if "who" not in params and (method in SIGNED | SHOWN or "request_id" in params):
            params = {**params, "who": self._who}
        return Call(method, params, on_progress, timeout or self._timeout)


class Conversation(Talk):
    """One connection to the daemon; the client adds a function for each method."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next call connects again."""
        self._hang_up()

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
        return _at_once(self._answer(self._asked(method, params, on_progress, timeout)))

    def _ask(
        self, method: str, params: dict[str, Any] | None = None, take: Callable[[Any], R] = as_it_is, **how: Any
    ) -> R:
        return take(self.call(method, params, **how))

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

    async def _connect(self) -> Connection:
        return Link(self.path, self._timeout)

    async def _send(self, data: bytes) -> None:
        self._link.send(data)

    async def _next(self, patience: float | None) -> bytes:
        return bytes(self._link.line(patience))

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _do(self, work: Callable[[], None]) -> None:
        work()


def _at_once(work: Coroutine[Any, Any, R]) -> R:
    """Run something to its end that waits for no loop."""
    try:
        work.send(None)
    except StopIteration as done:
        told: R = done.value
        return told
    work.close()
    raise RuntimeError("a call waited for a loop that is not there")


class Call:
    """What was asked, for when it must be asked again."""

    __slots__ = ("method", "on_progress", "params", "patience")

    def __init__(self, method: str, params: dict[str, Any], on_progress: Progress | None, patience: float) -> None:
        self.method = method
        self.params = {**params, "progress": True} if on_progress else params
        self.on_progress = on_progress
        self.patience = patience

    @property
    def repeatable(self) -> bool:
        """A write that carries a number of its own is done once, however often it is asked for."""
        return self.method in READS or bool(self.params.get("request_id"))


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
