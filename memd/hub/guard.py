"""The checks of every request before it is read: its host, its origin, its token, its pace and its size; and of each
connection, of which every token has its share.

No web page may use a browser to reach the hub, also not one that a name server points at it: the host is compared, and
a request with the origin of another site is refused. There are no cookies, so there is nothing to forge.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from memd.config.schema import HubSettings
from memd.config.tokens import AccessToken, find
from memd.errors import Busy, MemdError, Refused
from memd.http_shell import HttpGuard, Rejected, host_of
from memd.hub.access import Access
from memd.protocol import wire
from memd.protocol.wire import RateLimit

log = logging.getLogger("memd.hub")

ACCESS = "memd.access"
"""Where in a request's scope stands what it may do."""
HEALTH, MCP, RPC = "/health", "/mcp", "/rpc"
FAILURES_PER_SECOND = 10
"""Wrong tokens that are answered; those beyond are told to wait. A right one is always let in."""
AT_ONCE = 8
"""Requests with one token that are answered at a time; others wait their turn, and hold up no other token."""
TURN_SECONDS = 10.0
"""How long they wait for it."""
CONNECTION = "memd.connection"
"""Where in the state of a request stands the connection it came by."""
NOBODY = ""
TOKENS_SHARE, STRANGERS_SHARE = 1 / 4, 1 / 2
"""The shares of all connections: for one token, and for those without any."""


def wait(why: str) -> Rejected:
    """The same request may go through in a moment."""
    return Rejected(429, Busy(why, "wait, and try again"), **{"Retry-After": "1"})


@dataclass(frozen=True, slots=True)
class Guest:
    """A token that was seen: how fast it asks, and how much of it is under way."""

    pace: RateLimit
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))


@dataclass
class HubGuard(HttpGuard):
    """Stands before the hub; hosts have no ports."""

    settings: HubSettings
    headers: ClassVar = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
    }
    _guests: dict[str, Guest] = field(default_factory=dict)
    _failures: RateLimit = field(default_factory=lambda: RateLimit(FAILURES_PER_SECOND))

    def refusal(self, rejected: Rejected) -> Response:
        """The same error that the socket would send, as a line without an id."""
        body = wire.encode_error(None, rejected.error)
        return Response(body, rejected.status, rejected.headers, "application/json")

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Requests with a token are answered in turn."""
        if ACCESS not in scope:
            await self.app(scope, receive, send)
            return
        turn, connection = self._guest(scope[ACCESS].token).turn, _connection(scope)
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise wait(f"{AT_ONCE} requests with this token are under way") from None
        try:
            # Nothing is done for a caller that has hung up meanwhile.
            if connection is None or not connection.transport.is_closing():
                await self.app(scope, receive, send)
        finally:
            turn.release()

    def check(self, scope: Scope, headers: Headers) -> None:
        host = host_of(headers)
        if bare_host(host) not in self.hosts:
            hint = "the owner allows one: memd serve --host NAME"
            raise Rejected(421, Refused("this host name is not the hub's", hint))
        if (origin := headers.get("origin")) and origin.partition("://")[2].lower() != host.lower():
            raise Rejected(403, Refused("a page of another site asked for this, and the hub does not answer those", ""))
        path, method = scope["path"], scope["method"]
        if path not in (HEALTH, MCP, RPC):
            raise Rejected(404, Refused("there is nothing here", f"there are {MCP}, {RPC} and {HEALTH}"))
        if method != ("GET" if path == HEALTH else "POST"):
            raise Rejected(405, Refused(f"{path} takes no {method}", ""), Allow="GET" if path == HEALTH else "POST")
        if path != HEALTH:
            token = self._token(scope, headers)
            self._keep_pace(token, _connection(scope))
            try:
                scope[ACCESS] = Access.of(token, QueryParams(scope["query_string"]).get("ns", ""))
            except MemdError as error:
                raise Rejected(403, error) from None

    def _token(self, scope: Scope, headers: Headers) -> AccessToken:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        found = find(secret.strip()) if scheme.lower() == "bearer" else None
        if found:
            return found
        if not self._failures.allows():
            raise wait("too many requests without a valid token")
        given = "a token that is unknown, revoked or expired" if secret else "no token"
        log.warning("%s came with %s", (scope.get("client") or ["someone"])[0], given)
        hint = "the owner makes one: memd token add NAME --ns WORKSPACE --read; give it as MEMD_TOKEN"
        challenge = 'Bearer realm="memd"' + (', error="invalid_token"' if secret else "")
        raise Rejected(401, Refused(f"this request has {given}", hint), **{"WWW-Authenticate": challenge})

    def _guest(self, token: AccessToken) -> Guest:
        return self._guests.setdefault(token.digest, Guest(RateLimit(self.settings.calls_per_second)))

    def _keep_pace(self, token: AccessToken, connection: GuestConnection | None) -> None:
        if not self._guest(token).pace.allows():
            raise wait(f"a token may make {self.settings.calls_per_second:,} calls a second")
        if connection is not None and not connection.others.add(connection, token.digest):
            raise wait("all the connections that a token may have are in use")


def _connection(scope: Scope) -> GuestConnection | None:
    """The connection that a request came by."""
    found: GuestConnection | None = scope.get("state", {}).get(CONNECTION)
    return found


def bare_host(host: str) -> str:
    """A host without its port: `[::1]:8428` is `[::1]`."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


# --- connections: each token has its share of them, and so have those on which none was shown yet -------------------


class Connections:
    """The open connections by the token that was last seen on each, oldest first."""

    def __init__(self, most: int, seconds: float) -> None:
        self.seconds = seconds
        """How long the headers of a request may take to arrive."""
        self._most = most
        self._of: defaultdict[str, dict[GuestConnection, None]] = defaultdict(dict)

    def add(self, connection: GuestConnection, owner: str) -> bool:
        """Count a connection as its owner's; False where all that the owner may have are in use.

        The oldest idle one gives way to it. One without a token always does: who has one gets in, however many wait.
        """
        theirs = self._of[owner]
        if connection in theirs:
            return True
        if len(theirs) >= max(1, int(self._most * (TOKENS_SHARE if owner else STRANGERS_SHARE))):
            oldest = next((one for one in theirs if one.idle or owner == NOBODY), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.transport.abort()
        self.remove(connection)
        connection.owner = owner
        theirs[connection] = None
        return True

    def remove(self, connection: GuestConnection) -> None:
        self._of[connection.owner].pop(connection, None)


class GuestConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The hub's additions to a connection of its server: whose it is, and a time limit for the headers of a request."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    """The request that is under way, or was the last."""

    def __init__(self, others: Connections, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **given)
        self.owner = NOBODY
        self.others = others
        self._late: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.others.add(self, NOBODY)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_clock()
        elif self.idle and self._late is None:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self.others.remove(self)
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        self._late = self.loop.call_later(self.others.seconds, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
