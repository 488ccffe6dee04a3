"""`mcp.open`: from its answer on, a connection speaks MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memd.daemon import binding
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.mcp_sessions import Agreement, Caller, one_of, zone_of
from memd.daemon.params import Params
from memd.daemon.server import ClientReader, ClientWriter, Tell
from memd.mcp.profiles import EXPERIMENTAL, PROFILES, tools_of

Dispatch = Callable[[HandlerContext, str, dict[str, Any], Tell], Awaitable[Result]]


def opener(dispatch: Dispatch) -> Callable[[HandlerContext, Params, Tell], Awaitable[Result]]:
    """The handler, which needs the dispatcher that it is itself a part of."""

    async def mcp_open(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
        profile, experimental = params.choice("profile", tuple(PROFILES), "search"), params.flag("experimental")
        named, cwd, who = params.text("ns"), params.place("cwd"), params.text("who")
        agreed = Agreement(cwd, who, zone_of(params.text("tz")), params.text("session"))
        params.done()
        # The first session of all waits for the SDK to be imported; usually that was done in a quiet moment.
        made = await asyncio.get_running_loop().run_in_executor(None, ctx.parts.mcp.load)
        _bind_early(ctx, tell.line, named, cwd)
        caller = Caller(partial(_call, dispatch, ctx, tell), partial(_bound, ctx, tell.line, cwd), agreed)
        tools = tools_of(profile, experimental)
        if experimental and profile in EXPERIMENTAL and not ctx.parts.outlines.on:
            ctx.parts.outlines.turn_on()
        tell.line.successor = partial(_run, ctx, made.Session(tools, caller.of, tell.line), tell.line)
        return {"profile": profile, "ns": tell.line.bound or None, "tools": list(tools)}

    return mcp_open


async def _run(ctx: HandlerContext, session: Any, line: ClientWriter, lines: ClientReader) -> None:
    ctx.parts.mcp.add(session, line)
    try:
        await session.run(lines)
    finally:
        ctx.parts.mcp.remove(session)


async def _call(dispatch: Dispatch, ctx: HandlerContext, tell: Tell, method: str, given: dict[str, Any]) -> Result:
    return await dispatch(ctx, method, given, tell)


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
    return ctx.names(Params("mcp.open", {"cwd": cwd}))
