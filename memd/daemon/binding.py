"""A connection that is bound to one workspace: its calls mean that one, and another only where the config allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.server import ClientWriter
from memd.errors import Refused
from memd.protocol.messages import WHOLE

HARMLESS = frozenset({"hello", "ping", "unsubscribe", "status", "workspaces.list"})
"""What anyone may ask the daemon as a whole; the answer tells only of the workspace that is meant."""

READ_FROM = ("path", "paths")
TAKES_FILES = frozenset({"import", "ingest", "eval"})
"""Methods whose `path` or `paths` name files anywhere, which the daemon opens."""


def bind(ctx: HandlerContext, line: ClientWriter, ns: str) -> None:
    """Bind a connection, for as long as it lives."""
    ctx.parts.stores.index(ns)
    if line.bound not in ("", ns):
        raise Refused(f"this connection is bound to `{line.bound}`", "open another one for another workspace")
    line.bound = ns


def meant(ctx: HandlerContext, line: ClientWriter, method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call with the workspace that it means; Refused where that is not the caller's."""
    bound = line.bound
    if not bound:
        return given
    if method in WHOLE:
        if method not in HARMLESS:
            raise Refused(f"this connection is bound to `{bound}`, and `{method}` is about more than that", "")
        return given
    named = given.get("ns")
    if named is None:
        given = {**given, "ns": bound}
    elif not _freely(ctx) and set(named if isinstance(named, list) else [named]) != {bound}:
        raise Refused(
            f"this connection is bound to `{bound}` and may not name another workspace",
            "leave `ns` out; the config allows it with [server] cross_workspace = true",
        )
    if method in TAKES_FILES and not _freely(ctx):
        _refuse_others_files(ctx, bound, given)
    return given


def shown(ctx: HandlerContext, line: ClientWriter, told: Result) -> Result:
    """An answer without the other workspaces."""
    if not line.bound or "workspaces" not in told or _freely(ctx):
        return told
    return {**told, "workspaces": [entry for entry in told["workspaces"] if entry["ns"] == line.bound]}


def _freely(ctx: HandlerContext) -> bool:
    return ctx.parts.settings.server.cross_workspace


def _refuse_others_files(ctx: HandlerContext, bound: str, given: dict[str, Any]) -> None:
    named = [given.get(name) for name in READ_FROM]
    texts = [text for value in named for text in (value if isinstance(value, list) else [value])]
    own = ctx.parts.stores.index(bound).workspace.root
    roots = [index.workspace.root for index in ctx.parts.stores.indexes.values()]
    for text in texts:
        place = Path(text).resolve() if isinstance(text, str) and "\0" not in text else own
        around = [root for root in roots if place.is_relative_to(root)]
        if around and max(around, key=lambda root: len(root.parts)) != own:
            raise Refused(f"{text} belongs to another workspace than `{bound}`", "name files of your own")
