"""The socket: reads lines, asks the dispatcher, writes answers, and trusts no client to be quick or kind."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memd.config.schema import ServerSettings
from memd.daemon.rate_limit import RateLimit
from memd.errors import Busy, MemdError, TooLarge
from memd.protocol import wire
from memd.protocol.wire import MAX_REQUEST, RpcRequest

log = logging.getLogger("memd.server")

BACKLOG = 1024
READ_BYTES = 65_536
WRITE_BUFFER = 1 << 20
NOTICE_BUFFER = 1 << 16
"""Less than for an answer: a client that waits for notifications may not read for days."""
PEER = struct.Struct("3i")


def listen(path: Path) -> socket.socket:
    """Bind the socket, replacing one that a dead daemon left. Call it only while holding the lock."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    return listener


class Server:
    """Serves one listening socket."""

    def __init__(self, listener: socket.socket, dispatch: Dispatch, settings: ServerSettings) -> None:
        self._listener = listener
        self._dispatch = dispatch
        self._settings = settings
        self._clients: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._listener.setblocking(False)
        # From 3.13 on asyncio would remove the file when it closes, also one that systemd listens on.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await asyncio.start_unix_server(self._connected, sock=self._listener, backlog=BACKLOG, **options)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        line = ClientWriter(writer, self._settings.line_timeout_s, self._settings.calls_per_second)
        try:
            if _is_us(writer):
                await self._serve(ClientReader(reader, self._settings.line_timeout_s), line)
            line.leave()
            await line.close()
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            # Cancelled only by `stop`; Python 3.11 would log a conversation that ends so as an error.
            pass
        finally:
            self._clients.discard(task)
            line.leave()
            # What a client has not read by now is thrown away; merely closing would keep it for ever.
            writer.transport.abort()

    async def _serve(self, lines: ClientReader, out: ClientWriter) -> None:
        if len(self._clients) > self._settings.max_clients:
            await out.send(wire.encode_error(None, Busy("memd has too many connections", "try again in a moment")))
            return
        while True:
            try:
                line = await lines.next()
            except TooLarge as error:
                await out.send(wire.encode_error(None, error))
                return
            if line is None:
                return
            if line.strip():
                await self._answer(line, out)
            if out.successor is not None:
                await out.successor(lines)
                return

    async def _answer(self, line: bytes, out: ClientWriter) -> None:
        try:
            request = wire.decode_request(line)
        except MemdError as error:
            await out.send(wire.encode_error(None, error))
            return
        answer = await self._call(request, out) if out.pace.allows() else wire.encode_error(request.id, out.too_fast)
        if request.wants_answer:
            await out.send(answer)

    async def _call(self, request: RpcRequest, out: ClientWriter) -> bytes:
        try:
            told = await self._dispatch(request.method, request.params, IncomingCall(request, out))
            return wire.encode_result(request.id, told)
        except MemdError as error:
            return wire.encode_error(request.id, error)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            log.exception("a call of %s failed unexpectedly", request.method)
            return wire.encode_error(request.id, error)


class IncomingCall:
    """The call that a handler answers: where progress is reported, and the connection it came from."""

    def __init__(self, request: RpcRequest, line: ClientWriter) -> None:
        self._request = request
        self.line = line

    async def progress(self, phase: str, done: int, total: int) -> None:
        """IncomingCall the caller how far it is."""
        if self._request.wants_answer:
            params = {"id": self._request.id, "phase": phase, "done": done, "total": total}
            await self.line.send(wire.encode_notification("progress", params))


Dispatch = Callable[[str, dict[str, Any], IncomingCall], Awaitable[dict[str, Any]]]


class ClientReader:
    """Lines from a client: any wait before one begins, a short one until it ends, never more than the limit."""

    def __init__(self, reader: asyncio.StreamReader, seconds: float) -> None:
        self._reader = reader
        self._seconds = seconds
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        if not self._buffer:
            self._buffer += await self._reader.read(READ_BYTES)
            if not self._buffer:
                return None
        async with asyncio.timeout(self._seconds):
            while (end := self._buffer.find(b"\n")) < 0:
                if len(self._buffer) > MAX_REQUEST:
                    raise TooLarge(f"a request may have {MAX_REQUEST} bytes")
                more = await self._reader.read(READ_BYTES)
                if not more:
                    return None
                self._buffer += more
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


class ClientWriter:
    """The way to a client, which may read slowly or not at all."""

    def __init__(self, writer: asyncio.StreamWriter, seconds: float, per_second: int) -> None:
        self._writer = writer
        self._seconds = seconds
        self.pace = RateLimit(per_second)
        self.too_fast = Busy(f"a connection may make {per_second:,} calls a second", "this one was left undone; wait")
        self.bound = ""
        """The one workspace that this connection speaks of; empty means any."""
        self.closing: dict[int, Callable[[], None]] = {}
        """What ends with this connection, by a number of its own."""
        self.successor: Callable[[ClientReader], Awaitable[None]] | None = None
        """Who goes on with the connection, in a protocol of its own, once the answer is out."""
        writer.transport.set_write_buffer_limits(high=WRITE_BUFFER)

    async def send(self, line: bytes) -> None:
        """Send an answer; a client that asked and does not read is cut off."""
        self._writer.write(line)
        async with asyncio.timeout(self._seconds):
            await self._writer.drain()

    async def notify(self, line: bytes) -> None:
        """Send something that was not asked for just now: it waits as long as the client does not read."""
        self._writer.transport.set_write_buffer_limits(high=NOTICE_BUFFER)
        self._writer.write(line)
        await self._writer.drain()
        # `drain` lets nobody else in while the client keeps up, and there may be thousands of these.
        await asyncio.sleep(0)

    def leave(self) -> None:
        for end in list(self.closing.values()):
            end()

    async def close(self) -> None:
        """Hang up when everything has been read, or when that takes too long."""
        self._writer.close()
        async with asyncio.timeout(self._seconds):
            await self._writer.wait_closed()


def _is_us(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end belongs to the same user; nobody else is listened to."""
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    _, uid, _ = PEER.unpack(peer)
    if uid == os.getuid():
        return True
    log.warning("a connection of uid %d was closed", uid)
    return False
