"""The same client for asyncio: every method of `Client`, to be awaited.

from memd import AsyncClient
async with AsyncClient(autostart=True) as memory:
    for hit in (await memory.query("ErsatzTV"))["hits"]: ...
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self

from memd.errors import NoDaemon
from memd.protocol import wire
from memd.protocol.async_connection import AsyncConnection
from memd.protocol.connection import Closed
from memd.protocol.remote_methods import AsyncRemoteMethods
from memd.protocol.rpc_session import RpcSession

if TYPE_CHECKING:
    from memd.protocol.rpc_session import Progress


class AsyncSession(RpcSession):
    """One connection to the daemon, for the tasks of one loop; calls are made one after the other."""

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
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        on_progress: Progress | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Call any method and return its result; errors come back as the classes of memd.errors.

        `on_progress` gets `{"phase", "done", "total"}` now and then while a long call runs. `timeout` is the
        longest silence to bear in this call. A call that is cancelled may have been carried out.
        """
        async with self._turn:
            return await self._answer(self._asked(method, params, on_progress, timeout))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What the subscriptions of this connection send, as it comes; NoDaemon when the connection ends.

        Other tasks may go on calling meanwhile.
        """
        while (link := self._link) is not None and self._subscribed:
            while self._events:
                yield self._events.pop(0)
            await link.news(lambda: bool(self._events))
            async with self._turn:
                while self._link is link and link.ready:
                    self._keep(wire.decode(link.take()))
            if link.ended and not link.ready and not self._events:
                break
        await self.close()
        raise NoDaemon("the daemon hung up, and the subscriptions ended", "subscribe again")

    def _keep(self, message: Any) -> None:
        super()._keep(message)
        if self._link is not None:
            self._link.wake()

    async def _connect(self) -> AsyncConnection:
        return await AsyncConnection.to(self.path, self._timeout)

    async def _send(self, data: bytes) -> None:
        if self._link is None:
            raise Closed
        await self._link.send(data)

    async def _next(self, patience: float | None) -> bytes:
        if self._link is None:
            raise Closed
        return await self._link.line(patience)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _do(self, work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)


class AsyncClient(AsyncSession, AsyncRemoteMethods):
    """A connection to the daemon for asyncio: the methods of `Client`, each to be awaited.

    async with AsyncClient(autostart=True) as memory:
        for hit in (await memory.query("ErsatzTV"))["hits"]: ...

    `autostart`, `timeout`, `notice`, `bind`, `who` and `retries` are those of `Client`. Tasks of one loop may share a
    client; their calls take turns. What `subscribe` and `watch` send comes from `async for event in memory.events()`.
    """
