"""Writes by agents that a person decides about: `proposal.list`, `proposal.accept` and `proposal.reject`."""

from __future__ import annotations

import json
from functools import partial
from sqlite3 import Row

from memd.daemon.handlers.permission import trusts
from memd.daemon.handlers.registry import HANDLERS, HandlerContext, IncomingCall, Result, handles
from memd.errors import NotFound, Refused
from memd.indexer.record import actions
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import parse
from memd.protocol.methods.proposals import Deciding, ProposalAcceptRequest, ProposalListRequest, ProposalRejectRequest

ADDED = ("ns", "cwd", "who", "now", "request_id")
"""Parameters that say who asked, where and when, and not what for."""


@handles(ProposalListRequest)
async def proposal_list(ctx: HandlerContext, request: ProposalListRequest, call: IncomingCall) -> Result:
    names = ctx.names(request)
    return {"ns": list(names), "proposals": [_shown(ctx, row) for row in await ctx.read(_waiting, ctx, names)]}


@handles(ProposalAcceptRequest)
async def proposal_accept(ctx: HandlerContext, request: ProposalAcceptRequest, call: IncomingCall) -> Result:
    row = await _decided(ctx, request, call)
    method = METHODS[row["method"]]
    params = {name: value for name, value in json.loads(row["params"]).items() if name in method.parameters}
    result = await HANDLERS[method.request](ctx, parse(method, params), call)
    await ctx.write(ctx.stores.ledger.transact, partial(actions.drop_proposal, proposal=row["id"]))
    return {"proposal": _shown(ctx, row), "result": result}


@handles(ProposalRejectRequest)
async def proposal_reject(ctx: HandlerContext, request: ProposalRejectRequest, call: IncomingCall) -> Result:
    row = await _decided(ctx, request, call)
    await ctx.write(ctx.stores.ledger.transact, partial(actions.drop_proposal, proposal=row["id"]))
    return {"proposal": _shown(ctx, row)}


async def _decided(ctx: HandlerContext, request: Deciding, call: IncomingCall) -> Row:
    """The proposal that someone decides about, who must be trusted to write."""
    if call.connection.bound or not trusts(ctx, request.who):
        raise Refused("a proposal is decided by a person, not by an agent", "in a shell: memd proposal list")
    found = [row for row in await ctx.read(_waiting, ctx, ctx.names(request)) if row["id"] == request.proposal]
    if not found:
        raise NotFound(f"no proposal here has the number {request.proposal}", "memd proposal list")
    return found[0]


def _waiting(ctx: HandlerContext, names: tuple[str, ...]) -> list[Row]:
    return actions.waiting_proposals(ctx.stores.ledger.reader, [ctx.stores.index(ns).id for ns in names])


def _shown(ctx: HandlerContext, row: Row) -> Result:
    (ns,) = (index.workspace.ns for index in ctx.stores.indexes.values() if index.id == row["workspace"])
    params = {name: value for name, value in json.loads(row["params"]).items() if name not in ADDED}
    return {"proposal": row["id"], "ns": ns, **{name: row[name] for name in ("at", "who", "method")}, "params": params}
