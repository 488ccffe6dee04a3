"""Small talk: who are you, are you there, how are you, good night."""

from __future__ import annotations

import time
from dataclasses import asdict

from memd import __version__
from memd.config import paths
from memd.daemon import status as told
from memd.daemon.desk import Desk, Result
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.protocol.messages import METHODS, PROTOCOL
from memd.protocol.wire import MAX_REQUEST

MAX_HITS = 200


async def hello(desk: Desk, params: Params, tell: Tell) -> Result:
    for name in ("client", "version"):
        params.text(name)
    params.number("protocol", PROTOCOL, 0, 1_000_000)
    params.done()
    limits = {"request_bytes": MAX_REQUEST, "hits": MAX_HITS}
    pid = desk.app.pid
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "pid": pid,
        "capabilities": list(METHODS),
        "limits": limits,
    }


async def ping(desk: Desk, params: Params, tell: Tell) -> Result:
    params.done()
    return {"pong": True}


async def shutdown(desk: Desk, params: Params, tell: Tell) -> Result:
    params.done()
    desk.app.stop_soon()
    return {"stopping": True}


async def status(desk: Desk, params: Params, tell: Tell) -> Result:
    params.done()
    return await desk.read(_status, desk)


def _status(desk: Desk) -> Result:
    app = desk.app
    return {
        "pid": app.pid,
        "version": __version__,
        "protocol": PROTOCOL,
        "started": app.started,
        "uptime_s": round(time.monotonic() - app.began, 1),
        "pending_files": app.worker.pending_files,
        "pending_vectors": app.embedding.pending,
        "eta_s": app.embedding.eta_s,
        "embedded": app.stores.embedded,
        "memory_mb": told.memory_mb(),
        "degraded_details": [asdict(trouble) for trouble in app.health.troubles],
        "model": told.model_status(app),
        "workspaces": [told.workspace_status(app, shelf) for shelf in app.stores.shelves.values()],
        "jobs": app.scheduler.states(),
        "log": str(paths.log_file()),
        "state_dir": str(paths.state_dir()),
        "config": str(paths.config_file()),
        "socket": str(paths.socket_path()),
    }
