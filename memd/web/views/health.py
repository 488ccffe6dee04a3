"""How the daemon is: fresh, pending, degraded and how to mend it, jobs, and what the nightly exam found."""

from __future__ import annotations

from starlette.responses import Response

from memd.errors import NoDaemon
from memd.web.visit import Visit


async def show(visit: Visit) -> Response:
    try:
        async with visit.client() as memory:
            status = await memory.status()
            stats = await memory.stats(**visit.scope)
            checked = (await memory.doctor())["findings"] if visit.get("check") and not visit.clients.bind else None
    except NoDaemon as error:
        return await visit.page("health.html", "health", status=None, error=error, stats=None, checked=None)
    return await visit.page("health.html", "health", status=status, stats=stats, error=None, checked=checked)
