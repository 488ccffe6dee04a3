"""The hub's routes: `/rpc` as the socket does, `/mcp` to agents, `/health` to whoever watches over it."""

import asyncio
import time
from collections import defaultdict
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Scope

from memd.config.schema import Settings
from memd.errors import MemdError, NoDaemon, TooLarge, UsageError, did_you_mean
from memd.http_shell import BodyLimit, Rejected
from memd.hub.access import Access
from memd.hub.guard import ACCESS, HEALTH, MCP, RPC, HubGuard
from memd.mcp.sdk_server import http_sessions
from memd.mcp.tools import PROFILES, Tool, tools_of
from memd.protocol import wire
from memd.protocol.async_client import AsyncClient, ClientPool
from memd.protocol.method_table import LONG_TIMEOUT, METHODS

CONNECTIONS = 32
"""To the daemon, for people and programs; as many for models, whose answers have secrets masked."""
PING_SECONDS = 5.0
RESTART_SECONDS = 10.0
"""How long a request waits for a daemon that restarts: clients of MCP do not come back by themselves."""
COME_BACK = {"Retry-After": "5"}
AGAIN_SECONDS = 0.25
MAX_LINES = 4
"""Requests in one body of `/rpc`."""


class Hub:
    """The endpoints, and the connections to the daemon that they share."""

    def __init__(self, settings: Settings) -> None:
        self._plain, self._masked = (ClientPool(CONNECTIONS, partial(_client, masks)) for masks in (False, True))
        self._pulse = _client()
        self._look: asyncio.Future[Any] | None = None
        self._expressions: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a regular expression of a token is looked for: one at a time, since one can fill a core."""
        self._mcp = http_sessions(
            _tools_for, lambda scope: partial(self._call, scope[ACCESS], self._masked),
            structured_content=settings.server.structured_content, max_bytes=settings.hub.max_request_kb * 1024,
        )  # fmt: skip

    def router(self) -> Router:
        posted = {RPC: self._rpc, MCP: self._agent}
        routes = [Route(HEALTH, self._health), *(Route(path, view, methods=["POST"]) for path, view in posted.items())]
        return Router(routes, lifespan=lambda app: self._mcp.run())

    async def _health(self, request: Request) -> ASGIApp:
        """Whether the daemon answers; nothing else, since nobody need show a token for it."""
        if self._look is None or self._look.done():
            # All who ask at a time wait for the same answer.
            self._look = asyncio.gather(self._pulse.ping(), return_exceptions=True)
        look = self._look
        done, _ = await asyncio.wait({look}, timeout=PING_SECONDS)
        alive = bool(done) and not isinstance(look.result()[0], BaseException)
        said, status = (b'{"ok": true}\n', 200) if alive else (b'{"ok": false}\n', 503)
        return Response(said, status, media_type="application/json")

    # --- JSON-RPC -------------------------------------------------------------------------------------------

    async def _rpc(self, request: Request) -> ASGIApp:
        """One request a line, one answer a line, as on the socket."""
        lines = [line for line in (await request.body()).split(b"\n") if line.strip()]
        if not 0 < len(lines) <= MAX_LINES:
            raise Rejected(400, UsageError(f"a body has 1 to {MAX_LINES} requests, one a line, not {len(lines)}", ""))
        access, pool = request.scope[ACCESS], self._masked if request.query_params.get("mask_secrets") else self._plain
        answers = [await self._answer(access, pool, line) for line in lines]
        away = any(isinstance(error, NoDaemon) for _, error in answers)
        status, headers = (503, COME_BACK) if away else (200, {})
        return Response(b"".join(line for line, _ in answers), status, headers, "application/json")

    async def _answer(self, access: Access, pool: ClientPool, line: bytes) -> tuple[bytes, MemdError | None]:
        """The line that answers a request, and the error that it tells of."""
        number, wanted = None, True
        try:
            request = wire.decode_request(line)
            number, wanted = request.id, request.wants_answer
            result = await self._call(access, pool, request.method, request.params)
            return wire.encode_result(number, result) if wanted else b"", None
        except MemdError as error:
            return wire.encode_error(number, error) if wanted else b"", error

    async def _call(self, access: Access, pool: ClientPool, method: str, given: dict[str, Any]) -> dict[str, Any]:
        params = access.params(method, given)
        turn = self._expressions[access.token.digest] if params.get("regex") else nullcontext()
        # Shielded: a caller that hangs up leaves no write half-way, and no answer on a connection that others use.
        result = await asyncio.shield(asyncio.ensure_future(_ask(turn, pool, method, params)))
        return access.visible(method, result)

    # --- MCP ------------------------------------------------------------------------------------------------

    async def _agent(self, request: Request) -> ASGIApp:
        """The session, unless there is a mistake in the address that the agent was given."""
        access: Access = request.scope[ACCESS]
        if len(access.ns) > 1:
            many = f"an agent has one workspace, and the token is for {', '.join(access.ns)}"
            raise Rejected(400, UsageError(many, f"name it: {MCP}?ns=NAME"))
        if (profile := _profile(request.scope)) not in PROFILES:
            unknown = f"there is no profile `{profile}`{did_you_mean(profile, PROFILES)}"
            raise Rejected(400, UsageError(unknown, ", ".join(PROFILES)))
        return self._mcp.handle_request


def _client(mask_secrets: bool = False) -> AsyncClient:
    return AsyncClient(who="hub", mask_secrets=mask_secrets)


async def _ask(
    turn: AbstractAsyncContextManager[None], pool: ClientPool, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """The daemon's answer; asked again when it restarts, which does no harm: every write here has a number."""
    async with turn:
        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                async with pool.client() as memory:
                    return await memory.call(method, params, timeout=LONG_TIMEOUT if METHODS[method].slow else None)
            except NoDaemon:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)


def _profile(scope: Scope) -> str:
    return QueryParams(scope["query_string"]).get("profile", "search")


def _tools_for(scope: dict[str, Any]) -> dict[str, Tool]:
    """The tools of the profile that the address names, as far as the token may use them."""
    access: Access = scope[ACCESS]
    tools = tools_of(_profile(scope), experimental=False)
    return {name: tool for name, tool in tools.items() if access.may_use(tool.method)}


def make_app(hosts: frozenset[str], settings: Settings) -> HubGuard:
    """The hub, behind its guard."""
    most = settings.hub.max_request_kb * 1024
    too_large = TooLarge(f"a request may have {most} bytes", "ask for less at once")
    limit = BodyLimit(most, settings.server.line_timeout_s, too_large)
    return HubGuard(Hub(settings).router(), hosts, limit, settings.hub)
