"""Whose writes are carried out at once and whose wait for a person, as `server.trust` says.

It keeps an agent that was misled from writing down what it was told to. It does not stop a program of the same user,
which can say that it is anyone.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from memd.daemon.handler_context import HandlerContext
from memd.errors import Proposed, Refused
from memd.indexer.record import actions
from memd.indexer.record.history import PEOPLE
from memd.notes import secrets
from memd.protocol.methods.base import Method, Signed, parameters_of
from memd.protocol.methods.proposals import Deciding


def trusts(ctx: HandlerContext, who: str) -> bool:
    """Whether what an author writes is carried out at once."""
    server = ctx.settings.server
    known = (*PEOPLE, *server.trusted.split())
    return server.trust == "write" or any(fnmatchcase(who, pattern) for pattern in known)


async def propose_untrusted(ctx: HandlerContext, method: Method, request: Any, params: dict[str, Any]) -> None:
    """Keep a write of someone who is not trusted as a proposal, and raise Proposed; anything else passes."""
    if not _changes(method, request) or trusts(ctx, request.who):
        return
    if method.about_daemon or any(parameter.opened for parameter in parameters_of(method.name).values()):
        # A proposal is kept in one workspace, and what a file says may have changed when it is accepted.
        raise Refused(f"`{method.name}` is left to people and to those in server.trusted", "ask the owner to do it")
    index = ctx.only_index(request)
    secrets.refuse(*(text for text in params.values() if isinstance(text, str)))
    kept = {**params, "ns": [index.workspace.ns], "who": request.who}
    number = await ctx.write(
        ctx.stores.ledger.transact,
        lambda connection: actions.add_proposal(connection, index.id, request.who, method.name, kept),
    )
    raise Proposed(
        f"it is not written yet: as proposal {number} it waits until a person accepts it",
        f"a person decides: memd proposal accept {number}, or reject",
    )


def _changes(method: Method, request: Any) -> bool:
    """Whether a call changes a workspace; to decide about a proposal is a person's alone anyway."""
    return not method.reads and isinstance(request, Signed) and not isinstance(request, Deciding) and request.changes
