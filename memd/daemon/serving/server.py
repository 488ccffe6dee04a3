"""The socket: reads lines, asks the dispatcher, writes answers, and trusts no client to be quick or well-behaved."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from memd.config.schema import ServerSettings
from memd.errors import Busy, MemdError, TooLarge
from memd.protocol import wire
from memd.protocol.connection import BACKLOG, peer_uid
from memd.protocol.wire import MAX_REQUEST, RateLimit, RpcRequest

log = logging.getLogger("memd.server")

READ_BYTES = 65_536
WRITE_BUFFER = 1 << 20
NOTICE_BUFFER = 1 << 16
"""Less than for an answer: a client that waits for notifications may not read for days."""


class Server:
    """Serves one listening socket."""

    def __init__(self, listener: socket.socket, dispatch: Dispatch, settings: ServerSettings) -> None:
        self._listener = listener
        self._dispatch = dispatch
        self._settings = settings
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._listener.setblocking(False)
        # From 3.13 on asyncio would remove the file when it closes, also one that systemd listens on.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await asyncio.start_unix_server(self._connected, sock=self._listener, backlog=BACKLOG, **options)

    async def listen_at(self, listener: socket.socket) -> None:
        """Listen at another socket from now on; connections stay."""
        former, self._listener = self._server, listener
        await self.start()
        former.close()

    async def stop(self) -> None:
        self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        connection = ClientConnection(writer, self._settings.line_timeout_s, self._settings.calls_per_second)
        try:
            if _same_user(writer):
                await self._serve(read_lines(reader, self._settings.line_timeout_s), connection)
            connection.end_subscriptions()
            await connection.close()
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            # Cancelled by `stop`, or since the client had gone before its write began. Python 3.11 would log a
            # conversation that ends so as an error.
            pass
        finally:
            self._clients.discard(task)
            connection.end_subscriptions()
            # What a client has not read by now is thrown away; merely closing would keep it for ever.
            writer.transport.abort()

    async def _serve(self, lines: AsyncIterator[bytes], connection: ClientConnection) -> None:
        if len(self._clients) > self._settings.max_clients:
            await connection.send_error(Busy("memd has too many connections", "try again in a moment"))
            return
        try:
            async for line in lines:
                if line.strip():
                    await self._answer(line, connection)
                if connection.successor is not None:
                    break
        except TooLarge as error:
            await connection.send_error(error)
        if connection.successor is not None:
            await connection.successor(lines)

    async def _answer(self, line: bytes, connection: ClientConnection) -> None:
        try:
            request = wire.decode_request(line)
        except MemdError as error:
            await connection.send_error(error)
            return
        if connection.pace.allows():
            answer = await self._call(request, connection)
        else:
            answer = wire.encode_error(request.id, connection.too_fast)
        if request.wants_answer:
            await connection.send(answer)

    async def _call(self, request: RpcRequest, connection: ClientConnection) -> bytes:
        try:
            result = await self._dispatch(request.method, request.params, IncomingCall(request, connection))
            return wire.encode_result(request.id, result)
        except MemdError as error:
            return wire.encode_error(request.id, error)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            log.exception("a call of %s failed unexpectedly", request.method)
            return wire.encode_error(request.id, error)


class IncomingCall:
    """The call that a handler answers: where progress is reported, and the connection it came from."""

    def __init__(self, request: RpcRequest, connection: ClientConnection) -> None:
        self._request = request
        self.connection = connection
        self.begun = False
        """Whether the writer has begun with it."""

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the answer any more; an MCP session and a notification never do."""
        return self._request.wants_answer and self.connection.successor is None and self.connection.gone

    async def progress(self, phase: str, done: int, total: int) -> None:
        """Tell the caller how far it is."""
        if self._request.wants_answer:
            params = {"id": self._request.id, "phase": phase, "done": done, "total": total}
            await self.connection.send(wire.encode_notification("progress", params))


Dispatch = Callable[[str, dict[str, Any], IncomingCall], Awaitable[dict[str, Any]]]


async def read_lines(reader: asyncio.StreamReader, seconds: float) -> AsyncIterator[bytes]:
    """Lines from a client: any wait before one begins, a short one until it ends, never more than the limit."""
    buffer = bytearray()
    while buffer := buffer or bytearray(await reader.read(READ_BYTES)):
        async with asyncio.timeout(seconds):
            while (end := buffer.find(b"\n")) < 0:
                if len(buffer) > MAX_REQUEST:
                    raise TooLarge(f"a request may have {MAX_REQUEST} bytes")
                if not (more := await reader.read(READ_BYTES)):
                    return
                buffer += more
        line = bytes(buffer[: end + 1])
        del buffer[: end + 1]
        yield line


class ClientConnection:
    """A client's connection: the way to it, and what it is bound to. The client may read slowly or not at all."""

    def __init__(self, writer: asyncio.StreamWriter, seconds: float, per_second: int) -> None:
        self._writer = writer
        self._seconds = seconds
        self.pace = RateLimit(per_second)
        self.too_fast = Busy(f"a connection may make {per_second:,} calls a second", "this one was not made; wait")
        self.bound = ""
        """The one workspace that this connection may speak of; empty means any."""
        self.root: Path | None = None
        """Its directory: another one may get the name."""
        self.mask_secrets = False
        """A model reads the answers."""
        self.subscriptions: dict[int, Callable[[], None]] = {}
        """How to end each subscription of this connection, by its number."""
        self.successor: Callable[[AsyncIterator[bytes]], Awaitable[None]] | None = None
        """Takes over the connection, in a protocol of its own, once the answer is out."""
        writer.transport.set_write_buffer_limits(high=WRITE_BUFFER)

    @property
    def gone(self) -> bool:
        """Whether the client has closed its end; one that has merely finished sending has not. For any thread."""
        number = self._writer.get_extra_info("socket").fileno()
        if number < 0:
            return True
        hung_up = select.poll()
        hung_up.register(number, 0)
        return bool(hung_up.poll(0))

    async def send(self, line: bytes) -> None:
        """Send an answer; a client that asked and does not read is cut off."""
        self._writer.write(line)
        async with asyncio.timeout(self._seconds):
            await self._writer.drain()

    async def send_error(self, error: MemdError) -> None:
        """Answer something that has no id."""
        await self.send(wire.encode_error(None, error))

    async def notify(self, line: bytes) -> None:
        """Send something that was not asked for just now: it waits as long as the client does not read."""
        self._writer.transport.set_write_buffer_limits(high=NOTICE_BUFFER)
        self._writer.write(line)
        await self._writer.drain()
        # `drain` lets nobody else in while the client keeps up, and there may be thousands of these.
        await asyncio.sleep(0)

    def end_subscriptions(self) -> None:
        for end in list(self.subscriptions.values()):
            end()

    async def close(self) -> None:
        """Hang up when everything has been read, or when that takes too long."""
        self._writer.close()
        async with asyncio.timeout(self._seconds):
            await self._writer.wait_closed()


def _same_user(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end belongs to the same user; nobody else is listened to."""
    uid = peer_uid(writer.get_extra_info("socket"))
    if uid == os.getuid():
        return True
    log.warning("a connection of uid %d was closed", uid)
    return False
