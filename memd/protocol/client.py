"""The Python client: one connection to the daemon, and a method for everything it can do.

from memd import Client
with Client(autostart=True) as memory:
    for hit in memory.query("ErsatzTV")["hits"]: ...

`RpcSession` is a session with the daemon: connect, greet, call, read until the answer has come, connect again. It
awaits its connection. That of `Client` blocks and never really waits, so a call runs to its end in one go, without a
loop. Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os
import time

from memd.config.paths import socket_path_str
from memd.errors import MemdError, NoDaemon
from memd.protocol import wire
from memd.protocol.connection import Closed, Connection
from memd.protocol.method_table import METHODS, LightMethod
from memd.protocol.remote_methods import RemoteMethods
from memd.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any, Self, TypeVar

    from memd.protocol.unanswered import UnansweredWrite

    R = TypeVar("R")
    Progress = Callable[[dict[str, Any]], None]


TIMEOUT = 30.0
UNKNOWN = LightMethod("")
"""A method that this client has not heard of."""
UNGREETED = frozenset({"hello", "ping", "shutdown"})
"""Methods for which the daemon's version does not matter."""
WHO = "python"
PAUSE = 0.1
"""Seconds before the second retry; twice as long before each further one."""


class RpcSession:
    """One connection to the daemon, whichever way its lines come and go."""

    def __init__(
        self, socket: str | os.PathLike[str] | None = None, autostart: bool = False, timeout: float = TIMEOUT,
        notice: Callable[[str], None] | None = None, *, bind: str | None = None, who: str | None = None,
        retries: int = 3, mask_secrets: bool = False, token: str | None = None,
    ) -> None:  # fmt: skip
        self.path = os.fspath(socket) if socket else socket_path_str()
        self.daemon: dict[str, Any] | None = None
        """The answer of `hello`: version, pid, protocol, capabilities, limits."""
        self._autostart = autostart and socket is None
        self._timeout = timeout
        self._notice = notice or (lambda message: None)
        self._bind = bind
        self._who = who or WHO
        self._retries = retries
        self._mask_secrets = mask_secrets
        self._token = token
        self._link: Any = None
        self._early: dict[int, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._subscribed = False
        self._last_id = 0

    if TYPE_CHECKING:
        # What a link can do; each kind of client has its own.
        async def _to_socket(self) -> Any: ...
        async def _pause(self, seconds: float) -> None: ...
        async def _do(self, work: Callable[[], None]) -> None:
            """Something that takes seconds, such as starting a daemon."""

    # --- a call ---------------------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        if self._link:
            self._link.close()
        self._link, self.daemon = None, None
        self._early.clear()
        self._events.clear()
        self._subscribed = False

    async def _answer(self, asked: Call) -> dict[str, Any]:
        """The answer to a call; what may have been carried out without one is remembered."""
        try:
            result = await self._answer_or_retry(asked)
        except BaseException as error:
            if not asked.in_doubt:
                raise
            hint = "see whether it was: memd log"
            if asked.params.get("request_id"):
                self._unanswered(asked.method, asked.params).remember(asked.params["request_id"])
                hint += "; if repeated within ten minutes, it is not carried out twice"
            if isinstance(error, NoDaemon):
                raise NoDaemon(f"{error.message}; this may still be carried out", hint) from None
            raise
        if asked.known.writes:
            self._unanswered(asked.method, asked.params).forget()
        return result

    def _unanswered(self, method: str, params: dict[str, Any]) -> UnansweredWrite:
        from memd.protocol.unanswered import UnansweredWrite

        return UnansweredWrite(self.path, method, params)

    async def _answer_or_retry(self, asked: Call) -> dict[str, Any]:
        """Where that does no harm, a call is sent again when the connection was lost."""
        # A write that carries a number of its own is done once, however often it is asked for.
        repeatable = asked.known.reads or asked.params.get("request_id")
        # The daemon may have stopped since the last call, or be stopping just now.
        left = self._retries if repeatable else 0
        lost = 0
        while True:
            try:
                result = await self._once(asked)
                self._subscribed |= asked.known.notifies
                return result
            except Closed:
                self._hang_up()
                if lost == left:
                    hint = "see why: memd logs; then try again"
                    raise NoDaemon("the daemon hung up before it answered", hint) from None
            except NoDaemon:
                self._hang_up()
                if lost in (0, left):
                    raise
            lost += 1
            if lost > 1:
                await self._pause(PAUSE * 2 ** (lost - 2))

    async def _once(self, asked: Call) -> dict[str, Any]:
        # Answers that nobody waits for any more: their calls were given up.
        self._early.clear()
        await self._open()
        if self.daemon is None and (asked.method not in UNGREETED or (self._bind and asked.method != "hello")):
            return await self._ask_and_greet(asked)
        call_id, line = self._line(asked)
        asked.in_doubt = asked.known.writes
        await self._through_link("send", line)
        return await self._receive(call_id, asked)

    async def _ask_and_greet(self, asked: Call) -> dict[str, Any]:
        """The first call: `hello` goes along in the same write, to learn the daemon's version."""
        if not asked.known.reads or self._bind:
            # Not to a daemon that is about to be restarted, nor where the binding may be refused.
            await self._greet()
            await self._replace_outdated()
            return await self._once(asked)
        call_id, line = self._line(asked)
        await self._greet(line)
        return await (self._once(asked) if await self._replace_outdated() else self._receive(call_id, asked))

    def _greeting(self) -> dict[str, Any]:
        # A hub keeps nothing between requests: each of them has the options in its address.
        options = {} if self._remote else {"bind": self._bind, "mask_secrets": self._mask_secrets}
        about = {"client": "memd", "version": __version__, "protocol": wire.PROTOCOL}
        return {**about, **{name: value for name, value in options.items() if value}}

    @property
    def _remote(self) -> bool:
        """Whether a hub is asked, at an address of the web."""
        return self.path.startswith(("http://", "https://"))

    def _line(self, asked: Call) -> tuple[int, bytes]:
        self._last_id += 1
        return self._last_id, wire.encode_request(self._last_id, asked.method, asked.params)

    async def _receive(self, call_id: int, asked: Call) -> dict[str, Any]:
        """Read until the answer to `call_id` has come."""
        while call_id not in self._early:
            message = wire.decode(await self._through_link("line", asked.patience))
            if not isinstance(message, dict):
                raise MemdError("the daemon sent something that is not an answer", "restart it: memd restart")
            if message.get("method") == "progress" and asked.on_progress:
                asked.on_progress(message["params"])
            elif "method" not in message:
                # An error without an id is about a line that could not be read, and only ours was sent.
                self._early[call_id if message.get("id") is None else message["id"]] = message
            else:
                self._keep(message)
        answer = self._early.pop(call_id)
        asked.in_doubt = False
        if "error" in answer:
            wire.raise_error(answer["error"])
        return dict(answer["result"])

    def _keep(self, message: Any) -> None:
        """Events that come while another call runs wait here for `events`."""
        if isinstance(message, dict) and message.get("method") in ("subscription", "watch"):
            self._events.append(message["params"])

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

    async def _connect(self) -> Any:
        if not self._remote:
            return await self._to_socket()
        from memd.protocol.http_connection import HttpConnection

        options = {"ns": self._bind, "mask_secrets": "1" if self._mask_secrets else None}
        about = {name: value for name, value in options.items() if value}
        return HttpConnection(self.path, self._timeout, self._token, about)

    async def _through_link(self, method: str, argument: Any) -> Any:
        """What a method of the link returns: one that blocks has done its work then, one for asyncio is awaited."""
        if self._link is None:
            raise Closed
        done = getattr(self._link, method)(argument)
        return await done if hasattr(done, "__await__") else done

    # --- an upgrade -----------------------------------------------------------------------------------------

    async def _replace_outdated(self) -> bool:
        """After an upgrade the old daemon still runs: restart it, once."""
        theirs = str((self.daemon or {}).get("version", "of unknown version"))
        if theirs == __version__:
            return False
        if not self._autostart or _release(theirs) > _release(__version__):
            peer, advice = ("hub", "") if self._remote else ("daemon", "; to change it: memd restart")
            self._notice(f"the {peer} is memd {theirs} and this is {__version__}{advice}")
            return False
        self._notice(f"the daemon was still memd {theirs}; restarting it as {__version__}")
        self._hang_up()
        from memd.protocol import start

        await self._do(start.restart)
        await self._open()
        if (version := await self._greet()) != __version__:
            other = f"it came back as memd {version}: another installation of memd starts it"
            self._notice(f"{other}; to make it this one: memd service install")
        return True

    async def _greet(self, along: bytes = b"") -> str:
        """The version of the daemon; `along` is a call that goes in the same write, after the greeting."""
        asked = Call("hello", self._greeting(), self._who, None, self._timeout)
        hello_id, hello = self._line(asked)
        await self._through_link("send", hello + along)
        self.daemon = await self._receive(hello_id, asked)
        return str(self.daemon.get("version"))

    def _call_params(self, method: str, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a client's method as the wire has them; writes get a number, so they can be sent again."""
        known = METHODS[method]
        if len(positional) > len(known.args):
            raise TypeError(f"{method} takes {len(known.args)} positional arguments, not {len(positional)}")
        given = dict(zip(known.args, positional, strict=False))
        given |= {name.rstrip("_"): value for name, value in named.items()}
        params = {name: value for name, value in given.items() if value is not None}
        params |= {name: _absolute(params[name]) for name in known.paths if name in params}
        if method == "hello":
            params = {**self._greeting(), **params}
        if not known.writes or "request_id" in params:
            return params
        before = self._unanswered(method, {"who": self._who, **params}).request_id
        return {"request_id": before or os.urandom(8).hex(), **params}


class Client(RpcSession, RemoteMethods):
    """A connection to the daemon, opened when it is first needed.

    with Client(autostart=True) as memory:
        for hit in memory.query("ErsatzTV")["hits"]: ...

    `autostart` starts a daemon when none runs, and restarts one that is older than this client. `timeout` is how long
    to wait in silence, in seconds. `notice` is called with what a person might want to know. `bind` is the one
    workspace that this client speaks of; `who` is noted as the author of what it writes. A call is sent again up to
    `retries` times when the connection is lost; a write is carried out once all the same. `mask_secrets` masks what
    looks like a secret in every answer, as for a model. Errors are those of memd.errors. One thread at a time may use
    a client.

    `Client("https://memory.example.org")` asks a hub, with the `token` that is given, else the one in MEMD_TOKEN or in
    the token file.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._hang_up()

    def call(
        self, method: str, params: dict[str, Any] | None = None, *, on_progress: Progress | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Call any method and return its result; errors come back as the classes of memd.errors.

        `on_progress` gets `{"phase", "done", "total"}` now and then while a long call runs. `timeout` is the
        longest silence to bear in this call.
        """
        return _at_once(self._answer(Call(method, params, self._who, on_progress, timeout or self._timeout)))

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of this connection's subscriptions, as they come; NoDaemon when the connection ends."""
        while self._link and self._subscribed:
            if not self._events:
                try:
                    self._keep(wire.decode(self._link.line(None)))
                except Closed:
                    break
            while self._events:
                yield self._events.pop(0)
        self.close()
        raise NoDaemon("the daemon hung up, and the subscriptions ended", "subscribe again")

    async def _to_socket(self) -> Any:
        return Connection(self.path, self._timeout)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _do(self, work: Callable[[], None]) -> None:
        work()


def _at_once(work: Coroutine[Any, Any, R]) -> R:
    """Run something to its end that waits for no loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    work.close()
    raise RuntimeError("a call waited for a loop that is not there")


class Call:
    """A call, for when it must be made again."""

    __slots__ = ("in_doubt", "known", "method", "on_progress", "params", "patience")

    def __init__(
        self, method: str, params: dict[str, Any] | None, who: str, on_progress: Progress | None, patience: float
    ) -> None:
        self.method = method
        self.known = METHODS.get(method, UNKNOWN)
        signature = {"who": who} if self.known.signed else {}
        self.params = {**signature, **(params or {}), **({"progress": True} if on_progress else {})}
        self.on_progress = on_progress
        self.patience = patience
        self.in_doubt = False
        """Whether it is a write that was sent and has no answer."""


def _absolute(path: Any) -> Any:
    """Paths are those of the caller's directory; the daemon has another one."""
    if isinstance(path, list | tuple):
        return [os.path.abspath(one) for one in path]  # noqa: PTH100
    return os.path.abspath(path)  # noqa: PTH100


def _release(version: str) -> list[int]:
    """`0.2.10` as numbers that compare; what follows the numbers does not count."""
    from itertools import takewhile

    return [int(part) for part in takewhile(str.isdigit, version.split("."))]
