"""`mcp.open`: from its answer on, a connection speaks MCP."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from memd.daemon import binding
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, dispatch, handles
from memd.daemon.mcp_sessions import SessionCalls, SessionIdentity, only_workspace, time_zone
from memd.daemon.server import ClientConnection, LineReader
from memd.mcp.profiles import EXPERIMENTAL, tools_of
from memd.protocol.methods.base import Scoped
from memd.protocol.methods.server import McpOpenRequest


@handles(McpOpenRequest)
async def mcp_open(ctx: HandlerContext, request: McpOpenRequest, call: IncomingCall) -> Result:
    connection = call.connection
    # The first session waits until the SDK is imported; usually that was done while the daemon was idle.
    module = await asyncio.get_running_loop().run_in_executor(None, ctx.mcp.load)
    _bind_early(ctx, connection, request)
    if request.experimental and request.profile in EXPERIMENTAL and not ctx.outlines.on:
        ctx.outlines.turn_on()
    calls = SessionCalls(
        partial(_call, ctx, call),
        partial(_bind, ctx, connection, request.cwd),
        SessionIdentity(request.who, time_zone(request.tz), request.session),
    )
    tools = tools_of(request.profile, request.experimental)
    structured_content = ctx.settings.server.structured_content
    session = module.McpSession(tools, calls.call_for, connection, structured_content=structured_content)
    connection.successor = partial(_run, ctx, session, connection)
    return {"profile": request.profile, "ns": connection.bound or None, "tools": list(tools)}


async def _run(ctx: HandlerContext, session: Any, connection: ClientConnection, reader: LineReader) -> None:
    ctx.mcp.add(session, connection)
    try:
        await session.run(reader)
    finally:
        ctx.mcp.remove(session)


async def _call(ctx: HandlerContext, call: IncomingCall, method: str, params: dict[str, Any]) -> Result:
    return await dispatch(ctx, method, params, call)


def _bind_early(ctx: HandlerContext, connection: ClientConnection, request: McpOpenRequest) -> None:
    """Bind the session where it is clear to which workspace; else each call says which can be named."""
    names = request.ns[:1] or (_candidates(ctx, request.cwd) if ctx.stores.indexes else ())
    if len(names) == 1:
        binding.bind(ctx, connection, names[0])


def _bind(ctx: HandlerContext, connection: ClientConnection, cwd: str) -> None:
    """Bind a session that is not bound yet: workspaces may have been added or removed since it opened."""
    if not connection.bound:
        binding.bind(ctx, connection, only_workspace(_candidates(ctx, cwd)))


def _candidates(ctx: HandlerContext, cwd: str) -> tuple[str, ...]:
    """The workspace around a directory, or all of them."""
    return ctx.names(Scoped(cwd=cwd))
