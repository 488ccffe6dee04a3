"""The rights of a call: a bound connection has its one workspace, unless the config allows others, and whose writes
are carried out at once and whose wait for a person, as `server.trust` says.

The latter keeps an agent that was misled from writing down what it was told to. It does not stop a program of the same
user, which can say that it is anyone."""

from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from memd.daemon.handlers.handler_context import HandlerContext, Result
from memd.daemon.serving.server import ClientConnection
from memd.errors import MemdError, Proposed, Refused, UnknownWorkspace
from memd.indexer.record import actions, history
from memd.indexer.views import keys, past, topics
from memd.models import JsonObject
from memd.notes import secrets
from memd.protocol.methods.base import Asking, Method, Numbered, Signed, Timed, parameters_of
from memd.protocol.methods.history import UndoRequest
from memd.protocol.methods.memories import PutRequest
from memd.protocol.methods.proposals import Deciding

ADD = "workspace.add"


def bind(ctx: HandlerContext, connection: ClientConnection, ns: str) -> None:
    """Bind a connection, for as long as it lives."""
    root = ctx.stores.index(ns).workspace.root
    if connection.bound not in ("", ns):
        raise Refused(f"this connection is bound to `{connection.bound}`", "open another one for another workspace")
    connection.bound, connection.root = ns, connection.root or root


def bound_params(ctx: HandlerContext, connection: ClientConnection, method: Method, params: JsonObject) -> JsonObject:
    """The parameters with the connection's workspace; Refused where they name another one, or mean all of memd."""
    # Which folders a session may add is checked before.
    for_bound = method.for_bound or (method.name == ADD and connection.successor is not None)
    if not (bound := connection.bound) or (method.about_daemon and for_bound):
        return params
    index = ctx.stores.indexes.get(bound)
    if index is None or index.workspace.root != connection.root:
        # Of others it is told nothing, also not of a directory that has the name now.
        raise UnknownWorkspace(f"`{bound}`, the workspace of this connection, is no longer watched")
    if method.about_daemon:
        raise Refused(f"this connection is bound to `{bound}`, and `{method.name}` is not about one workspace", "")
    named, along = params.get("ns"), ctx.along(bound) if method.reads else ()
    if named in (None, []):
        return {**params, "ns": [bound, *(along if issubclass(method.request, Asking) else ())]}
    names = named if isinstance(named, list) else [named]
    if not all(one in (bound, *along) for one in names) and not ctx.settings.server.cross_workspace:
        why = f"this connection is bound to `{bound}` and may not name another workspace"
        raise Refused(why, "leave `ns` out; the config allows it with [server] cross_workspace = true")
    return params


def check_folder(ctx: HandlerContext, path: str) -> None:
    """Refuse a folder that no setting allows agents to add."""
    allowed = ctx.settings.server.index_folders.split()
    if not any(Path(path).expanduser().resolve().is_relative_to(Path(one).expanduser().resolve()) for one in allowed):
        raise Refused(f"{path} is in no folder that agents may add", "ask the user to allow it: server.index_folders")


def visible_part(ctx: HandlerContext, connection: ClientConnection, result: Result) -> Result:
    """A result without the other workspaces."""
    if not connection.bound or "workspaces" not in result or ctx.settings.server.cross_workspace:
        return result
    return {**result, "workspaces": [entry for entry in result["workspaces"] if entry["ns"] == connection.bound]}


def check_files(ctx: HandlerContext, connection: ClientConnection, method: Method, request: Any) -> None:
    """Refuse to open files of another workspace, or folders around one, for a bound connection."""
    if not (bound := connection.bound) or ctx.settings.server.cross_workspace:
        return
    values = [getattr(request, one.python_name) for one in parameters_of(method.name).values() if one.opened]
    state = ctx.stores.folder.resolve()
    others = [index.workspace.root for ns, index in ctx.stores.indexes.items() if ns != bound]
    for text in (text for value in values for text in ((value,) if isinstance(value, str) else value)):
        if not text or "\0" in text:
            continue
        path = Path(text).resolve()
        holds = any(place.resolve().is_relative_to(path) for place in (*others, state)) or path.is_relative_to(state)
        if holds or ctx.around(str(path), holding=True) not in ("", bound):
            raise Refused(f"{text} belongs to another workspace than `{bound}`", "name files of your own")


def trusts(ctx: HandlerContext, who: str) -> bool:
    """Whether what an author writes is carried out at once."""
    server = ctx.settings.server
    known = (*history.PEOPLE, *server.trusted.split())
    return server.trust == "write" or any(fnmatchcase(who, pattern) for pattern in known)


async def propose_untrusted(ctx: HandlerContext, method: Method, request: Any, params: JsonObject) -> None:
    """Keep a write of someone who is not trusted as a proposal, and raise Proposed; anything else passes."""
    # To decide about a proposal is a person's alone anyway.
    changes = not method.reads and isinstance(request, Signed) and not isinstance(request, Deciding) and request.changes
    if not changes or trusts(ctx, request.who):
        return
    if method.about_daemon or any(parameter.opened for parameter in parameters_of(method.name).values()):
        # A proposal is kept in one workspace, and what a file says may have changed when it is accepted.
        raise Refused(f"`{method.name}` is only for people and the authors in server.trusted", "ask the owner to do it")
    index = ctx.only_index(request)
    secrets.refuse(*(text for text in params.values() if isinstance(text, str)))
    kept = {**params, "ns": [index.workspace.ns], "who": request.who}
    if isinstance(request, UndoRequest) and not request.action:
        # The last one by now, whatever its author has written by the time it is accepted.
        last = await ctx.read(past.action, ctx.stores, [index], 0, request.author)
        kept |= {"action": last["id"]} if last is not None else {}
    if isinstance(request, Timed):
        kept["now"] = request.now or f"{request.local_time():%Y-%m-%dT%H:%M}"
    if isinstance(request, Numbered) and request.request_id:
        kept["request_id"] = request.request_id
    if isinstance(request, PutRequest) and request.text is not None and request.if_version is None:
        # What the author means to replace: what others write there meanwhile is not overwritten unread.
        await ctx.catch_up()
        with suppress(MemdError):
            layout = topics.layout(index)
            target = await ctx.read(keys.existing_or_new, ctx.stores, index, request.key, layout)
            kept["if_version"] = target.version
    proposal = index.id, request.who, method.name, kept
    number = await ctx.write(ctx.stores.ledger.transact, actions.add_proposal, *proposal)
    why = f"it is not written yet: as proposal {number} it waits until a person accepts it"
    raise Proposed(why, f"a person decides: memd proposal accept {number}, or reject")
