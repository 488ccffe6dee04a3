"""The way in and the way out: a token is exchanged for a cookie."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from memd.web import admission
from memd.web.rendering import refusal_page, render
from memd.web.visit import Visit


async def door(visit: Visit) -> Response:
    """The token stands behind the `#` of the address, which no browser sends; the page's script posts it."""
    return render("enter.html", {})


async def enter(visit: Visit) -> Response:
    state = visit.request.app.state
    client = visit.request.client
    if client and admission.is_other_user(client.port, state.port):
        return refusal_page(403, "This page belongs to another user of this machine.")
    if not admission.redeem(visit.get("token"), state.port):
        return refusal_page(403, "This address was used already, or it is too old.", "For another one: memd web")
    response = RedirectResponse("/", 303)
    response.set_cookie(state.cookie_name, state.sessions.open(), httponly=True, samesite="strict")
    return response


async def leave(visit: Visit) -> Response:
    state = visit.request.app.state
    state.sessions.close(visit.request.scope["memd.cookie"])
    response = refusal_page(200, "You have left.", "To come back: memd web")
    response.delete_cookie(state.cookie_name, httponly=True, samesite="strict")
    return response
