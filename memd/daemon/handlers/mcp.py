"""`mcp.open`: from its answer on, a connection speaks MCP."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from memd.daemon import binding
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.registry import dispatch, handles
from memd.daemon.mcp_sessions import Agreement, Caller, one_of, zone_of
from memd.daemon.server import ClientConnection, IncomingCall, LineReader
from memd.mcp.profiles import EXPERIMENTAL, tools_of
from memd.protocol.methods.base import Scoped
from memd.protocol.methods.server import McpOpenRequest


@handles(McpOpenRequest)
async def mcp_open(ctx: HandlerContext, request: McpOpenRequest, call: IncomingCall) -> Result:
    cwd, connection = request.cwd, call.connection
    agreed = Agreement(cwd, request.who, zone_of(request.tz), request.session)
    # The first session of all waits for the SDK to be imported; usually that was done in a quiet moment.
    made = await asyncio.get_running_loop().run_in_executor(None, ctx.mcp.load)
    _bind_early(ctx, connection, request.ns[0] if request.ns else "", cwd)
    caller = Caller(partial(_call, ctx, call), partial(_bound, ctx, connection, cwd), agreed)
    tools = tools_of(request.profile, request.experimental)
    if request.experimental and request.profile in EXPERIMENTAL and not ctx.outlines.on:
        ctx.outlines.turn_on()
    connection.successor = partial(_run, ctx, made.Session(tools, caller.of, connection), connection)
    return {"profile": request.profile, "ns": connection.bound or None, "tools": list(tools)}


async def _run(ctx: HandlerContext, session: Any, connection: ClientConnection, lines: LineReader) -> None:
    ctx.mcp.add(session, connection)
    try:
        await session.run(lines)
    finally:
        ctx.mcp.remove(session)


async def _call(ctx: HandlerContext, call: IncomingCall, method: str, params: dict[str, Any]) -> Result:
    return await dispatch(ctx, method, params, call)


def _bind_early(ctx: HandlerContext, connection: ClientConnection, named: str, cwd: str) -> None:
    """Bind the session where it is clear to which workspace; else each call says what is missing."""
    known = _known(ctx, cwd) if ctx.stores.indexes else ()
    if named or len(known) == 1:
        binding.bind(ctx, connection, named or known[0])


def _bound(ctx: HandlerContext, connection: ClientConnection, cwd: str) -> str:
    """The session's workspace; one that was added since it opened may have made clear which."""
    if not connection.bound:
        binding.bind(ctx, connection, one_of(_known(ctx, cwd)))
    return connection.bound


def _known(ctx: HandlerContext, cwd: str) -> tuple[str, ...]:
    """The workspace around a directory, or all of them."""
    return ctx.names(Scoped(cwd=cwd))
