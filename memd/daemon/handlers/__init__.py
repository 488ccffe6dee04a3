"""One handler a method: read the parameters, do it, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memd.daemon import binding
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers import (
    asking,
    context,
    curating,
    edges,
    examining,
    jobs,
    keeping,
    keyed,
    labels,
    living,
    mcp,
    moving,
    noting,
    outline,
    past,
    peeking,
    reading,
    rules,
    standing,
    talk,
    topics,
    watching,
    workspaces,
)
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import UnknownMethod

Handler = Callable[[HandlerContext, Params, Tell], Awaitable[Result]]

HANDLERS: dict[str, Handler] = {
    "hello": talk.hello,
    "ping": talk.ping,
    "query": asking.query,
    "why_not": asking.why_not,
    "get": asking.get,
    "grep": reading.grep,
    "bus": reading.bus,
    "list": reading.listed,
    "put": keyed.put,
    "patch": keyed.patch,
    "rm": keyed.rm,
    "gc": keyed.gc,
    "files": labels.files,
    "tags.list": labels.tags_list,
    "tags.rename": labels.tags_rename,
    "tags.rm": labels.tags_rm,
    "history": past.history,
    "diff": past.diff,
    "restore": past.restore,
    "log": past.log,
    "undo": past.undo,
    "trash": past.trash,
    "useful": living.useful,
    "reflect": living.reflect,
    "rule.list": rules.listed,
    "rule.set": rules.put,
    "rule.rm": rules.rm,
    "rule.test": rules.test,
    "jobs.list": jobs.listed,
    "jobs.run": jobs.run,
    "peek": peeking.peek,
    "stats": peeking.stats,
    "tree": peeking.tree,
    "timeline": peeking.timeline,
    "context": context.context,
    "consolidate": curating.consolidate,
    "expand": curating.expand,
    "curate": curating.curate,
    "edge.add": edges.add,
    "edge.rm": edges.rm,
    "edge.list": edges.listed,
    "related": edges.near,
    "clusters": edges.clusters,
    "edge_candidates": edges.candidates,
    "subscribe": standing.subscribe,
    "unsubscribe": standing.unsubscribe,
    "watch": watching.watch,
    "note": noting.note,
    "save": noting.save,
    "write": noting.write,
    "read": noting.read_role,
    "recent": noting.recent,
    "eval": examining.evaluate,
    "export": moving.export,
    "import": moving.bring,
    "ingest": moving.ingest,
    "backup": moving.backup,
    "sync": keeping.sync,
    "status": talk.status,
    "rebuild": keeping.rebuild,
    "doctor": keeping.doctor,
    "topic.memorize": topics.memorize,
    "topic.refine": topics.refine,
    "topic.forget": topics.forget,
    "topic.recall": topics.recall,
    "topic.general": topics.general,
    "topic.set_general": topics.set_general,
    "topic.search": topics.search,
    "topic.list": topics.listed,
    "outline.symbol": outline.symbol,
    "outline.file": outline.file,
    "outline.project": outline.project,
    "outline.map": outline.chart,
    "shutdown": talk.shutdown,
    "workspaces.list": workspaces.listed,
    "workspaces.add": workspaces.add,
    "workspaces.remove": workspaces.remove,
}


async def call(ctx: HandlerContext, method: str, given: dict[str, Any], tell: Tell) -> Result:
    """The dispatcher, for the socket and whoever else speaks to the daemon."""
    handler = HANDLERS.get(method)
    if handler is None:
        raise UnknownMethod(f"there is no method `{method}`", f"known: {', '.join(HANDLERS)}")
    told = await handler(ctx, Params(method, binding.meant(ctx, tell.line, method, given)), tell)
    return {**binding.shown(ctx, tell.line, told), **ctx.freshness()}


HANDLERS["mcp.open"] = mcp.opener(call)
