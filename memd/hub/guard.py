"""What every request passes before it is read: its host, its origin, its token, its pace and its size.

No web page may use a browser to reach the hub, also not one that a name server points at it: the host is compared, and
a request with the origin of another site is refused. There are no cookies, so there is nothing to forge.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memd.config.schema import HubSettings, ServerSettings
from memd.config.tokens import AccessToken, TokenFile
from memd.errors import Busy, MemdError, Refused, TooLarge
from memd.hub.access import Access
from memd.hub.connections import CONNECTION, GuestConnection
from memd.protocol import wire
from memd.protocol.wire import RateLimit

log = logging.getLogger("memd.hub")

ACCESS = "memd.access"
"""Where in a request's scope stands what it may do."""
HEALTH, MCP, RPC = "/health", "/mcp", "/rpc"
FAILURES_PER_SECOND = 10
"""Wrong tokens that are answered; those beyond are told to wait. A right one is always let in."""
DISCARDED = 8
"""How many times the largest request is read, and dropped, before a connection is cut off."""
AT_ONCE = 8
"""Requests with one token that are answered at a time; others wait their turn, and hold up no other token."""
TURN_SECONDS = 10.0
"""How long they wait for it."""
RETRY = {"Retry-After": "1"}
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}


class Rejected(Exception):
    """Why a request is not answered, with the status of HTTP."""

    def __init__(self, status: int, error: MemdError, **headers: str) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers

    @classmethod
    def for_now(cls, why: str) -> Rejected:
        """The same request may go through in a moment."""
        return cls(429, Busy(why, "wait, and try again"), **RETRY)

    def response(self) -> Response:
        """The same error that the socket would send, as a line without an id."""
        body = wire.encode_error(None, self.error)
        return Response(body, self.status, {**HEADERS, **self.headers}, "application/json")


@dataclass(frozen=True, slots=True)
class Guest:
    """A token that was seen: how fast it asks, and how much of it is under way."""

    pace: RateLimit
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))


@dataclass
class HubGuard:
    """Stands before the app."""

    app: ASGIApp
    hosts: frozenset[str]
    """The names under which the hub is reached, without ports."""
    settings: HubSettings
    seconds: float = ServerSettings().line_timeout_s
    """How long a request may take to arrive."""
    tokens: TokenFile = field(default_factory=TokenFile)
    _guests: dict[str, Guest] = field(default_factory=dict)
    _failures: RateLimit = field(default_factory=lambda: RateLimit(FAILURES_PER_SECOND))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        try:
            self._check(scope, Headers(scope=scope))
            if ACCESS in scope:
                receive = await self._whole_body(scope, receive)
                await self._answer_in_turn(scope, receive, send)
            else:
                await self.app(scope, receive, send)
        except Rejected as rejected:
            await rejected.response()(scope, receive, send)

    async def _answer_in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        turn, connection = self._guest(scope[ACCESS].token).turn, _connection(scope)
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise Rejected.for_now(f"{AT_ONCE} requests with this token are under way") from None
        try:
            # Nothing is done for a caller that has hung up meanwhile.
            if connection is None or not connection.gone:
                await self.app(scope, receive, send)
        finally:
            turn.release()

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if headers.getlist("host") != [host] or bare_host(host) not in self.hosts:
            raise Rejected(
                421, Refused("this host name is not the hub's", "the owner allows one: memd serve --host NAME")
            )
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
            scope[ACCESS] = _narrowed(token, QueryParams(scope["query_string"]))

    def _token(self, scope: Scope, headers: Headers) -> AccessToken:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        found = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if found:
            return found
        if not self._failures.allows():
            raise Rejected.for_now("too many requests without a valid token")
        given = "a token that is unknown, revoked or expired" if secret else "no token"
        log.warning("%s came with %s", (scope.get("client") or ["someone"])[0], given)
        hint = "the owner makes one: memd token add NAME --ns WORKSPACE --read; give it as MEMD_TOKEN"
        challenge = 'Bearer realm="memd"' + (', error="invalid_token"' if secret else "")
        raise Rejected(401, Refused(f"this request has {given}", hint), **{"WWW-Authenticate": challenge})

    def _guest(self, token: AccessToken) -> Guest:
        if token.digest not in self._guests:
            self._guests[token.digest] = Guest(RateLimit(self.settings.calls_per_second))
        return self._guests[token.digest]

    def _keep_pace(self, token: AccessToken, connection: GuestConnection | None) -> None:
        if not self._guest(token).pace.allows():
            raise Rejected.for_now(f"a token may make {self.settings.calls_per_second:,} calls a second")
        if connection is not None and not connection.belongs_to(token.digest):
            raise Rejected.for_now("all the connections that a token may have are in use")

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """The body, read within a time and a size; then whatever else comes."""
        most = self.settings.max_request_kb * 1024
        too_large = Rejected(413, TooLarge(f"a request may have {most} bytes", "ask for less at once"))
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > most * DISCARDED:
            raise too_large
        try:
            async with asyncio.timeout(self.seconds):
                body = await _read(receive, most)
        except TimeoutError:
            raise Rejected(408, Busy("the request took too long to arrive", "try again")) from None
        if len(body) > most:
            raise too_large
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receiving() -> Message:
            return whole.pop() if whole else await receive()

        return receiving


async def _read(receive: Receive, most: int) -> bytes:
    """The body; of one that is too large as much as shows it. The rest is read and dropped as far as that is
    reasonable: who is cut off while sending never sees the answer."""
    body, size, more = b"", 0, True
    while more and size <= most * DISCARDED:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if len(body) <= most:
            body += part
        more = message["type"] == "http.request" and message.get("more_body", False)
    return body


def _connection(scope: Scope) -> GuestConnection | None:
    """The connection that a request came by."""
    found: GuestConnection | None = scope.get("state", {}).get(CONNECTION)
    return found


def _narrowed(token: AccessToken, query: QueryParams) -> Access:
    try:
        return Access.of(token, query.get("ns", ""))
    except MemdError as error:
        raise Rejected(403, error) from None


def bare_host(host: str) -> str:
    """A host without its port: `[::1]:8428` is `[::1]`."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()
