"""One agent's MCP session: a connection's lines on one side, the official SDK on the other.

The SDK takes a second and some thirty megabytes to import. So the daemon imports this file when it has nothing else
to do, or when the first agent calls, and never before it answers others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memd.errors import BadJson, BadRequest, Busy, MemdError, TooLarge
from memd.mcp.service import Asking, Service
from memd.mcp.tools import Tool
from memd.protocol import wire

log = logging.getLogger("memd.mcp")

MOST_AT_ONCE = 256
"""Requests of one session that may be under way; one more is told `busy`."""
LAST_WORDS_SECONDS = 30.0
"""How long answers are still made for a client that has finished asking."""
LISTEN = "subscriptions/listen"
"""A request whose answer comes when the session ends."""

Incoming = SessionMessage | Exception


class Pace(Protocol):
    """How fast the connection may call."""

    def allows(self) -> bool: ...


class Way(Protocol):
    """The connection's way to the client."""

    @property
    def pace(self) -> Pace: ...

    @property
    def too_fast(self) -> MemdError: ...

    async def send(self, line: bytes) -> None: ...

    async def notify(self, line: bytes) -> None: ...


class Lines(Protocol):
    """What comes from the client; None at its end."""

    async def next(self) -> bytes | None: ...


class Session:
    """One client, from its first line to its last."""

    def __init__(self, tools: dict[str, Tool], asking: Asking, way: Way) -> None:
        self._service = Service(tools, asking)
        self.changed = self._service.changed
        self._way = way
        self._open: set[str | int] = set()
        """Requests that have no answer yet."""
        self._settled = asyncio.Event()

    async def run(self, lines: Lines) -> None:
        """Serve until the client hangs up."""
        to_sdk, from_client = anyio.create_memory_object_stream[Incoming](0)
        to_client, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        server = self._service.server
        parts: list[Coroutine[Any, Any, None]] = [
            self._read(lines, to_sdk),
            self._write(from_sdk),
            server.run(from_client, to_client, server.create_initialization_options()),
        ]
        teller = asyncio.create_task(self._service.tell())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            # First the way out: the SDK would answer what is cut short, and the pump asks for it again elsewhere.
            from_sdk.close()
            for task in (*tasks, teller):
                task.cancel()
            await asyncio.gather(*tasks, teller, return_exceptions=True)
        for task in done:
            task.result()

    async def _read(self, lines: Lines, to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        async with to_sdk:
            try:
                while (line := await lines.next()) is not None:
                    if line.strip():
                        await self._take(line, to_sdk)
            except TooLarge as error:
                await self._way.send(wire.encode_error(None, error))
            await self._all_settled()

    async def _take(self, line: bytes, to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        message = _message(line)
        if message is None:
            await self._way.send(_refusal(line))
            return
        if isinstance(message, types.JSONRPCRequest):
            if (busy := self._too_much()) is not None:
                await self._way.send(wire.encode_error(message.id, busy))
                return
            if message.method != LISTEN:
                self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # It is never answered.
            self._settle((message.params or {}).get("requestId"))
        await to_sdk.send(SessionMessage(message))

    def _too_much(self) -> MemdError | None:
        if not self._way.pace.allows():
            return self._way.too_fast
        if len(self._open) >= MOST_AT_ONCE:
            return Busy(f"{MOST_AT_ONCE} requests of this session are under way", "wait for an answer first")
        return None

    async def _write(self, from_sdk: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_sdk:
            async for told in from_sdk:
                message = told.message
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                if isinstance(message, types.JSONRPCNotification):
                    await self._way.notify(line)
                else:
                    await self._way.send(line)
                    self._settle(message.id)

    def _settle(self, request: Any) -> None:
        if isinstance(request, str | int):
            self._open.discard(request)
        if not self._open:
            self._settled.set()

    async def _all_settled(self) -> None:
        """A client that asks and hangs up, as a shell's pipe does, gets its answers all the same."""
        self._settled.clear()
        if not self._open:
            return
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._settled.wait()
        except TimeoutError:
            log.info("a client left %d requests unanswered", len(self._open))


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """What the line says; None where it is no message of MCP."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return None
    # A request with a wrong id passes for a notification, which nobody would answer.
    if not isinstance(message, types.JSONRPCRequest) and b'"id"' in line and b'"method"' in line:
        return None if _is_request(line) else message
    return message


def _is_request(line: bytes) -> bool:
    try:
        message = wire.decode(line)
    except BadJson:
        return False
    return isinstance(message, dict) and "method" in message and message.get("id") is not None


def _refusal(line: bytes) -> bytes:
    """The one answer to a line that is no message; with its id, so that its sender does not wait for another."""
    try:
        message = wire.decode(line)
    except BadJson as error:
        return wire.encode_error(None, error)
    return wire.encode_error(_number(message), BadRequest("the line is not a message of MCP"))


def _number(message: Any) -> str | float | None:
    if not isinstance(message, dict) or ("method" not in message and message.keys() & {"result", "error"}):
        # A broken answer has one of our own numbers, which may be that of another request of the client.
        return None
    number = message.get("id")
    return number if isinstance(number, str | int | float) and not isinstance(number, bool) else None
