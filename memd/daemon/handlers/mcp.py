"""`mcp.open`: from its answer on, a connection speaks MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memd.daemon import binding
from memd.daemon.desk import Desk, Result
from memd.daemon.mcp_sessions import Agreement, Caller, one_of, zone_of
from memd.daemon.params import Params
from memd.daemon.server import Line, Lines, Tell
from memd.mcp.profiles import EXPERIMENTAL, PROFILES, tools_of

Dispatch = Callable[[Desk, str, dict[str, Any], Tell], Awaitable[Result]]


def opener(dispatch: Dispatch) -> Callable[[Desk, Params, Tell], Awaitable[Result]]:
    """The handler, which needs the dispatcher that it is itself a part of."""

    async def mcp_open(desk: Desk, params: Params, tell: Tell) -> Result:
        profile, experimental = params.choice("profile", tuple(PROFILES), "search"), params.flag("experimental")
        named, cwd, who = params.text("ns"), params.place("cwd"), params.text("who")
        agreed = Agreement(cwd, who, zone_of(params.text("tz")), params.text("session"))
        params.done()
        # The first session of all waits for the SDK to be imported; usually that was done in a quiet moment.
        made = await asyncio.get_running_loop().run_in_executor(None, desk.parts.mcp.load)
        _bind_early(desk, tell.line, named, cwd)
        caller = Caller(partial(_call, dispatch, desk, tell), partial(_bound, desk, tell.line, cwd), agreed)
        tools = tools_of(profile, experimental)
        if experimental and profile in EXPERIMENTAL and not desk.parts.outlining.on:
            desk.parts.outlining.turn_on()
        tell.line.successor = partial(_run, desk, made.Session(tools, caller.of, tell.line), tell.line)
        return {"profile": profile, "ns": tell.line.bound or None, "tools": list(tools)}

    return mcp_open


async def _run(desk: Desk, session: Any, line: Line, lines: Lines) -> None:
    desk.parts.mcp.add(session, line)
    try:
        await session.run(lines)
    finally:
        desk.parts.mcp.remove(session)


async def _call(dispatch: Dispatch, desk: Desk, tell: Tell, method: str, given: dict[str, Any]) -> Result:
    return await dispatch(desk, method, given, tell)


def _bind_early(desk: Desk, line: Line, named: str, cwd: str) -> None:
    """Bind the session where it is clear to which workspace; else each call says what is missing."""
    known = _known(desk, cwd) if desk.parts.stores.shelves else ()
    if named or len(known) == 1:
        binding.bind(desk, line, named or known[0])


def _bound(desk: Desk, line: Line, cwd: str) -> str:
    """The session's workspace; one that was added since it opened may have made clear which."""
    if not line.bound:
        binding.bind(desk, line, one_of(_known(desk, cwd)))
    return line.bound


def _known(desk: Desk, cwd: str) -> tuple[str, ...]:
    """The workspace around a directory, or all of them."""
    return desk.names(Params("mcp.open", {"cwd": cwd}))
