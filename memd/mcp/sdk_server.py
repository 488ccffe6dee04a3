"""The only file that imports the official SDK: what an MCP client can ask of memd, answered by tools, resources and the
prompt, in a session over a connection's lines or over streamable HTTP.

The SDK takes a second and some thirty megabytes to import. So the daemon imports this file when it is idle, or when
the first agent connects.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memd.errors import BadJson, BadRequest, Busy, MemdError, NotFound, TooLarge, UsageError
from memd.mcp import resources
from memd.mcp.replies import Call
from memd.mcp.tools import DECLARED, Tool, input_schema
from memd.protocol import wire
from memd.version import __version__

log = logging.getLogger("memd.mcp")

SERVER_NAME = "memd"
INSTRUCTIONS = " ".join(DECLARED["instructions"].split())
MAX_SUBSCRIPTIONS = 1_000
MAX_STREAMS = 64
MARKDOWN = "text/markdown"
RESOURCE_NOT_FOUND = -32002
"""The code of older versions of the protocol."""

Context = ServerRequestContext[Any, Any]
ToolsFor = Callable[[Context], dict[str, Tool]]
CallFor = Callable[[Context], Call]
"""The tools that a request may use, and its way to the daemon."""
HttpScope = dict[str, Any]
"""A request as the front door knows it."""
T = TypeVar("T")


class SdkServer:
    """The SDK's server of one session, and what its client subscribed to; or of all requests that come by HTTP, which
    are told of no changes: one that listens would hold a connection for as long as its client likes."""

    def __init__(
        self, tools_for: ToolsFor, call_for: CallFor, *, structured_content: bool, announces: bool = True
    ) -> None:
        self._tools_for = tools_for
        self._call = call_for
        self._structured_content = structured_content
        self._bus = InMemorySubscriptionBus()
        self._listener = ListenHandler(self._bus, max_subscriptions=MAX_STREAMS)
        self._listened: Counter[tuple[str, str]] = Counter()
        """The resources that open streams listen for, each with its client's spelling."""
        self._subscribed: dict[str, str] = {}
        """The same for the protocol's older versions."""
        self._client: ServerSession | None = None
        self._changed: dict[str, None] = {}
        """Resources to notify of, in order; one that changes again before that is notified once."""
        self._wake = asyncio.Event()
        subscriptions: dict[str, Any] = {
            "on_subscribe_resource": self._subscribe,
            "on_unsubscribe_resource": self._unsubscribe,
            "on_subscriptions_listen": self._listen,
        }
        self.sdk: Server[dict[str, Any]] = Server(
            SERVER_NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            # No argument is repeated in a header; to find that out, the SDK would list all tools with every call.
            get_tool_input_schema=lambda name: None,
            **(subscriptions if announces else {}),
        )
        # It would report every message to a tracer; memd reports to nobody.
        self.sdk.middleware.clear()

    # --- tools and the prompt -----------------------------------------------------------------------------

    async def _list_tools(self, context: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declare(tool) for tool in self._tools_for(context).values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = self._tools_for(context)
        tool = tools.get(params.name)
        if tool is None:
            known = ", ".join(tools)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; known: {known}")
        reply = await tool.answer(self._call(context), params.arguments or {}, tools.values())
        # Clients that get data show the model that, and not the text.
        data = reply.data if self._structured_content else None
        content = types.TextContent(type="text", text=reply.text)
        return types.CallToolResult(content=[content], structured_content=data, is_error=reply.failed)

    async def _list_prompts(self, context: Context, params: Any) -> types.ListPromptsResult:
        takes = types.PromptArgument(name=resources.ABOUT, description=resources.ABOUT_MEANS, required=True)
        known = resources.PROMPT
        prompt = types.Prompt(name=known["name"], title=known["title"], description=known["about"], arguments=[takes])
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != (known := resources.PROMPT["name"]):
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}; known: {known}")
        text = await _or_error(resources.recall(self._call(context), params.arguments or {}))
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    # --- resources ----------------------------------------------------------------------------------------

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        page, cursor = await _or_error(resources.list_page(self._call(context), (params and params.cursor) or ""))
        found = [types.Resource(uri=uri, name=name, description=about, mime_type=MARKDOWN) for uri, name, about in page]
        return types.ListResourcesResult(resources=found, next_cursor=cursor or None)

    async def _list_templates(self, context: Context, params: Any) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type=MARKDOWN)
            for name, (uri, about) in resources.TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = await _or_error(resources.resource_text(self._call(context), uri))
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)])

    # --- subscriptions ------------------------------------------------------------------------------------

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uri = resources.canonical(str(params.uri))
        if not uri.startswith((resources.FILE, resources.TOPIC)):
            raise MCPError(types.INVALID_PARAMS, f"{uri!r} cannot be subscribed to; files and topics can")
        if len(self._subscribed) >= MAX_SUBSCRIPTIONS:
            raise MCPError(Busy.rpc_code, f"a session may have {MAX_SUBSCRIPTIONS} subscriptions")
        self._client = context.session
        self._subscribed[uri] = str(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.pop(resources.canonical(str(params.uri)), None)
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        spelled = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        listened = Counter((resources.canonical(uri), uri) for uri in spelled)
        self._listened += listened
        try:
            return await self._listener(context, params)
        finally:
            self._listened -= listened

    def files_changed(self, paths: tuple[str, ...]) -> None:
        """Files of the session's workspace changed or are gone; called on the loop."""
        watched = {uri for uri, _ in self._listened} | self._subscribed.keys()
        if watched:
            uris = (uri for path in paths for uri in resources.uris_of(path))
            self._changed |= dict.fromkeys(uri for uri in uris if uri in watched)
            self._wake.set()

    async def notify(self) -> None:
        """Notify of changes as long as the session lasts; a client that does not read holds up only this."""
        while await self._wake.wait():
            self._wake.clear()
            while self._changed:
                uri = next(iter(self._changed))
                del self._changed[uri]
                if uri in self._subscribed and self._client is not None:
                    await self._client.send_resource_updated(self._subscribed[uri])
                for spelled in [spelled for listened, spelled in self._listened if listened == uri]:
                    await self._bus.publish(ResourceUpdated(uri=spelled))


def _declare(tool: Tool) -> types.Tool:
    """Only the hints that differ from the protocol's defaults: the list is in every conversation."""
    hints = types.ToolAnnotations(open_world_hint=False)
    if tool.reads:
        hints.read_only_hint = True
    elif not tool.destroys:
        hints.destructive_hint = False
    if tool.repeatable:
        hints.idempotent_hint = True
    schema = input_schema(tool.parameters)
    return types.Tool(name=tool.name, title=tool.title, description=tool.about, input_schema=schema, annotations=hints)


async def _or_error(work: Awaitable[T]) -> T:
    """The result of `work`; memd's errors become those of the protocol."""
    try:
        return await work
    except MemdError as error:
        codes = {NotFound: RESOURCE_NOT_FOUND, UsageError: types.INVALID_PARAMS}
        code = next((code for kind, code in codes.items() if isinstance(error, kind)), error.rpc_code)
        hint = f" ({error.hint})" if error.hint else ""
        data = {"code": error.code, "hint": error.hint, "retryable": error.retryable}
        raise MCPError(code, f"{error.message}{hint}", data) from error


# --- a session over a connection's lines --------------------------------------------------------------------------

MAX_OPEN_REQUESTS = 256
"""Requests of one session that may be open; one more is told `busy`."""
LAST_ANSWERS_SECONDS = 30.0
"""How long a client that has closed its end still gets answers."""
LISTEN = "subscriptions/listen"
"""A request whose answer comes when the session ends."""

Incoming = SessionMessage | Exception
CallAs = Callable[[str, str], Call]
"""The way to the daemon for one request, by the client's name and the request's id."""


class SessionConnection(Protocol):
    """The connection to the client."""

    pace: wire.RateLimit
    too_fast: Busy

    async def send(self, line: bytes) -> None: ...

    async def notify(self, line: bytes) -> None: ...


class McpSession:
    """One client, from its first line to its last."""

    def __init__(
        self, tools: dict[str, Tool], call_as: CallAs, connection: SessionConnection, *, structured_content: bool
    ) -> None:
        def call_for(context: Context) -> Call:
            params = context.session.client_params
            return call_as(params.client_info.name if params else "", repr(context.request_id))

        self._server = SdkServer(lambda context: tools, call_for, structured_content=structured_content)
        self.files_changed = self._server.files_changed
        self._connection = connection
        self._open: set[str | int] = set()
        """Requests that have no answer yet."""
        self._settled = asyncio.Event()

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve until the client hangs up."""
        to_sdk, from_client = anyio.create_memory_object_stream[Incoming](0)
        to_client, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        sdk = self._server.sdk
        answering = sdk.run(from_client, to_client, sdk.create_initialization_options())
        notifier = asyncio.create_task(self._server.notify())
        parts = (self._read(lines, to_sdk), self._write(from_sdk), answering)
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

    async def _read(self, lines: AsyncIterator[bytes], to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        async with to_sdk:
            try:
                async for line in lines:
                    if line.strip():
                        await self._receive(line, to_sdk)
            except TooLarge as error:
                await self._connection.send(wire.encode_error(None, error))
            await self._all_settled()

    async def _receive(self, line: bytes, to_sdk: MemoryObjectSendStream[Incoming]) -> None:
        message = parse(line)
        if isinstance(message, bytes):
            await self._connection.send(message)
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


def parse(line: bytes) -> types.JSONRPCMessage | bytes:
    """The message of a line; where it is none, the one answer to it, with its id, so that its sender does not wait for
    another."""
    message: types.JSONRPCMessage | None = None
    with suppress(ValidationError):
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        # The SDK takes a request with a wrong id for a notification, which nobody would answer.
        if isinstance(message, types.JSONRPCRequest) or b'"id"' not in line or b'"method"' not in line:
            return message
    try:
        read = wire.decode(line)
    except BadJson as error:
        return message or wire.encode_error(None, error)
    if message is not None and ("method" not in read or read.get("id") is None):
        return message
    return wire.encode_error(_id_of(read), BadRequest("the line is not a message of MCP"))


def _id_of(message: Any) -> str | float | None:
    if not isinstance(message, dict) or ("method" not in message and message.keys() & {"result", "error"}):
        # A broken answer has one of our own ids, which may also be that of another request of the client.
        return None
    return wire.as_id(message.get("id"))


# --- over HTTP --------------------------------------------------------------------------------------------------------


def http_sessions(
    tools_for: Callable[[HttpScope], dict[str, Tool]], call_for: Callable[[HttpScope], Call], *,
    structured_content: bool, max_bytes: int,
) -> StreamableHTTPSessionManager:  # fmt: skip
    """`/mcp`: the SDK's session manager without sessions, each request with its own tools and workspaces."""
    server = SdkServer(
        lambda context: tools_for(_scope(context)), lambda context: call_for(_scope(context)),
        structured_content=structured_content, announces=False,
    )  # fmt: skip
    return StreamableHTTPSessionManager(
        server.sdk,
        json_response=True,
        stateless=True,
        # The front door has compared host and origin.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=max_bytes,
    )


def _scope(context: Context) -> HttpScope:
    assert context.request is not None
    return dict(context.request.scope)
