"""One agent's MCP session: a connection's lines on one side, the official SDK on the other.

The SDK takes a second and some thirty megabytes to import. So the daemon imports this file when it is idle, or when
the first agent connects.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memd.errors import BadJson, BadRequest, Busy, MemdError, TooLarge
from memd.mcp.sdk_server import Context, SdkServer
from memd.mcp.tools import Call, Tool
from memd.protocol import wire

log = logging.getLogger("memd.mcp")

MAX_OPEN_REQUESTS = 256
"""Requests of one session that may be open; one more is told `busy`."""
LAST_ANSWERS_SECONDS = 30.0
"""How long a client that has closed its end still gets answers."""
LISTEN = "subscriptions/listen"
"""A request whose answer comes when the session ends."""

Incoming = SessionMessage | Exception
CallAs = Callable[[str, str], Call]
"""The way to the daemon for one request, by the client's name and the request's id."""


class CallLimit(Protocol):
    """How fast the connection may call."""

    def allows(self) -> bool: ...


class SessionConnection(Protocol):
    """The connection to the client."""

    @property
    def pace(self) -> CallLimit: ...

    @property
    def too_fast(self) -> MemdError: ...

    async def send(self, line: bytes) -> None: ...

    async def notify(self, line: bytes) -> None: ...


class LineSource(Protocol):
    """Lines from the client; None at their end."""

    async def next(self) -> bytes | None: ...


class McpSession:
    """One client, from its first line to its last."""

    def __init__(
        self, tools: dict[str, Tool], call_as: CallAs, connection: SessionConnection, *, structured_content: bool
    ) -> None:
        def call_for(context: Context) -> Call:
            params = context.session.client_params
            return call_as(params.client_info.name if params else "", str(context.request_id))

        self._server = SdkServer(lambda context: tools, call_for, structured_content=structured_content)
        self.files_changed = self._server.files_changed
        self._connection = connection
        self._open: set[str | int] = set()
        """Requests that have no answer yet."""
        self._settled = asyncio.Event()

    async def run(self, lines: LineSource) -> None:
        """Serve until the client hangs up."""
        to_sdk, from_client = anyio.create_memory_object_stream[Incoming](0)
        to_client, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        sdk = self._server.sdk
        parts: list[Coroutine[Any, Any, None]] = [
            self._read(lines, to_sdk),
            self._write(from_sdk),
            sdk.run(from_client, to_client, sdk.create_initialization_options()),
        ]
        notifier = asyncio.create_task(self._server.notify())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            # First the way out: the SDK would answer what is cut short, and the pump asks for it again elsewhere.
            from_sdk.close()
            for task in (*tasks, notifier):
                task.cancel()
            await asyncio.gather(*tasks, notifier, return_exceptions=True)
        for task in done:
            task.result()

    async def _read(self, lines: LineSource, to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        async with to_sdk:
            try:
                while (line := await lines.next()) is not None:
                    if line.strip():
                        await self._receive(line, to_sdk)
            except TooLarge as error:
                await self._connection.send(wire.encode_error(None, error))
            await self._all_settled()

    async def _receive(self, line: bytes, to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        message = _parse(line)
        if message is None:
            await self._connection.send(_refusal(line))
            return
        if isinstance(message, types.JSONRPCRequest):
            if (busy := self._busy()) is not None:
                await self._connection.send(wire.encode_error(message.id, busy))
                return
            if message.method != LISTEN:
                self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request is never answered.
            self._close_request((message.params or {}).get("requestId"))
        await to_sdk.send(SessionMessage(message))

    def _busy(self) -> MemdError | None:
        if not self._connection.pace.allows():
            return self._connection.too_fast
        if len(self._open) >= MAX_OPEN_REQUESTS:
            return Busy(f"{MAX_OPEN_REQUESTS} requests of this session are open", "wait for an answer first")
        return None

    async def _write(self, from_sdk: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_sdk:
            async for outgoing in from_sdk:
                message = outgoing.message
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                if isinstance(message, types.JSONRPCNotification):
                    await self._connection.notify(line)
                else:
                    await self._connection.send(line)
                    self._close_request(message.id)

    def _close_request(self, request: Any) -> None:
        if isinstance(request, str | int):
            self._open.discard(request)
        if not self._open:
            self._settled.set()

    async def _all_settled(self) -> None:
        """Wait for the open requests: a client that asks and hangs up, as a shell's pipe does, gets its answers."""
        self._settled.clear()
        if not self._open:
            return
        try:
            async with asyncio.timeout(LAST_ANSWERS_SECONDS):
                await self._settled.wait()
        except TimeoutError:
            log.info("a client left with %d requests unanswered", len(self._open))


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """The message of a line; None where it is not one of MCP."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return None
    # The SDK takes a request with a wrong id for a notification, which nobody would answer.
    if isinstance(message, types.JSONRPCRequest) or b'"id"' not in line or b'"method"' not in line:
        return message
    return None if _is_request(line) else message


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
    return wire.encode_error(_id_of(message), BadRequest("the line is not a message of MCP"))


def _id_of(message: Any) -> str | float | None:
    if not isinstance(message, dict) or ("method" not in message and message.keys() & {"result", "error"}):
        # A broken answer has one of our own ids, which may also be that of another request of the client.
        return None
    return wire.as_id(message.get("id"))
