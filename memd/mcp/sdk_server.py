"""What an MCP client can ask of memd: the SDK's requests, answered by tools, resources and the prompt; in a session, or
over streamable HTTP."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from memd.errors import Busy, MemdError, NotFound, UsageError
from memd.mcp import resources
from memd.mcp.tools import DECLARED, Call, Tool
from memd.version import __version__

NAME = "memd"
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
"""What the front door knows of a request."""
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
        """What open streams listen for: a resource, and how its client spells it."""
        self._subscribed: dict[str, str] = {}
        """The same for the protocol's older versions."""
        self._client: ServerSession | None = None
        self._changed: dict[str, None] = {}
        """Resources to notify of, in order; one that changes again before that is notified once."""
        self._wake = asyncio.Event()
        self.sdk = self._create(self._subscription_handlers() if announces else {})

    def _create(self, subscriptions: dict[str, Any]) -> Server[dict[str, Any]]:
        server: Server[dict[str, Any]] = Server(
            NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            **subscriptions,
        )
        # It would report every message to a tracer; memd reports to nobody.
        server.middleware.clear()
        return server

    def _subscription_handlers(self) -> dict[str, Any]:
        return {
            "on_subscribe_resource": self._subscribe,
            "on_unsubscribe_resource": self._unsubscribe,
            "on_subscriptions_listen": self._listen,
        }

    # --- tools and the prompt -----------------------------------------------------------------------------

    async def _list_tools(self, context: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declare(tool) for tool in self._tools_for(context).values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = self._tools_for(context)
        tool = tools.get(params.name)
        if tool is None:
            known = ", ".join(tools)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; known: {known}")
        reply = await tool.answer(self._call(context), params.arguments or {})
        # Clients that get data show the model that, and not the text.
        data = reply.data if self._structured_content else None
        content = types.TextContent(type="text", text=reply.text)
        return types.CallToolResult(content=[content], structured_content=data, is_error=reply.failed)

    async def _list_prompts(self, context: Context, params: Any) -> types.ListPromptsResult:
        name, title, about = (resources.PROMPT[part] for part in ("name", "title", "about"))
        argument = types.PromptArgument(name=resources.ABOUT, description=resources.ABOUT_MEANS, required=True)
        prompt = types.Prompt(name=name, title=title, description=about, arguments=[argument])
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != resources.PROMPT["name"]:
            known = resources.PROMPT["name"]
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}; known: {known}")
        text = await _or_error(resources.recall(self._call(context), params.arguments or {}))
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    # --- resources ----------------------------------------------------------------------------------------

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        page, cursor = await _or_error(resources.list_page(self._call(context), (params and params.cursor) or ""))
        listed = [
            types.Resource(uri=resource.uri, name=resource.name, description=resource.about, mime_type=MARKDOWN)
            for resource in page
        ]
        return types.ListResourcesResult(resources=listed, next_cursor=cursor or None)

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
        text = await _or_error(resources.read(self._call(context), uri))
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
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.about, input_schema=tool.input_schema, annotations=hints
    )


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


# --- over HTTP --------------------------------------------------------------------------------------------------------


class HttpEndpoint:
    """`/mcp`: the SDK's session manager without sessions, each request with its own tools and workspaces. `answer` is
    an ASGI application that answers while `running` is entered."""

    def __init__(
        self, tools_for: Callable[[HttpScope], dict[str, Tool]], call_for: Callable[[HttpScope], Call], *,
        structured_content: bool, max_bytes: int,
    ) -> None:  # fmt: skip
        server = SdkServer(
            lambda context: tools_for(_scope(context)), lambda context: call_for(_scope(context)),
            structured_content=structured_content, announces=False,
        )  # fmt: skip
        manager = StreamableHTTPSessionManager(
            server.sdk,
            json_response=True,
            stateless=True,
            # The front door has compared host and origin.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=max_bytes,
        )
        self.answer = manager.handle_request
        self.running: Callable[[], AbstractAsyncContextManager[None]] = manager.run


def _scope(context: Context) -> HttpScope:
    assert context.request is not None
    return dict(context.request.scope)
