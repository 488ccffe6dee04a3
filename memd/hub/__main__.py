"""`python -m memd.hub`: checks that it is safe to listen, prints the address, and serves until it is stopped."""

import logging
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from memd.config import tokens
from memd.config.addresses import ip_of, is_loopback_host
from memd.config.load import load
from memd.config.schema import HubSettings, Settings
from memd.errors import Refused, UsageError
from memd.http_shell import BACKLOG, exit_code, listen, server
from memd.hub.app import make_app
from memd.hub.guard import Connections, GuestConnection
from memd.protocol.client import Client
from memd.protocol.connection import raise_file_limit

IDLE_SECONDS = 75
"""How long a connection is kept for a client's next request."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    return exit_code(_run)


def _run() -> None:
    # The options of `memd serve` are settings, which come by the environment; all but --no-start.
    settings = load()
    hub = replace(settings.hub, cert=_expanded(settings.hub.cert), key=_expanded(settings.hub.key))
    address, port = _address(hub.listen)
    hosts = hosts_of(hub, address)
    check_safe(hub, address, hosts)
    if "--no-start" not in sys.argv:
        # Starts the daemon where none runs, or says why that cannot be.
        with Client(autostart=True, who="hub") as memory:
            memory.ping()
    listening = listen(address, port, f"{address}:{port}", "choose another: --listen")
    _announce(hub, address, listening.getsockname()[1])
    _serve(listening, hosts, replace(settings, hub=hub))


def _expanded(file: str) -> str:
    return str(Path(file).expanduser()) if file else ""


# --- whether it is safe -----------------------------------------------------------------------------------------


def check_safe(hub: HubSettings, address: str, hosts: frozenset[str]) -> None:
    """Refuse to listen where others could read along, or where nobody could be let in."""
    for place in filter(None, (hub.cert, hub.key)):
        if not Path(place).is_file():
            raise UsageError(f"there is no file {place}", "give the certificate and its key as PEM files")
    if is_loopback_host(address):
        return
    if not (hub.cert or hub.behind_proxy):
        hint = "give --cert FILE --key FILE; or, if a proxy in front of it does TLS, --behind-proxy"
        raise Refused(f"without TLS the hub listens on this machine only, not on {address}", hint)
    if not any(not token.expired for token in tokens.all_tokens()):
        raise Refused("there is no token yet, so nobody could be let in", "memd token add NAME --ns WORKSPACE --read")
    if not hosts:
        raise UsageError(f"by what name is the hub reached on {address}?", "give it: --host memory.example.org")


def hosts_of(hub: HubSettings, address: str) -> frozenset[str]:
    """The names under which the hub answers: those that were given, and its address where that is one."""
    own: tuple[str, ...] = LOOPBACK_NAMES if is_loopback_host(address) else (_in_url(address),)
    if (found := ip_of(address)) and found.is_unspecified:
        # Every address of the machine says nothing about its name. A health check asks from inside.
        own = LOOPBACK_NAMES if hub.hosts else ()
    return frozenset(name.lower() for name in (*own, *hub.hosts.split()))


# --- listening --------------------------------------------------------------------------------------------------


def _address(listen: str) -> tuple[str, int]:
    """`127.0.0.1:8428`, `[::1]:8428` or `example.org:8428` as an address and a port."""
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{listen!r} is not an address to listen on", "give an address and a port: 127.0.0.1:8428")
    return address.strip("[]"), int(port)


def _announce(hub: HubSettings, address: str, port: int) -> None:
    """The first line is the address, for whoever started it."""
    print(f"{'https' if hub.cert else 'http'}://{_in_url(address)}:{port}", flush=True)
    if not tokens.all_tokens():
        print("memd: nobody can be let in yet: memd token add NAME --ns WORKSPACE --read", file=sys.stderr)


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _serve(listening: socket.socket, hosts: frozenset[str], settings: Settings) -> None:
    """Serve until a signal comes, with TLS where there is a certificate."""
    raise_file_limit()
    hub, connections = settings.hub, Connections(settings.hub.max_clients, settings.server.line_timeout_s)
    tls = {"ssl_certfile": hub.cert, "ssl_keyfile": hub.key or None} if hub.cert else {}
    server(
        make_app(hosts, settings), http=partial(GuestConnection, connections), lifespan="on",
        proxy_headers=hub.behind_proxy, limit_concurrency=hub.max_clients, backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=5, **tls,
    ).run(sockets=[listening])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
