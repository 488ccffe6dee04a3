"""One request as a view sees it: what was asked, the daemon's connections, and the page that answers."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memd.web.clients import Clients
from memd.web.rendering import WORDS, address, render

MAX_BODY = 4_000_000
"""Bytes of a form: a note of a megabyte, with its characters written out as an address has them."""


class Visit:
    """A request, its form, and the workspace it is about."""

    def __init__(self, request: Request, form: Mapping[str, Any] | None = None) -> None:
        self.request = request
        self.form = form or {}
        self.clients: Clients = request.app.state.clients
        self.client = self.clients.client

    def get(self, name: str, otherwise: str = "") -> str:
        """A value of the form, with the line ends that files have, else of the address."""
        value = self.form.get(name)
        return value.replace("\r\n", "\n") if isinstance(value, str) else self.request.query_params.get(name, otherwise)

    def number(self, name: str, otherwise: int, least: int = 0, most: int = 10**9) -> int:
        text = self.get(name)
        return min(max(int(text), least), most) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise

    @property
    def ns(self) -> str:
        """The workspace that was chosen; the page's own where it is bound to one."""
        return self.clients.bind or self.get("ns")

    @property
    def scope(self) -> dict[str, Any]:
        """`ns` of a call, where one workspace is meant."""
        return {"ns": self.ns} if self.ns else {}

    @property
    def live(self) -> bool:
        """Whether only the part of the page that changes is asked for."""
        return self.request.headers.get("memd-part") == "live"

    async def page(self, template: str, section: str, *, code: int = 200, **values: Any) -> HTMLResponse:
        """A page: the view in the frame that all of them have, or only its part that changes."""
        said, did = (self.request.query_params.get(name, "") for name in ("said", "did"))
        shared = {
            **({"frame": "live.html"} if self.live else {}),
            "section": section, "ns": self.ns, "bound": self.clients.bind, "here": self.here(),
            "workspaces": list(await self.clients.workspaces()), "read_only": self.request.app.state.guard.read_only,
            "linked": section == "graph" or (not self.live and await self.clients.linked(self.ns)),
            "said": WORDS["said"].get(said, ""), "did": did if did.isdigit() else "",
        }  # fmt: skip
        return render(template, {**shared, **values}, code)

    def here(self, **changed: Any) -> str:
        """This page's own address, without what was said on it, and with other values where some are given."""
        query = self.request.query_params
        kept = {name: query.getlist(name) for name in query if name not in ("said", "did")}
        return address(self.request.url.path, **{**kept, **changed})

    def back(self, said: str, action: int | None = None, to: str = "") -> Response:
        """To the page that a form names, which says what was done."""
        target = to or self.get("back", "/")
        if not target.startswith("/") or target.startswith(("//", "/\\")):
            target = "/"
        joint = "&" if "?" in target else "?"
        undo = f"&did={action}" if action else ""
        return RedirectResponse(f"{target}{joint}said={said}{undo}", 303)
