"""`mcp.open`: from its answer on, a connection speaks MCP."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from memd.daemon import binding
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.registry import dispatch, handles
from memd.daemon.mcp_sessions import Agreement, Caller, one_of, zone_of
from memd.daemon.server import ClientReader, ClientWriter, IncomingCall
from memd.mcp.profiles import EXPERIMENTAL, tools_of
from memd.protocol.methods.base import Scoped
from memd.protocol.methods.server import McpOpenRequest


@handles(McpOpenRequest)
async def mcp_open(ctx: HandlerContext, request: McpOpenRequest, call: IncomingCall) -> Result:
    cwd, line = request.cwd, call.line
    agreed = Agreement(cwd, request.who, zone_of(request.tz), request.session)
    # The first session of all waits for the SDK to be imported; usually that was done in a quiet moment.
    made = await asyncio.get_running_loop().run_in_executor(None, ctx.parts.mcp.load)
    _bind_early(ctx, line, request.ns[0] if request.ns else "", cwd)
    caller = Caller(partial(_call, ctx, call), partial(_bound, ctx, line, cwd), agreed)
    tools = tools_of(request.profile, request.experimental)
    if request.experimental and request.profile in EXPERIMENTAL and not ctx.parts.outlines.on:
        ctx.parts.outlines.turn_on()
    line.successor = partial(_run, ctx, made.Session(tools, caller.of, line), line)
    return {"profile": request.profile, "ns": line.bound or None, "tools": list(tools)}


async def _run(ctx: HandlerContext, session: Any, line: ClientWriter, lines: ClientReader) -> None:
    ctx.parts.mcp.add(session, line)
    try:
        await session.run(lines)
    finally:
        ctx.parts.mcp.remove(session)


async def _call(ctx: HandlerContext, call: IncomingCall, method: str, params: dict[str, Any]) -> Result:
    return await dispatch(ctx, method, params, call)


def _bind_early(ctx: HandlerContext, line: ClientWriter, named: str, cwd: str) -> None:
    """Bind the session where it is clear to which workspace; else each call says what is missing."""
    known = _known(ctx, cwd) if ctx.parts.stores.indexes else ()
    if named or len(known) == 1:
        binding.bind(ctx, line, named or known[0])


def _bound(ctx: HandlerContext, line: ClientWriter, cwd: str) -> str:
    """The session's workspace; one that was added since it opened may have made clear which."""
    if not line.bound:
        binding.bind(ctx, line, one_of(_known(ctx, cwd)))
    return line.bound


def _known(ctx: HandlerContext, cwd: str) -> tuple[str, ...]:
    """The workspace around a directory, or all of them."""
    return ctx.names(Scoped(cwd=cwd))
