"""`python -m memd.web`: listens on this machine only, prints the address, and serves until it is stopped.

Its one argument has the options of `memd web` as JSON; a page that systemd starts has none.
"""

import asyncio
import json
import os
import socket
import sys
import webbrowser

from memd.config import paths
from memd.errors import Refused
from memd.http_shell import Server, exit_code, listen, server
from memd.protocol.client import Client
from memd.protocol.connection import inherited
from memd.protocol.start import systemctl
from memd.web import admission
from memd.web.admission import Sessions
from memd.web.app import make_app
from memd.web.clients import WHO, Clients

PORT = 8427
HOST = "127.0.0.1"
SOCKET_UNIT = "memd-web.socket"
IDLE_LOOK_SECONDS = 60.0
FIRST_LOOK_SECONDS = 900.0
"""How long a page that systemd started waits for the first session."""


def main() -> int:
    options = json.loads(sys.argv[1]) if sys.argv[1:] else {}
    return exit_code(lambda: _run(**options))


def _run(port: int | None = None, ns: str | None = None, read_only: bool = False, no_open: bool = False) -> None:
    clients, passed = Clients(ns), _passed_socket()
    if passed:
        asyncio.run(_serve(passed, clients, read_only, end_when_idle=True))
    elif not (port or ns or read_only) and _systemd_listens():
        _announce(PORT, not no_open)
    else:
        # Starts the daemon where none runs, and tells at once whether the workspace exists.
        with Client(bind=ns, who=WHO, autostart=True) as memory:
            memory.workspace_list()
        listening = _listen(port)
        _announce(listening.getsockname()[1], not no_open)
        asyncio.run(_serve(listening, clients, read_only))


def _passed_socket() -> socket.socket | None:
    """The socket on which systemd listens for this process."""
    if not (descriptor := inherited()):
        return None
    passed = socket.socket(fileno=descriptor)
    if passed.family != socket.AF_INET or passed.getsockname()[0] != HOST:
        raise Refused("the page listens on this machine only", f"ListenStream={HOST}:{PORT} in {SOCKET_UNIT}")
    return passed


def _systemd_listens() -> bool:
    unit = paths.unit_dir() / SOCKET_UNIT
    return not os.environ.get("MEMD_HOME") and unit.is_file() and not systemctl("is-active", SOCKET_UNIT).returncode


def _listen(port: int | None) -> socket.socket:
    """The port that was asked for; without one the usual, else any."""
    if port:
        return listen(HOST, port, f"port {port}", "leave --port out to get any")
    try:
        return listen(HOST, PORT, f"port {PORT}", "")
    except Refused:
        return listen(HOST, 0, "any port", "")


def _announce(port: int, open_browser: bool) -> None:
    """Make an address that works once, and show it: in the browser, and as the first line."""
    url = f"http://{HOST}:{port}/enter#{admission.new_token(port)}"
    print(url, flush=True)
    if sys.stderr.isatty():
        print("memd: the address works once, for ten minutes; Ctrl-C ends the page", file=sys.stderr)
    if open_browser and not webbrowser.open(url):
        print("no browser could be started: open the address above", file=sys.stderr)


async def _serve(listening: socket.socket, clients: Clients, read_only: bool, end_when_idle: bool = False) -> None:
    """Serve until a signal comes; with `end_when_idle` until nobody is left, since systemd listens on."""
    sessions = Sessions()
    page = server(
        make_app(clients, sessions, listening.getsockname()[1], read_only), http="h11", loop="asyncio", lifespan="off",
        proxy_headers=False, limit_concurrency=200, timeout_keep_alive=30, timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    watching = asyncio.create_task(_end_when_idle(page, sessions)) if end_when_idle else None
    try:
        await page.serve(sockets=[listening])
    finally:
        if watching:
            watching.cancel()


async def _end_when_idle(page: Server, sessions: Sessions) -> None:
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    while not sessions.empty:
        await asyncio.sleep(IDLE_LOOK_SECONDS)
    page.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
