"""The page's routes, and what becomes of errors."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from memd.errors import Busy, Conflict, MemdError, NoDaemon, NotFound, Refused, UnknownWorkspace, UsageError
from memd.web.admission import Sessions
from memd.web.clients import Clients
from memd.web.guard import FORMS, PageGuard
from memd.web.rendering import STATIC, refusal_page
from memd.web.views import entry, memory, overview, search, tending
from memd.web.visit import MAX_BODY, Visit

STATUS: tuple[tuple[type[MemdError], int], ...] = (
    (NotFound, 404), (UsageError, 400), (Conflict, 409), (Refused, 403), (NoDaemon, 503), (Busy, 503),
)  # fmt: skip
View = Callable[[Visit], Awaitable[Response]]


def make_app(clients: Clients, sessions: Sessions, port: int, read_only: bool = False) -> PageGuard:
    """The whole page, behind its guard."""
    app = Starlette(routes=_routes(), exception_handlers={MemdError: _failed, HTTPException: _no_such_page})
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    guard = PageGuard(GZipMiddleware(app, minimum_size=800), hosts, FORMS, port, sessions, read_only)
    app.state.clients, app.state.guard = clients, guard
    return guard


def _routes() -> list[BaseRoute]:
    shown: dict[str, View] = {
        "/": search.search, "/why-not": search.why_not, "/context": search.context, "/memory": memory.show,
        "/memory/edit": memory.edit, "/memory/history": memory.history, "/image": memory.image,
        "/timeline": overview.timeline, "/graph": overview.graph, "/graph.json": overview.graph_data,
        "/life": overview.life, "/review": tending.review, "/health": tending.health, "/events": entry.events,
        "/enter": entry.door,
    }  # fmt: skip
    done: dict[str, View] = {
        "/memory/edit": memory.save, "/do/{action}": tending.do, "/enter": entry.enter, "/leave": entry.leave,
    }  # fmt: skip
    return [
        *(Route(path, _endpoint(view), methods=["POST"]) for path, view in done.items()),
        *(Route(path, _endpoint(view), methods=["GET"]) for path, view in shown.items()),
        Mount("/static", _Static(directory=STATIC)),
    ]


def _endpoint(view: View) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        form = await request.form(max_part_size=MAX_BODY) if request.method == "POST" else {}
        request.state.typed = form.get("text", "")
        return await view(Visit(request, form))

    return answer


class _Static(StaticFiles):
    """Files whose address changes with them, so a browser may keep them."""

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        response = await super().get_response(path, scope)
        if b"v=" in scope["query_string"]:
            response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        return response


async def _failed(request: Request, error: Exception) -> Response:
    """The daemon's error, in its own words."""
    assert isinstance(error, MemdError)
    if isinstance(error, UnknownWorkspace) and not await request.app.state.clients.workspaces():
        return await Visit(request).page("begin.html", "search")
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    own, came_from = str(request.base_url), request.headers.get("referer", "")
    back = "/" + came_from.removeprefix(own) if came_from.startswith(own) else ""
    # A text that could not be saved stays on the page.
    typed, away = getattr(request.state, "typed", ""), status == 503
    return await Visit(request).page(
        "failed.html", request.url.path.split("/")[1] or "search", code=status, error=error,
        back="" if away else back, typed=typed, again=away and request.method == "GET",
    )  # fmt: skip


async def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal_page(error.status_code, "There is no such page.")
