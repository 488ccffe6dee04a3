"""Who may come in by the hub: `token.add` and `token.revoke`, told in the log of the token's workspaces."""

from __future__ import annotations

from memd.config import tokens
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.writer.file_tasks import log_token_change
from memd.protocol.methods.hub import TokenAddRequest, TokenRevokeRequest


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
