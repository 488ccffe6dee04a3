"""One handler a method: read the parameters, do it, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memd.daemon.desk import Desk, Result
from memd.daemon.handlers import asking, examining, keeping, reading, standing, talk, workspaces
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import UnknownMethod

Handler = Callable[[Desk, Params, Tell], Awaitable[Result]]

HANDLERS: dict[str, Handler] = {
    "hello": talk.hello,
    "ping": talk.ping,
    "query": asking.query,
    "why_not": asking.why_not,
    "get": asking.get,
    "grep": reading.grep,
    "bus": reading.bus,
    "list": reading.listed,
    "subscribe": standing.subscribe,
    "unsubscribe": standing.unsubscribe,
    "eval": examining.evaluate,
    "sync": keeping.sync,
    "status": talk.status,
    "rebuild": keeping.rebuild,
    "doctor": keeping.doctor,
    "shutdown": talk.shutdown,
    "workspaces.list": workspaces.listed,
    "workspaces.add": workspaces.add,
    "workspaces.remove": workspaces.remove,
}


async def call(desk: Desk, method: str, given: dict[str, Any], tell: Tell) -> Result:
    """The dispatcher, for the socket and whoever else speaks to the daemon."""
    handler = HANDLERS.get(method)
    if handler is None:
        raise UnknownMethod(f"there is no method `{method}`", f"known: {', '.join(HANDLERS)}")
    return {**await handler(desk, Params(method, given), tell), **desk.freshness()}
