"""`python -m memd.web`: listens on this machine only, prints the address, and serves until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import webbrowser

from memd.config import paths
from memd.errors import MemdError, Refused, report
from memd.protocol.start import systemctl
from memd.web import admission
from memd.web.clients import Clients
from memd.web.server import serve

PORT = 8427
HOST = "127.0.0.1"
SOCKET_UNIT = "memd-web.socket"
FIRST_PASSED = 3
"""The first descriptor that systemd passes."""


def main() -> int:
    options = _options()
    try:
        return _run(options)
    except MemdError as error:
        return report(error)
    except KeyboardInterrupt:
        return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memd web", allow_abbrev=False)
    parser.add_argument("--port", type=int)
    parser.add_argument("--ns")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--no-open", dest="open", action="store_false")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    listening = _passed_socket()
    if listening:
        asyncio.run(serve(listening, Clients(options.ns), options.read_only, end_when_idle=True))
        return 0
    if not (options.port or options.ns or options.read_only) and _systemd_listens():
        _announce(PORT, options.open)
        return 0
    clients = Clients(options.ns)
    asyncio.run(_greet(clients))
    listening = _listen(options.port)
    _announce(listening.getsockname()[1], options.open)
    asyncio.run(serve(listening, clients, options.read_only))
    return 0


async def _greet(clients: Clients) -> None:
    """Start the daemon where none runs, and learn at once whether the workspace exists."""
    async with clients.new_client(autostart=True) as memory:
        await memory.workspace_list()


def _passed_socket() -> socket.socket | None:
    """What systemd listens on in this process's place."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    passed = socket.socket(fileno=FIRST_PASSED)
    if passed.family != socket.AF_INET or passed.getsockname()[0] != HOST:
        raise Refused("the page listens on this machine only", f"ListenStream={HOST}:{PORT} in {SOCKET_UNIT}")
    return passed


def _systemd_listens() -> bool:
    unit = paths.unit_dir() / SOCKET_UNIT
    return not os.environ.get("MEMD_HOME") and unit.is_file() and not systemctl("is-active", SOCKET_UNIT).returncode


def _listen(port: int | None) -> socket.socket:
    """The port that was asked for; without one the usual, else any."""
    for wanted in [port] if port else [PORT, 0]:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, wanted))
        except OSError as error:
            listening.close()
            if port:
                raise Refused(f"port {port} cannot be used: {error.strerror}", "leave --port out to get any") from None
            continue
        listening.listen(128)
        return listening
    raise Refused("no port is free")


def _announce(port: int, open_browser: bool) -> None:
    """Make an address that works once, and show it: in the browser, and as the first line."""
    admission.forget_old_tokens()
    url = f"http://{HOST}:{port}/enter#{admission.new_token(port)}"
    print(url, flush=True)
    if sys.stderr.isatty():
        print("memd: the address works once, for ten minutes; Ctrl-C ends the page", file=sys.stderr)
    if open_browser and not webbrowser.open(url):
        print("no browser could be started: open the address above", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
