"""The shell of the front doors that speak HTTP, the page and the hub: what a request passes, and how it is served."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memd.errors import Busy, MemdError, Refused, TooLarge, report

Server = uvicorn.Server
BACKLOG = 1024
DISCARDED = 8
"""How many times the largest request is read, and dropped, before a connection is cut off."""


class Rejected(Exception):
    """Why a request is not answered, with the status of HTTP."""

    def __init__(self, status: int, error: MemdError, **headers: str) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers


class BodyLimit(NamedTuple):
    """How large the body of a request may be, how long it may take to arrive, and what is said of a larger one."""

    size: int
    seconds: float
    error: TooLarge


@dataclass
class HttpGuard(ABC):
    """Stands before an app: checks requests, reads their bodies, and puts the same headers on every answer."""

    app: ASGIApp
    hosts: frozenset[str]
    """The names under which the app is reached."""
    limit: BodyLimit
    headers: ClassVar[Mapping[str, str]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        send = _with_headers(send, self.headers)
        try:
            self.check(scope, Headers(scope=scope))
            if scope["method"] == "POST":
                receive = await self._whole_body(scope, receive)
            await self.pass_on(scope, receive, send)
        except Rejected as rejected:
            await self.refusal(rejected)(scope, receive, send)

    @abstractmethod
    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise Rejected unless the request may be answered."""

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the app answer."""
        await self.app(scope, receive, send)

    @abstractmethod
    def refusal(self, rejected: Rejected) -> Response:
        """The answer to a request that was not let through."""

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """The body, read within a time and a size; then whatever else comes."""
        most, seconds, too_large = self.limit
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > most * DISCARDED:
            raise Rejected(413, too_large)
        try:
            async with asyncio.timeout(seconds):
                body = await _read(receive, most)
        except TimeoutError:
            raise Rejected(408, Busy("the request took too long to arrive", "try again")) from None
        if len(body) > most:
            raise Rejected(413, too_large)
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


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = MutableHeaders(scope=message)
            for name, value in headers.items():
                given.setdefault(name, value)
        await send(message)

    return sending


def host_of(headers: Headers) -> str:
    """The host that a request names; empty where it names none, or several."""
    named = headers.getlist("host")
    return named[0] if len(named) == 1 else ""


# --- serving ----------------------------------------------------------------------------------------------------------


def listen(address: str, port: int, name: str, hint: str) -> socket.socket:
    """A socket that listens; Refused, with what it is called and a hint, where it cannot be had."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place, family=family, backlog=BACKLOG, dualstack_ipv6=family == socket.AF_INET6)
    except socket.gaierror as error:
        reason = str(error.strerror)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    raise Refused(f"{name} cannot be used: {reason}", hint)


def server(app: ASGIApp, **options: Any) -> Server:
    """A server that tells nothing of itself."""
    return Server(uvicorn.Config(
        app, ws="none", access_log=False, server_header=False, date_header=False, log_level="warning", **options
    ))  # fmt: skip


def exit_code(run: Callable[[], None]) -> int:
    """Run a front door until it ends or fails."""
    try:
        run()
    except MemdError as error:
        return report(error)
    except KeyboardInterrupt:
        pass
    return 0
