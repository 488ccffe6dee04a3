"""Access for others: `propose` for a team; `token.add` and `token.revoke`, logged in the token's workspaces."""

import re
from pathlib import PurePosixPath

from memd.config import tokens
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.writer.tasks import log_token_change
from memd.errors import Refused, UsageError
from memd.indexer.views import keys
from memd.indexer.writing.team_branch import commit_on_branch
from memd.models import TEAM
from memd.notes import secrets
from memd.protocol.methods.proposals import ProposeRequest, TokenAddRequest, TokenRevokeRequest

BRANCH = re.compile(r"(?!.*(\.\.|//|@\{|\.lock(/|$)))[\w][\w./-]*(?<![./])")


@handles(ProposeRequest)
async def propose(ctx: HandlerContext, request: ProposeRequest, call: IncomingCall) -> Result:
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


@handles(TokenAddRequest)
async def token_add(ctx: HandlerContext, request: TokenAddRequest, call: IncomingCall) -> Result:
    for ns in request.ns:
        ctx.stores.index(ns)
    expires = tokens.moment(request.expires) if request.expires else None
    token, secret = await ctx.read(tokens.add, request.name, request.ns, write=request.write, expires=expires)
    await ctx.write(log_token_change, ctx.stores, token, "token add", request.author)
    return {"name": token.name, "token": secret}


@handles(TokenRevokeRequest)
async def token_revoke(ctx: HandlerContext, request: TokenRevokeRequest, call: IncomingCall) -> Result:
    # Before it is logged: nobody is let in while the writer is busy.
    token = await ctx.read(tokens.revoke, request.name)
    await ctx.write(log_token_change, ctx.stores, token, "token revoke", request.author)
    return {"revoked": token.name}
