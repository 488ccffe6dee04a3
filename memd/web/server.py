"""Serves the page on a socket that listens already."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from memd.web.admission import Sessions
from memd.web.app import make_app
from memd.web.clients import Clients

IDLE_LOOK_SECONDS = 60.0
FIRST_LOOK_SECONDS = 900.0
"""How long a page that systemd started waits for the first session."""


async def serve(listening: socket.socket, clients: Clients, read_only: bool, end_when_idle: bool = False) -> None:
    """Serve until a signal comes; with `end_when_idle` until nobody is left, since systemd listens on."""
    sessions = Sessions()
    app = make_app(clients, sessions, listening.getsockname()[1], read_only)
    server = uvicorn.Server(uvicorn.Config(
        app, http="h11", loop="asyncio", ws="none", lifespan="off", access_log=False, server_header=False,
        date_header=False, log_level="warning", proxy_headers=False, limit_concurrency=200, timeout_keep_alive=30,
        timeout_graceful_shutdown=1, h11_max_incomplete_event_size=65_536,
    ))  # fmt: skip
    watching = asyncio.create_task(_end_when_idle(server, sessions)) if end_when_idle else None
    try:
        await server.serve(sockets=[listening])
    finally:
        if watching:
            watching.cancel()


async def _end_when_idle(server: uvicorn.Server, sessions: Sessions) -> None:
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    while not sessions.empty:
        await asyncio.sleep(IDLE_LOOK_SECONDS)
    server.should_exit = True
