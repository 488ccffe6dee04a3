"""One connection to the daemon's socket for asyncio: lines out, lines in, and what can go wrong in words."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Self

from memd.protocol.connection import MAX_REPLY, Closed, connect, silent

HELD = 256
"""Lines that wait here before the daemon has to wait."""


class AsyncConnection(asyncio.Protocol):
    """A connected socket that speaks in lines."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._transport: asyncio.Transport | None = None
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
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
        if self._transport is not None:
            self._transport.close()
        self.connection_lost(None)

    async def send(self, data: bytes) -> None:
        if self.ended or self._transport is None:
            raise Closed
        self._transport.write(data)
        await self._patiently(self._room, self._timeout)
        if self.ended:
            raise Closed

    async def line(self, patience: float | None) -> bytes:
        """The next line; NoDaemon when nothing comes for `patience` seconds. None waits for ever."""
        while not self._lines:
            if self.ended:
                raise Closed
            self._news.clear()
            await self._patiently(self._news, patience)
        return self.take()

    @property
    def ready(self) -> bool:
        """Whether a line is there."""
        return bool(self._lines)

    def take(self) -> bytes:
        """A line that is there."""
        line = self._lines.popleft()
        if len(self._lines) < HELD and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        return line

    async def news(self, enough: Callable[[], bool]) -> None:
        """Return when a line is there, the link has ended, or something else is `enough`."""
        while not (self._lines or self.ended or enough()):
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
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        if b"\n" not in data:
            self._parts.append(data)
            if self._size > MAX_REPLY:
                self.close()
            # Half a line is a sign of life.
            self.wake()
            return
        *lines, rest = b"".join([*self._parts, data]).split(b"\n")
        self._parts, self._size = [rest], len(rest)
        self._lines.extend(lines)
        if len(self._lines) >= HELD and self._transport is not None:
            self._transport.pause_reading()
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._room.set()
        self.wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
