"""Connections that are bound to one workspace: their calls are about that one, unless the config allows others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.server import ClientConnection
from memd.errors import Refused
from memd.protocol.methods.base import Method, parameters_of


def bind(ctx: HandlerContext, connection: ClientConnection, ns: str) -> None:
    """Bind a connection, for as long as it lives."""
    ctx.stores.index(ns)
    if connection.bound not in ("", ns):
        raise Refused(f"this connection is bound to `{connection.bound}`", "open another one for another workspace")
    connection.bound = ns


def bound_params(
    ctx: HandlerContext, connection: ClientConnection, method: Method, params: dict[str, Any]
) -> dict[str, Any]:
    """The parameters with the connection's workspace; Refused where they name another one, or mean all of memd."""
    bound = connection.bound
    if not bound:
        return params
    if method.about_daemon:
        if not method.for_bound:
            raise Refused(f"this connection is bound to `{bound}`, and `{method.name}` is about more than that", "")
        return params
    named = params.get("ns")
    if named in (None, []):
        return {**params, "ns": bound}
    if named not in (bound, [bound]) and not _unrestricted(ctx):
        raise Refused(
            f"this connection is bound to `{bound}` and may not name another workspace",
            "leave `ns` out; the config allows it with [server] cross_workspace = true",
        )
    return params


def visible_part(ctx: HandlerContext, connection: ClientConnection, result: Result) -> Result:
    """A result without the other workspaces."""
    if not connection.bound or "workspaces" not in result or _unrestricted(ctx):
        return result
    return {**result, "workspaces": [entry for entry in result["workspaces"] if entry["ns"] == connection.bound]}


def _unrestricted(ctx: HandlerContext) -> bool:
    return ctx.settings.server.cross_workspace


def check_files(ctx: HandlerContext, connection: ClientConnection, method: Method, request: Any) -> None:
    """Refuse to open files of another workspace for a bound connection."""
    bound = connection.bound
    if not bound or _unrestricted(ctx):
        return
    values = [getattr(request, one.python_name) for one in parameters_of(method.name).values() if one.opened]
    own = ctx.stores.index(bound).workspace.root
    roots = [index.workspace.root for index in ctx.stores.indexes.values()]
    for text in (text for value in values for text in ((value,) if isinstance(value, str) else value)):
        path = Path(text).resolve() if text and "\0" not in text else own
        around = [root for root in roots if path.is_relative_to(root)]
        if around and max(around, key=lambda root: len(root.parts)) != own:
            raise Refused(f"{text} belongs to another workspace than `{bound}`", "name files of your own")
