"""Which handler answers which method, what all handlers are made with, and the dispatcher that calls them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, get_type_hints

from memd.daemon.handlers.handler_context import HandlerContext, InWorkspace, Result, date_of, namespaces
from memd.daemon.handlers.permission import bound_params, check_files, propose_untrusted, visible_part
from memd.daemon.serving.server import IncomingCall
from memd.errors import LedgerDamaged, MemdError, UnknownMethod
from memd.models import digest_of
from memd.notes.secrets import masked, masked_in
from memd.protocol.methods import METHODS, Request
from memd.protocol.methods.base import Numbered, Progressing, parse

__all__ = ["HANDLERS", "HandlerContext", "IncomingCall", "Result", "dispatch", "from_view", "handles", "shows"]

R = TypeVar("R", bound=Request)
Handler = Callable[[HandlerContext, R, IncomingCall], Awaitable[Result]]
View = Callable[..., Result]
"""Takes the stores, the indexes of some workspaces, and what is asked of them."""

HANDLERS: dict[type[Request], Handler[Any]] = {}
WITHOUT_LEDGER: dict[type[Request], Handler[Any]] = {}
"""The handlers that answer while the ledger is damaged."""


def handles(request: type[R], without_ledger: bool = False) -> Callable[[Handler[R]], Handler[R]]:
    """The function that follows answers the method that this request declares."""
    return partial((WITHOUT_LEDGER if without_ledger else HANDLERS).setdefault, request)


def shows(request: type[Request], view: View, *fields: str, linked: bool = False) -> None:
    """Have a method answered by a view of the workspaces that are meant, given these fields of the request."""
    declared = get_type_hints(request)
    assert all(field in declared for field in fields), f"{request.__name__} has no such field"

    async def answer(ctx: HandlerContext, asked: Any, call: IncomingCall) -> Result:
        given = {field: getattr(asked, field) for field in fields}
        given |= {name: date_of(asked, name) for name in ("since", "until") if name in given}
        return await from_view(ctx, asked, view, *given.values(), linked=linked)

    HANDLERS[request] = answer


async def from_view(ctx: HandlerContext, request: InWorkspace, view: View, *args: Any, linked: bool = False) -> Result:
    """A view's answer about some workspaces; `linked`: once their edges follow from the changes so far."""
    indexes = await ctx.current_indexes(request, linked)
    return {"ns": namespaces(indexes), **await ctx.read_elsewhere(view, ctx.stores, indexes, *args)}


async def dispatch(ctx: HandlerContext, method: str, params: dict[str, Any], call: IncomingCall) -> Result:
    """Check the parameters, call the handler, add freshness: for the socket and for MCP sessions."""
    if (declared := METHODS.get(method)) is None:
        raise UnknownMethod(f"there is no method `{method}`", f"known: {', '.join(METHODS)}")
    request = parse(declared, bound_params(ctx, call.connection, declared, params))
    check_files(ctx, call.connection, declared, request)
    ctx.spell_path(request)
    if isinstance(request, Numbered) and isinstance(request, InWorkspace) and request.request_id:
        # The same number of another method, or of another workspace, is another call.
        request.request_id = digest_of(f"{method}:{','.join(ctx.names(request))}:{request.request_id}")
    await propose_untrusted(ctx, declared, request, params)
    wants_progress = isinstance(request, Progressing) and request.progress
    ctx = ctx.for_call(call if declared.writes else None, call.progress if wants_progress else None)
    handler = _answer(ctx, request, call)
    masks = call.connection.mask_secrets and ctx.settings.server.mask_secrets
    result = await (_without_secrets(ctx, handler) if masks else handler)
    names = result.get("ns") or call.connection.bound
    about = (names,) if isinstance(names, str) and names else names or ()
    return {**visible_part(ctx, call.connection, result), **ctx.freshness(about)}


async def _answer(ctx: HandlerContext, request: Request, call: IncomingCall) -> Result:
    """The handler's answer; where it shows that the ledger is damaged, an answer without the ledger."""
    without = WITHOUT_LEDGER.get(type(request))
    if without is None or ctx.stores.ledger.damage is None:
        try:
            return await HANDLERS[type(request)](ctx, request, call)
        except Exception as error:
            known = isinstance(error, MemdError)
            explained = ctx.worker.guard.explain(error) if known else await ctx.read(ctx.worker.guard.explain, error)
            if without is None or not isinstance(explained, LedgerDamaged):
                if explained is error:
                    raise
                raise explained from error
    return await without(ctx, request, call)


async def _without_secrets(ctx: HandlerContext, handler: Awaitable[Result]) -> Result:
    """A handler's answer for a model to read; an error may quote a note too."""
    try:
        return dict(await ctx.read(masked_in, await handler))
    except MemdError as error:
        error.message, error.hint = masked(error.message), masked(error.hint)
        raise
