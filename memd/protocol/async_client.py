"""The same client for asyncio: every method of `Client`, to be awaited.

from memd import AsyncClient
async with AsyncClient(autostart=True) as memory:
    for hit in (await memory.query("ErsatzTV"))["hits"]: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self, cast

from memd.errors import NoDaemon
from memd.protocol import wire
from memd.protocol.client import Call, RpcSession
from memd.protocol.connection import MAX_REPLY, Closed, connect, silent
from memd.protocol.remote_methods import AsyncRemoteMethods

# --- the connection -------------------------------------------------------------------------------------------


HELD = 256
"""Lines that wait here before the daemon has to wait."""


class AsyncConnection(asyncio.Protocol):
    """A connected socket that speaks in lines."""

    _transport: asyncio.Transport

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.lines: deque[bytes] = deque()
        """Those that are there; `take` takes one."""
        self._rest = bytearray()
        """The bytes of the next one that have come."""
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.ended = False

    @classmethod
    async def to(cls, path: str, timeout: float) -> Self:
        """A link to a daemon of this user, or NoDaemon."""
        # In a thread: where the queue of connections is full, it waits for a place in it.
        raw = await asyncio.to_thread(connect, path, timeout)
        link = cls(timeout)
        connected = socket.socket(fileno=raw.detach())
        connected.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=connected)
        return link

    def close(self) -> None:
        self._transport.close()
        self.connection_lost(None)

    async def send(self, data: bytes) -> None:
        if self.ended:
            raise Closed
        self._transport.write(data)
        await self._patiently(self._room, self._timeout)
        if self.ended:
            raise Closed

    async def line(self, patience: float | None) -> bytes:
        """The next line; NoDaemon when nothing comes for `patience` seconds. None waits for ever."""
        while not self.lines:
            if self.ended:
                raise Closed
            self._news.clear()
            await self._patiently(self._news, patience)
        return self.take()

    def take(self) -> bytes:
        """A line that is there."""
        line = self.lines.popleft()
        if len(self.lines) < HELD and not self._transport.is_closing():
            self._transport.resume_reading()
        return line

    async def news(self, enough: Callable[[], bool]) -> None:
        """Return when a line is there, the link has ended, or something else is `enough`."""
        while not (self.lines or self.ended or enough()):
            self._news.clear()
            await self._news.wait()

    def wake(self) -> None:
        """Have those look again who wait for news."""
        self._news.set()

    async def _patiently(self, event: asyncio.Event, patience: float | None) -> None:
        try:
            async with asyncio.timeout(patience):
                await event.wait()
        except TimeoutError:
            raise silent(patience or 0) from None

    # --- what the loop calls --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's are of classes of their own.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if b"\n" in data:
            *lines, self._rest = self._rest.split(b"\n")
            self.lines.extend(map(bytes, lines))
        if len(self.lines) >= HELD:
            self._transport.pause_reading()
        if len(self._rest) > MAX_REPLY:
            self.close()
        # Half a line is a sign of life.
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._room.set()
        self.wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()


if TYPE_CHECKING:
    from memd.protocol.client import Progress


class AsyncClient(RpcSession, AsyncRemoteMethods):
    """A connection to the daemon for asyncio: the methods of `Client`, each to be awaited.

    async with AsyncClient(autostart=True) as memory:
        for hit in (await memory.query("ErsatzTV"))["hits"]: ...

    `autostart`, `timeout`, `notice`, `bind`, `who`, `retries` and `token` are those of `Client`. Tasks of one loop may
    share a client; their calls take turns. What `subscribe` and `watch` send comes from `async for event in
    memory.events()`.
    """

    _link: AsyncConnection | None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; the next call connects again."""
        self._hang_up()

    @functools.cached_property
    def _turn(self) -> asyncio.Lock:
        """The daemon serves a connection one request at a time, so nothing is lost by waiting here."""
        return asyncio.Lock()

    async def call(
        self, method: str, params: dict[str, Any] | None = None, *, on_progress: Progress | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Call any method and return its result; errors come back as the classes of memd.errors.

        `on_progress` gets `{"phase", "done", "total"}` now and then while a long call runs. `timeout` is the
        longest silence to bear in this call. A call that is cancelled may have been carried out.
        """
        async with self._turn:
            return await self._answer(Call(method, params, self._who, on_progress, timeout or self._timeout))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The events of this connection's subscriptions, as they come; NoDaemon when the connection ends.

        Other tasks may go on calling meanwhile.
        """
        while (link := self._link) is not None and self._subscribed:
            while self._events:
                yield self._events.pop(0)
            await link.news(lambda: bool(self._events))
            async with self._turn:
                while self._link is link and link.lines:
                    self._keep(wire.decode(link.take()))
            if link.ended and not link.lines and not self._events:
                break
        await self.close()
        raise NoDaemon("the daemon hung up, and the subscriptions ended", "subscribe again")

    def _keep(self, message: Any) -> None:
        super()._keep(message)
        if isinstance(self._link, AsyncConnection):
            self._link.wake()

    async def _to_socket(self) -> Any:
        return await AsyncConnection.to(self.path, self._timeout)

    async def _through_link(self, method: str, argument: Any) -> Any:
        if not self._remote or self._link is None:
            return await super()._through_link(method, argument)
        try:
            # A connection to a hub blocks: each exchange waits in a thread.
            return await asyncio.to_thread(getattr(self._link, method), argument)
        except asyncio.CancelledError:
            # The thread goes on with that connection until its answer comes; the next call makes another one.
            self._link = None
            raise

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _do(self, work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)


# --- several of them ------------------------------------------------------------------------------------------


RETRIES = 6
"""A daemon that restarts is back within a few seconds; a write that has a number is then sent again."""


class ClientPool:
    """Clients that the requests of a front door borrow, so that a slow call holds up no other; each connects when it is
    first borrowed."""

    def __init__(self, count: int, new_client: Callable[[], AsyncClient]) -> None:
        self._idle: asyncio.LifoQueue[AsyncClient] = asyncio.LifoQueue()
        for _ in range(count):
            self._idle.put_nowait(new_client())

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncClient]:
        borrowed = await self._idle.get()
        try:
            yield borrowed
        finally:
            self._idle.put_nowait(borrowed)
