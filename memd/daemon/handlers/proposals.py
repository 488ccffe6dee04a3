"""What a person decides about: writes by agents (`proposal.list`, `proposal.accept`, `proposal.reject`), two versions
of one note (`conflict.list`, `conflict.settle`), and access for others (`propose`, `token.add`, `token.revoke`)."""

import json
import re
from dataclasses import asdict
from pathlib import PurePosixPath
from sqlite3 import Row

from memd.config import tokens
from memd.daemon.handlers.permission import trusts
from memd.daemon.handlers.registry import HANDLERS, HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import workspace_writer
from memd.daemon.writer.tasks import log_token_change
from memd.errors import Conflict, NotFound, Refused, UsageError, in_shell
from memd.indexer.record import actions
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import conflicts, keys
from memd.indexer.writing.team_branch import commit_on_branch
from memd.indexer.writing.write_files import FileChange
from memd.models import TEAM, pick
from memd.notes import merging, read, secrets, sections
from memd.protocol.methods import METHODS, proposals as methods
from memd.protocol.methods.base import parse

ADDED = ("ns", "cwd", "who", "now", "request_id")
"""Parameters that say who asked, where and when, and not what for."""


@handles(methods.ProposalListRequest)
async def proposal_list(ctx: HandlerContext, request: methods.ProposalListRequest, call: IncomingCall) -> Result:
    names = ctx.names(request)
    return {"ns": list(names), "proposals": [_shown(ctx, row) for row in await ctx.read(_waiting, ctx, names)]}


@handles(methods.ProposalAcceptRequest)
async def proposal_accept(ctx: HandlerContext, request: methods.ProposalAcceptRequest, call: IncomingCall) -> Result:
    row = await _decided(ctx, request, call)
    method = METHODS[row["method"]]
    params = {name: value for name, value in json.loads(row["params"]).items() if name in method.parameters}
    result = await HANDLERS[method.request](ctx, parse(method, params), call)
    await ctx.write(ctx.stores.ledger.transact, actions.drop_proposal, row["id"])
    return {"proposal": _shown(ctx, row), "result": result}


@handles(methods.ProposalRejectRequest)
async def proposal_reject(ctx: HandlerContext, request: methods.ProposalRejectRequest, call: IncomingCall) -> Result:
    row = await _decided(ctx, request, call)
    await ctx.write(ctx.stores.ledger.transact, actions.drop_proposal, row["id"])
    return {"proposal": _shown(ctx, row)}


async def _decided(ctx: HandlerContext, request: methods.Deciding, call: IncomingCall) -> Row:
    """The proposal that someone decides about, who must be trusted to write."""
    if call.connection.bound or not trusts(ctx, request.who):
        raise Refused("a proposal is decided by a person, not by an agent", "in a shell: memd proposal list")
    found = [row for row in await ctx.read(_waiting, ctx, ctx.names(request)) if row["id"] == request.proposal]
    if not found:
        raise NotFound(f"no proposal here has the number {request.proposal}", "memd proposal list")
    return found[0]


def _waiting(ctx: HandlerContext, names: tuple[str, ...]) -> list[Row]:
    return actions.waiting_proposals(ctx.stores.reader, [ctx.stores.index(ns).id for ns in names])


def _shown(ctx: HandlerContext, row: Row) -> Result:
    (ns,) = (index.workspace.ns for index in ctx.stores.indexes.values() if index.id == row["workspace"])
    params = {name: value for name, value in json.loads(row["params"]).items() if name not in ADDED}
    return {"proposal": row["id"], "ns": ns, **pick(row, "at", "who", "method"), "params": params}


# --- two versions of one note ----------------------------------------------------------------------------------


@handles(methods.ConflictListRequest)
async def conflict_list(ctx: HandlerContext, request: methods.ConflictListRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await ctx.scan(ctx.names(request))
    rows = [row for index in indexes for row in await ctx.read(_listed, ctx, index)]
    return {"ns": [index.workspace.ns for index in indexes], "notes": rows}


def _listed(ctx: HandlerContext, index: WorkspaceIndex) -> list[Result]:
    """The notes of a workspace with two versions, and what a merge would do."""
    versions = conflicts.found(ctx.stores, index, ctx.max_bytes)
    return [
        {"ns": index.workspace.ns, **_named(known), **_outcome(merged), "both": [*map(asdict, merged.clashes)]}
        for known, merged in ((known, known.merged(text)) for known, text in versions)
    ]


def _named(known: conflicts.TwoVersions) -> Result:
    return {"path": known.path, "copy": known.copy}


def _outcome(merged: merging.Merged) -> Result:
    return {"clashes": [clash.heading for clash in merged.clashes], "taken": list(merged.taken)}


@handles(methods.ConflictSettleRequest)
async def conflict_settle(ctx: HandlerContext, request: methods.ConflictSettleRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    await ctx.scan((writer.ns,))
    known = await ctx.read(conflicts.one, ctx.stores, writer.index, request.path, ctx.max_bytes)
    outcome = merging.Merged("")

    def settled(text: str | None) -> str:
        nonlocal outcome
        ours, theirs = (text or "", known.theirs) if known.copy else read.sides(text or "")[:2]
        if request.take in ("ours", "theirs"):
            return ours if request.take == "ours" else theirs
        outcome = known.merged(text or "")
        if outcome.clashes and request.take == "merge":
            how = f"memd conflict settle {in_shell(known.path)} both (or ours, or theirs)"
            raise Conflict(f"both versions changed: {', '.join(clash.heading for clash in outcome.clashes)}", how)
        return outcome.text

    changes = [FileChange(known.path, edit=sections.in_bytes(settled))]
    changes += [FileChange(known.copy, edit=lambda _: None)] if known.copy else []
    return {**await writer.write(actions.SETTLE, known.path, *changes), **_named(known), **_outcome(outcome)}


# --- access for others: a team, by `propose`; other machines, by tokens ---------------------------------------------

BRANCH = re.compile(r"(?!.*(\.\.|//|@\{|\.lock(/|$)))[\w][\w./-]*(?<![./])")


@handles(methods.ProposeRequest)
async def propose(ctx: HandlerContext, request: methods.ProposeRequest, call: IncomingCall) -> Result:
    index = ctx.only_index(request)
    await ctx.catch_up()
    _, memory = await ctx.read(keys.by_key, ctx.stores, [index], request.key, ctx.max_bytes)
    if index.workspace.layer_of(memory["path"]) == TEAM:
        raise Refused(f"{memory['path']} is the team's already", "edit it in an editor, and commit it")
    # Never allowed: what is shared cannot be taken back.
    secrets.refuse(memory["text"], request.message)
    name = request.key.partition("#")[2] or PurePosixPath(memory["path"]).stem
    branch = request.branch or f"memd/{name}"
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is no name of a branch", "give it another one: --branch NAME")
    origin = f"Proposed by {request.who or 'socket'} from {request.key}."
    message = request.message or f"{memory['heading'] or name}\n\n{origin}"
    # As a file of its own: the heading becomes the title.
    text = re.sub(r"\A## ", "# ", memory["text"].replace("\r\n", "\n").strip("\n")) + "\n"
    done = await ctx.read(commit_on_branch, index.workspace.root, f"{TEAM}/{name}.md", text.encode(), branch, message)
    return {**index.place, "key": request.key, **done}


@handles(methods.TokenAddRequest)
async def token_add(ctx: HandlerContext, request: methods.TokenAddRequest, call: IncomingCall) -> Result:
    for ns in request.ns:
        ctx.stores.index(ns)
    expires = tokens.moment(request.expires) if request.expires else None
    token, secret = await ctx.read(tokens.add, request.name, request.ns, write=request.write, expires=expires)
    await ctx.write(log_token_change, ctx.stores, token, "token add", request.author)
    return {"name": token.name, "token": secret}


@handles(methods.TokenRevokeRequest)
async def token_revoke(ctx: HandlerContext, request: methods.TokenRevokeRequest, call: IncomingCall) -> Result:
    # Before it is logged: nobody is let in while the writer is busy.
    token = await ctx.read(tokens.revoke, request.name)
    await ctx.write(log_token_change, ctx.stores, token, "token revoke", request.author)
    return {"revoked": token.name}
