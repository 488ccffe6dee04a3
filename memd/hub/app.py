"""What the hub answers: `/rpc` as the socket does, `/mcp` to agents, `/health` to whoever watches over it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memd.config.schema import Settings
from memd.errors import MemdError, UsageError, did_you_mean
from memd.hub.access import Access
from memd.hub.guard import ACCESS, HEADERS, HEALTH, MCP, HubGuard, Rejected
from memd.mcp.http_server import HttpEndpoint, HttpServer
from memd.mcp.profiles import PROFILES, tools_of
from memd.mcp.tools import Call, Tool
from memd.protocol import wire
from memd.protocol.async_client import AsyncClient
from memd.protocol.client_pool import RETRIES, ClientPool
from memd.protocol.method_table import METHODS
from memd.protocol.rpc_session import LONG_TIMEOUT

CONNECTIONS = 32
"""To the daemon, for people and programs; as many for models, whose answers have secrets masked."""
MAX_LINES = 4
"""Requests in one body of `/rpc`."""


class Hub:
    """The endpoints, and the connections to the daemon that they share."""

    def __init__(self, hosts: frozenset[str], settings: Settings) -> None:
        self._plain, self._masked = (_pool(mask_secrets) for mask_secrets in (False, True))
        server = HttpServer(_tools_for, self._call_for, settings.server.structured_content)
        allowed = [pattern for host in sorted(hosts) for pattern in (host, f"{host}:*")]
        origins = [f"{scheme}://{pattern}" for pattern in allowed for scheme in ("http", "https")]
        self._mcp = HttpEndpoint(server, allowed, origins, settings.hub.max_request_kb * 1024)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["path"] == MCP:
            problem = _mcp_problem(scope)
            answer = Rejected(400, problem).response() if problem else self._mcp.answer
        else:
            view = self._health if scope["path"] == HEALTH else self._rpc
            answer = await view(Request(scope, receive))
        await answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """From the server's start to its end, as ASGI tells of them."""
        await receive()
        async with self._mcp.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _health(self, request: Request) -> Response:
        """Whether the daemon answers; nothing else, since nobody need show a token for it."""
        try:
            async with self._plain.client() as memory:
                await memory.ping()
        except MemdError:
            return Response(b'{"ok": false}\n', 503, HEADERS, "application/json")
        return Response(b'{"ok": true}\n', 200, HEADERS, "application/json")

    # --- JSON-RPC -------------------------------------------------------------------------------------------

    async def _rpc(self, request: Request) -> Response:
        """One request a line, one answer a line, as on the socket."""
        lines = [line for line in (await request.body()).split(b"\n") if line.strip()]
        if not 0 < len(lines) <= MAX_LINES:
            raised = UsageError(f"a body has 1 to {MAX_LINES} requests, one a line, not {len(lines)}", "")
            return Rejected(400, raised).response()
        access, pool = request.scope[ACCESS], self._pool_for(request.query_params)
        answers = [await _answer(access, pool, line) for line in lines]
        return Response(b"".join(answers), 200, HEADERS, "application/json")

    def _pool_for(self, query: QueryParams) -> ClientPool:
        return self._masked if query.get("mask_secrets") else self._plain

    # --- MCP ------------------------------------------------------------------------------------------------

    def _call_for(self, scope: dict[str, Any]) -> Call:
        access: Access = scope[ACCESS]

        async def call(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return await _call(access, self._masked, method, params)

        return call


def _pool(mask_secrets: bool) -> ClientPool:
    return ClientPool(CONNECTIONS, lambda: AsyncClient(who="hub", retries=RETRIES, mask_secrets=mask_secrets))


async def _answer(access: Access, pool: ClientPool, line: bytes) -> bytes:
    try:
        request = wire.decode_request(line)
    except MemdError as error:
        return wire.encode_error(None, error)
    try:
        result = await _call(access, pool, request.method, request.params)
        answer = wire.encode_result(request.id, result)
    except MemdError as error:
        answer = wire.encode_error(request.id, error)
    return answer if request.wants_answer else b""


async def _call(access: Access, pool: ClientPool, method: str, given: dict[str, Any]) -> dict[str, Any]:
    params = access.params(method, given)
    # Shielded: a caller that hangs up must not leave a write half-way, nor an answer on a connection that others use.
    result = await asyncio.shield(asyncio.ensure_future(_ask(pool, method, params)))
    return access.visible(method, result)


async def _ask(pool: ClientPool, method: str, params: dict[str, Any]) -> dict[str, Any]:
    async with pool.client() as memory:
        return await memory.call(method, params, timeout=LONG_TIMEOUT if METHODS[method].slow else None)


def _mcp_problem(scope: Scope) -> UsageError | None:
    """What is wrong with the address that an agent was given."""
    access: Access = scope[ACCESS]
    if len(access.ns) > 1:
        names = ", ".join(access.ns)
        return UsageError(f"an agent has one workspace, and the token is for {names}", f"name it: {MCP}?ns=NAME")
    if (profile := _profile(scope)) not in PROFILES:
        return UsageError(f"there is no profile `{profile}`{did_you_mean(profile, PROFILES)}", ", ".join(PROFILES))
    return None


def _profile(scope: Scope) -> str:
    return QueryParams(scope["query_string"]).get("profile", "search")


def _tools_for(scope: dict[str, Any]) -> dict[str, Tool]:
    """The tools of the profile that the address names, as far as the token may use them."""
    access: Access = scope[ACCESS]
    tools = tools_of(_profile(scope), experimental=False)
    return {name: tool for name, tool in tools.items() if access.may_use(tool.method)}


def make_app(hosts: frozenset[str], settings: Settings) -> HubGuard:
    """The hub, behind its guard."""
    return HubGuard(Hub(hosts, settings), hosts, settings.hub)
