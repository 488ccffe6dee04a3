"""Small talk: who are you, are you there, how are you, good night."""

from __future__ import annotations

import time
from dataclasses import asdict

from memd import __version__
from memd.config import paths
from memd.daemon import binding
from memd.daemon import status as told
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.protocol.messages import METHODS, PROTOCOL
from memd.protocol.wire import MAX_REQUEST

MAX_HITS = 200
MAX_QUERY = 10_000
"""Characters of a question. A longer one is a document, and takes seconds from everyone else."""


async def hello(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    for name in ("client", "version"):
        params.text(name)
    params.number("protocol", PROTOCOL, 0, 1_000_000)
    ns = params.text("bind")
    params.done()
    if ns:
        binding.bind(ctx, tell.line, ns)
    per_second = ctx.parts.settings.server.calls_per_second
    limits = {"request_bytes": MAX_REQUEST, "hits": MAX_HITS, "query_chars": MAX_QUERY, "calls_per_second": per_second}
    pid = ctx.parts.pid
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "pid": pid,
        "capabilities": list(METHODS),
        "limits": limits,
        "bound": tell.line.bound or None,
    }


async def ping(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    params.done()
    return {"pong": True}


async def shutdown(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    params.done()
    ctx.parts.stop_soon()
    return {"stopping": True}


async def status(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    params.done()
    return await ctx.read(_status, ctx)


def _status(ctx: HandlerContext) -> Result:
    parts = ctx.parts
    return {
        "pid": parts.pid,
        "version": __version__,
        "protocol": PROTOCOL,
        "started": parts.started,
        "uptime_s": round(time.monotonic() - parts.began, 1),
        "pending_files": parts.worker.pending_files,
        "pending_vectors": parts.embedding.pending,
        "eta_s": parts.embedding.eta_s,
        "embedded": parts.stores.embedded,
        "subscriptions": len(parts.subscriptions) + len(parts.events.watching),
        "memory_mb": told.memory_mb(),
        "degraded_details": [asdict(trouble) for trouble in parts.health.troubles],
        "model": told.model_status(parts),
        "workspaces": [told.workspace_status(parts, index) for index in parts.stores.indexes.values()],
        "jobs": parts.scheduler.states(),
        "log": str(paths.log_file()),
        "state_dir": str(paths.state_dir()),
        "config": str(paths.config_file()),
        "socket": str(paths.socket_path()),
    }
