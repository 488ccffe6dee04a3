"""What happens, as it happens: the daemon's `watch` as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from memd.web.clients import Feed
from memd.web.rendering import refusal_page
from memd.web.visit import Visit

HEARTBEAT_SECONDS = 15.0


async def stream(visit: Visit) -> Response:
    feed: Feed = visit.request.app.state.feed
    if feed.full:
        return refusal_page(503, "Too many pages are open.")
    return StreamingResponse(_lines(visit, feed), media_type="text/event-stream")


async def _lines(visit: Visit, feed: Feed) -> AsyncIterator[str]:
    """Events until the browser goes or its session ends."""
    state = visit.request.app.state
    yield "retry: 2000\n\n"
    async with feed.listening() as queue:
        while state.sessions.admits(visit.request.scope["memd.cookie"], is_use=False):
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    event = await queue.get()
                yield f"data: {json.dumps(event)}\n\n"
            except TimeoutError:
                yield ": still here\n\n"
