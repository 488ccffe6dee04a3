"""A few connections to the daemon that the requests of a front door borrow, so that a slow call holds up no other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from memd.protocol.async_client import AsyncClient

RETRIES = 6
"""A daemon that restarts is back within a few seconds; a write that has a number is then sent again."""


class ClientPool:
    """Clients of one kind; each connects when it is first borrowed."""

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
