"""MCP over streamable HTTP: the SDK's session manager without sessions, each request with its own tools and workspaces.

Changes are not announced: a request that listens would hold a connection for as long as its client likes.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from memd.mcp.sdk_server import Context, SdkServer
from memd.mcp.tools import Call, Tool

Scope = dict[str, Any]
"""What the front door knows of a request."""
ToolsFor = Callable[[Scope], dict[str, Tool]]
CallsFor = Callable[[Scope], Call]


class HttpServer(SdkServer):
    """The SDK's server of all requests: who asks is looked up in each of them."""

    def __init__(self, tools_for: ToolsFor, call_for: CallsFor, structured_content: bool) -> None:
        self._tools_of_request = tools_for
        self._call_of_request = call_for
        super().__init__({}, lambda client, request: call_for({}), structured_content)

    def _subscription_handlers(self) -> dict[str, Any]:
        return {}

    def _tools_for(self, context: Context) -> dict[str, Tool]:
        return self._tools_of_request(_scope(context))

    def _call(self, context: Context) -> Call:
        return self._call_of_request(_scope(context))


def _scope(context: Context) -> Scope:
    assert context.request is not None
    return dict(context.request.scope)


class HttpEndpoint:
    """`/mcp`: an ASGI application that answers while `running` is entered."""

    def __init__(self, server: HttpServer, max_bytes: int) -> None:
        manager = StreamableHTTPSessionManager(
            server.sdk,
            json_response=True,
            stateless=True,
            # The front door has compared host and origin.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=max_bytes,
        )
        self.answer: ASGIApp = manager.handle_request
        self.running: Callable[[], AbstractAsyncContextManager[None]] = manager.run
