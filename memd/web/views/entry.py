"""The way in and the way out; and meanwhile, what happens."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import RedirectResponse, Response, StreamingResponse

from memd.errors import MemdError, NoDaemon
from memd.web import admission
from memd.web.clients import Clients
from memd.web.rendering import refusal_page, render
from memd.web.visit import Visit

# --- a token is exchanged for a cookie ----------------------------------------------------------------------------


async def door(visit: Visit) -> Response:
    """The token stands behind the `#` of the address, which no browser sends; the page's script posts it."""
    return render("enter.html", {})


async def enter(visit: Visit) -> Response:
    guard = visit.request.app.state.guard
    client = visit.request.client
    if client and admission.is_other_user(client.port, guard.port):
        return refusal_page(403, "This page belongs to another user of this machine.")
    if not admission.redeem(visit.get("token"), guard.port):
        return refusal_page(403, "This address was used already, or it is too old.", "For another one: memd web")
    response = RedirectResponse("/", 303)
    response.set_cookie(guard.cookie_name, guard.sessions.open(), httponly=True, samesite="strict")
    return response


async def leave(visit: Visit) -> Response:
    guard = visit.request.app.state.guard
    guard.sessions.close(visit.request.scope["memd.cookie"])
    response = refusal_page(200, "You have left.", "To come back: memd web")
    response.delete_cookie(guard.cookie_name, httponly=True, samesite="strict")
    return response


# --- the daemon's events, as server-sent ones ---------------------------------------------------------------------

HEARTBEAT_SECONDS = 15.0
RECONNECT_SECONDS = 1.0
LISTENERS = asyncio.Semaphore(32)
"""The browsers that may listen: each has a connection to the daemon."""


async def events(visit: Visit) -> Response:
    if LISTENERS.locked():
        return refusal_page(503, "Too many pages are open.")
    return StreamingResponse(_lines(visit), media_type="text/event-stream")


async def _lines(visit: Visit) -> AsyncIterator[str]:
    """Events until the browser goes or its session ends."""
    guard, queue = visit.request.app.state.guard, asyncio.Queue[dict[str, Any]](1)
    yield "retry: 2000\n\n"
    async with LISTENERS:
        hearing = asyncio.create_task(_hear(visit.clients, queue))
        try:
            while guard.sessions.admits(visit.request.scope["memd.cookie"], is_use=False):
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        event = await queue.get()
                    yield f"data: {json.dumps(event)}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            hearing.cancel()


async def _hear(clients: Clients, queue: asyncio.Queue[dict[str, Any]]) -> None:
    """The events of one daemon after the other; for a browser that does not keep up, they wait in the daemon."""
    while True:
        try:
            async with clients.new_client() as memory:
                await memory.watch()
                await queue.put({"event": "connected"})
                async for event in memory.events():
                    await queue.put(event)
        except NoDaemon:
            await queue.put({"event": "gone"})
        except MemdError as error:
            await queue.put({"event": "failed", "message": error.message})
        await asyncio.sleep(RECONNECT_SECONDS)
