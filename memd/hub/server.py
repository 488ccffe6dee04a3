"""Serves the hub on a socket that listens already, with TLS where it has a certificate."""

from __future__ import annotations

import resource
import socket
from functools import partial

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from memd.config.schema import Settings
from memd.hub.app import make_app
from memd.hub.connections import Connections, GuestConnection

BACKLOG = 1024
IDLE_SECONDS = 75
"""How long a connection is kept for a client's next request."""


class HubConnection(GuestConnection, AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection of uvicorn's, as the hub wants it."""


def serve(listening: socket.socket, hosts: frozenset[str], settings: Settings) -> None:
    """Serve until a signal comes."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    connections = Connections(settings.hub.max_clients, settings.server.line_timeout_s)
    tls = {"ssl_certfile": settings.hub.cert, "ssl_keyfile": settings.hub.key or None} if settings.hub.cert else {}
    server = uvicorn.Server(uvicorn.Config(
        make_app(hosts, settings), http=partial(HubConnection, connections),  # type: ignore[arg-type]
        ws="none", lifespan="on", access_log=False, server_header=False, date_header=False, log_level="warning",
        proxy_headers=settings.hub.behind_proxy, limit_concurrency=settings.hub.max_clients, backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=5, **tls,  # type: ignore[arg-type]
    ))  # fmt: skip
    server.run(sockets=[listening])
