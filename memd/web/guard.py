"""What every request passes before a view sees it: host, origin, session, size; and what every answer says.

No page of another origin may read or change anything here, also not one that a name server points at this machine
(the host is compared), and not one on another port of it (a cookie is the whole host's, an origin is not).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memd.web.admission import Sessions
from memd.web.rendering import refusal_page
from memd.web.visit import MAX_BODY

POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types memd",
])  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers then hide the origin of a form, which is checked here.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), interest-cohort=()",
    "Cache-Control": "no-store",
}


@dataclass
class Guard:
    """Stands before the app."""

    app: ASGIApp
    port: int
    sessions: Sessions
    read_only: bool = False
    _hosts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._hosts = frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        scope["memd.cookie"] = cookie
        refusal = self._refusal(scope, headers, cookie)
        if refusal:
            await refusal(scope, receive, _with_headers(send))
        else:
            await self.app(scope, _bounded(receive), _with_headers(send))

    @property
    def cookie_name(self) -> str:
        """Cookies do not know of ports, so the name does."""
        return f"memd_{self.port}"

    def _refusal(self, scope: Scope, headers: Headers, cookie: str) -> Response | None:
        host, path, method = headers.get("host", ""), scope["path"], scope["method"]
        if host not in self._hosts or headers.getlist("host") != [host]:
            return refusal_page(403, "This host name is not memd's.", "Open the address that `memd web` printed.")
        if method not in ("GET", "HEAD", "POST"):
            return refusal_page(405, "There is no such way to ask.")
        if not _of_this_page(headers, host, method):
            return refusal_page(403, "Another page asked for this, and memd does not answer other pages.")
        # The way in, and files that are in every copy of memd.
        if path == "/enter" or path.startswith("/static/"):
            return None
        if not self.sessions.admits(cookie, is_use=path != "/events"):
            return refusal_page(403, "This browser has not been let in, or its session ended.", "Run: memd web")
        if method == "POST" and self.read_only and path != "/leave":
            return refusal_page(403, "This page was opened to read only.")
        return None


def _of_this_page(headers: Headers, host: str, method: str) -> bool:
    """Whether memd's own page asks, or a person by the address bar."""
    site = headers.get("sec-fetch-site", "")
    if method != "POST":
        return site in ("", "none", "same-origin") or (
            # A link in another program leads here: without the cookie, which is not sent along, it shows nothing.
            headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        )
    origin = headers.get("origin", "")
    return origin == f"http://{host}" if origin else site == "same-origin"


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


class BodyTooLarge(Exception):
    """More was sent than any note needs."""


def _bounded(receive: Receive) -> Receive:
    """Stop reading a body that does not end."""
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise BodyTooLarge
        return message

    return receiving
