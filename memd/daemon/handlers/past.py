"""What was: `history`, `diff`, `log` and `trash`; and what shall be again: `restore` and `undo`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from sqlite3 import Row

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.write_request import write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Conflict, NotFound, Refused, UsageError
from memd.indexer.record.actions import in_utc
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import past
from memd.indexer.views.past import LogFilter
from memd.indexer.writing import restore_version

MOST = 1_000
FAR = 10**9


async def history(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, indexes = params.required("key"), ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    return await ctx.read(past.versions, ctx.parts.stores, indexes, key)


async def diff(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, indexes = params.required("key"), ctx.indexes(params)
    old, new = params.number("old", 0, 1, FAR), params.number("new", 0, 1, FAR)
    params.done()
    await ctx.catch_up("auto", ())
    return await ctx.read(past.difference, ctx.parts.stores, indexes, key, old, new)


async def log(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    since = params.date("since")
    wanted = LogFilter(
        who=params.text("who"), what=params.text("what"), since=_begin(since), key=params.text("key"),
        limit=params.number("limit", 50, 1, MOST),
    )  # fmt: skip
    indexes = ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(past.entries, ctx.parts.stores, indexes, wanted)
    return {"entries": found, "ns": [index.workspace.ns for index in indexes]}


async def trash(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    limit, indexes = params.number("limit", 200, 1, MOST), ctx.indexes(params)
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(past.trash, ctx.parts.stores, indexes, limit)
    return {**found, "ns": [index.workspace.ns for index in indexes]}


async def restore(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, path, number = params.text("key"), params.text("path"), params.number("version", 0, 1, FAR)
    writer = write_request(ctx, params)
    params.done()
    if bool(key) == bool(path) or (path and number):
        raise UsageError("`restore` needs a `key`, with a `version`, or the `path` of a file that is gone")
    await ctx.catch_up("auto", ())
    if path:
        return await _restore_file(ctx, writer.index, path, writer.who)
    found = await ctx.read(past.known, ctx.parts.stores, [writer.index], key)
    version, text = await ctx.read(past.text_of, ctx.parts.stores, found, key, number)
    change = await ctx.read(restore_version.restoring_change, ctx.parts.stores, found, text)
    told = await writer.write("restore", key, change)
    return {**told, "key": key, "path": found.path, "version": version.number, "was_gone": found.gone is not None}


async def _restore_file(ctx: HandlerContext, index: WorkspaceIndex, path: str, who: str) -> Result:
    rows = await ctx.read(lambda: past.lost(ctx.parts.stores.ledger.reader, index, path))
    if not rows:
        raise NotFound(f"{path} was not removed while memd watched, or is back already", "memd trash")
    return {**await _undo(ctx, index, rows[0]["id"], who), "path": path, "version": None, "was_gone": True}


async def undo(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    number, who = params.number("action", 0, 1, FAR), params.text("who") or "socket"
    indexes = ctx.indexes(params)
    params.done()
    row = await ctx.read(_meant, ctx, indexes, number, who)
    index = next(index for index in indexes if index.id == row["workspace"])
    told = {name: row[name] for name in ("what", "who", "at")}
    return {**await _undo(ctx, index, row["id"], who), "undid": {"action": row["id"], **told}, "key": row["key"]}


async def _undo(ctx: HandlerContext, index: WorkspaceIndex, action: int, who: str) -> Result:
    task = tasks.UndoTask(index.workspace.ns, action, who)
    try:
        done = await asyncio.wrap_future(ctx.parts.worker.submit(task))
    except Conflict as error:
        since = await ctx.read(past.since, ctx.parts.stores, index.id, action)
        hint = f"since then: {since}; " if since else ""
        raise Conflict(error.message, f"{hint}nothing was overwritten. memd log shows all of it") from error
    return {"ns": index.workspace.ns, "root": str(index.workspace.root), "action": done.action,
            "paths": list(done.paths), "conflicts": list(done.conflicts), "repeated": done.repeated,
            "visible": done.visible, "back": done.back}  # fmt: skip


def _meant(ctx: HandlerContext, indexes: list[WorkspaceIndex], number: int, who: str) -> Row:
    """The action that is named, else this client's last change of text."""
    row = past.action(ctx.parts.stores, indexes, number) if number else past.last(ctx.parts.stores, indexes, who)
    if row is None:
        named = f"there is no action {number} here" if number else f"nothing that {who} wrote is left to undo"
        raise NotFound(named, "memd log shows what was done, and by whom")
    if row["state"] != "done":
        raise Refused(f"action {row['id']} failed and changed nothing", f"memd log --what {row['what']}")
    if row["undone"] is not None:
        raise Refused(f"action {row['id']} was undone already", f"to undo that again: memd undo {row['undone']}")
    if not (row["spliced"] or row["shifted"]):
        raise Refused(f"action {row['id']} ({row['what']}) changed nothing that could be put back", "memd log")
    return row


def _begin(date: str) -> str:
    """When a day, a month or a year began here."""
    form = ("%Y", "%Y-%m", "%Y-%m-%d")[date.count("-")]
    return in_utc(datetime.strptime(date, form).astimezone()) if date else ""
