"""The daemon itself: `hello`, `ping`, `status` and `shutdown`."""

from __future__ import annotations

import time
from dataclasses import asdict

from memd.config import paths
from memd.daemon import binding
from memd.daemon import status as status_of
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.registry import handles
from memd.daemon.server import IncomingCall
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import MAX_HITS, MAX_QUERY
from memd.protocol.methods.server import HelloRequest, PingRequest, ShutdownRequest, StatusRequest
from memd.protocol.wire import MAX_REQUEST, PROTOCOL
from memd.version import __version__


@handles(HelloRequest)
async def hello(ctx: HandlerContext, request: HelloRequest, call: IncomingCall) -> Result:
    if request.bind:
        binding.bind(ctx, call.line, request.bind)
    per_second = ctx.parts.settings.server.calls_per_second
    limits = {"request_bytes": MAX_REQUEST, "hits": MAX_HITS, "query_chars": MAX_QUERY, "calls_per_second": per_second}
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "pid": ctx.parts.pid,
        "capabilities": list(METHODS),
        "limits": limits,
        "bound": call.line.bound or None,
    }


@handles(PingRequest)
async def ping(ctx: HandlerContext, request: PingRequest, call: IncomingCall) -> Result:
    return {"pong": True}


@handles(ShutdownRequest)
async def shutdown(ctx: HandlerContext, request: ShutdownRequest, call: IncomingCall) -> Result:
    ctx.parts.stop_soon()
    return {"stopping": True}


@handles(StatusRequest)
async def status(ctx: HandlerContext, request: StatusRequest, call: IncomingCall) -> Result:
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
        "memory_mb": status_of.memory_mb(),
        "degraded_details": [asdict(trouble) for trouble in parts.health.troubles],
        "model": status_of.model_status(parts),
        "workspaces": [status_of.workspace_status(parts, index) for index in parts.stores.indexes.values()],
        "jobs": parts.scheduler.states(),
        "log": str(paths.log_file()),
        "state_dir": str(paths.state_dir()),
        "config": str(paths.config_file()),
        "socket": str(paths.socket_path()),
    }
