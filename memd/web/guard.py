"""The checks of every request before a view sees it: host, origin, session, size; and what every answer says.

No page of another origin may read or change anything here, also not one that a name server points at this machine
(the host is compared), and not one on another port of it (a cookie is the whole host's, an origin is not).
"""

from dataclasses import dataclass
from typing import ClassVar

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from memd.errors import Refused, TooLarge
from memd.http_shell import BodyLimit, HttpGuard, Rejected, host_of
from memd.web.admission import Sessions
from memd.web.rendering import refusal_page
from memd.web.visit import MAX_BODY

FORMS = BodyLimit(MAX_BODY, 60.0, TooLarge("That is more than the page takes at once.", "Edit the file itself."))
POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types memd",
])  # fmt: skip


@dataclass
class PageGuard(HttpGuard):
    """Stands before the page."""

    port: int
    sessions: Sessions
    read_only: bool = False
    headers: ClassVar = {
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

    @property
    def cookie_name(self) -> str:
        """Cookies do not know of ports, so the name does."""
        return f"memd_{self.port}"

    def refusal(self, rejected: Rejected) -> Response:
        return refusal_page(rejected.status, rejected.error.message, rejected.error.hint)

    def check(self, scope: Scope, headers: Headers) -> None:
        host, path, method = host_of(headers), scope["path"], scope["method"]
        scope["memd.cookie"] = cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        if host not in self.hosts:
            raise _refused("This host name is not memd's.", "Open the address that `memd web` printed.")
        if method not in ("GET", "HEAD", "POST"):
            raise Rejected(405, Refused("The page does not take this kind of request."))
        if not _of_this_page(headers, host, method):
            raise _refused("Another page asked for this, and memd does not answer other pages.")
        # The way in, and files that are in every copy of memd.
        if path == "/enter" or path.startswith("/static/"):
            return
        if not self.sessions.admits(scope["memd.cookie"], is_use=path != "/events"):
            raise _refused("This browser has not been let in, or its session ended.", "Run: memd web")
        if method == "POST" and self.read_only and path != "/leave":
            raise _refused("This page was opened to read only.")


def _refused(why: str, hint: str = "") -> Rejected:
    return Rejected(403, Refused(why, hint))


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
