"""The past: `history`, `diff`, `restore`, `log`, `undo`, `trash`; and what is: `peek`, `stats`, `tree`, `timeline`."""

from sqlite3 import Row

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles, shows
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, workspace_writer, written
from memd.daemon.writer import tasks
from memd.daemon.writer.queue import Turn
from memd.errors import Conflict, NotFound, Refused, UsageError, in_shell
from memd.indexer.record.actions import by_request
from memd.indexer.store.stores import Indexes, WorkspaceIndex
from memd.indexer.views import overview, past
from memd.indexer.writing.write_files import restoring_change
from memd.protocol.methods import history as methods
from memd.protocol.methods.overview import PeekRequest, StatsRequest, TimelineRequest, TreeRequest

shows(PeekRequest, overview.peek)
shows(StatsRequest, overview.stats, "days")
shows(TreeRequest, overview.tree, "path", "offset", "limit")
shows(TimelineRequest, overview.timeline, "since", "until", "limit", "only_counts")
shows(methods.HistoryRequest, past.versions, "key")
shows(methods.DiffRequest, past.difference, "key", "old", "new")
shows(methods.LogRequest, past.entries, "who", "what", "since", "key", "limit")
shows(methods.TrashRequest, past.trash, "limit")


@handles(methods.RestoreRequest)
async def restore(ctx: HandlerContext, request: methods.RestoreRequest, call: IncomingCall) -> Result:
    writer, key = workspace_writer(ctx, request), request.key
    await ctx.catch_up()
    if request.path:
        return await _restore_file(writer, request.path)
    index, row = await ctx.read(past.known, ctx.stores, [writer.index], key)
    removed = await ctx.read(past.last_gone, ctx.stores, [index], key)
    if removed and row["gone"] is None and not request.version:
        gone = in_shell(f"{key}~{removed[1]['id']}")
        hint = f"that one: memd restore {gone}; a former text of this one: memd history {in_shell(key)}"
        raise UsageError(f"`{key}` is a memory that is there, and was one that is removed", hint)
    version, text = await ctx.read(past.text_of, ctx.stores, row["id"], key, request.version or 0)
    change = await ctx.read(restoring_change, ctx.stores, index, row, text)
    done = await writer.write("restore", key, change)
    return {**done, "key": key, "path": row["path"], "version": version.number, "was_gone": row["gone"] is not None}


async def _restore_file(writer: WorkspaceWriter, path: str) -> Result:
    ctx, index = writer.ctx, writer.index
    if not (action := await ctx.read(_undone_by, ctx, writer.request_id)):
        if not (rows := await ctx.read(past.lost, ctx.stores, index, path)):
            raise NotFound(f"{path} was not removed while memd watched, or is back already", "memd trash")
        action = rows[0]["id"]
    undone = await _undo(ctx, index, action, writer.who, writer.request_id)
    return {**undone, "key": "", "path": path, "version": None, "was_gone": True}


@handles(methods.UndoRequest)
async def undo(ctx: HandlerContext, request: methods.UndoRequest, call: IncomingCall) -> Result:
    indexes, who = ctx.indexes(request), request.author
    row = await ctx.read(_action_to_undo, ctx, indexes, request)
    index = next(index for index in indexes if index.id == row["workspace"])
    undid = {"action": row["id"], **{name: row[name] for name in ("what", "who", "at")}}
    # What changes lives moves the clock, so it comes after memd's own writes.
    turn = Turn.WRITES if row["spliced"] else Turn.PLAIN
    return {**await _undo(ctx, index, row["id"], who, request.request_id, turn), "undid": undid, "key": row["key"]}


async def _undo(
    ctx: HandlerContext, index: WorkspaceIndex, action: int, who: str, request_id: str, turn: Turn = Turn.WRITES
) -> Result:
    try:
        done = await ctx.write(tasks.undo, ctx.worker, index.workspace.ns, action, who, request_id, turn=turn)
    except Conflict as error:
        since = await ctx.read(past.since, ctx.stores, index.id, action)
        hint = f"since then: {since}; " if since else ""
        raise Conflict(error.message, f"{hint}nothing was overwritten. memd log shows all of it") from error
    return {**written(index, done), "back": done.back}


def _undone_by(ctx: HandlerContext, request_id: str) -> int:
    """The action that this request undid when it was carried out before; 0 where it was not."""
    before = by_request(ctx.stores.reader, request_id)
    return int(before["key"]) if before is not None and before["what"] == "undo" else 0


def _action_to_undo(ctx: HandlerContext, indexes: Indexes, request: methods.UndoRequest) -> Row:
    """The action that is named, else this client's last change of text."""
    number, who = request.action or 0, request.author
    if (before := _undone_by(ctx, request.request_id)) and (row := past.action(ctx.stores, indexes, before)):
        return row
    row = past.action(ctx.stores, indexes, number, who)
    if row is None:
        missing = f"there is no action {number} here" if number else f"nothing that {who} wrote is left to undo"
        raise NotFound(missing, "memd log shows what was done, and by whom")
    if not number and (forgotten := past.forgotten_since(ctx.stores, indexes, row["id"], who)):
        hint = f"what was done before it, {row['what']} of {row['key']}, can be: memd undo {row['id']}"
        raise Refused(f"action {forgotten}, the last one, was forgotten for good and cannot be undone", hint)
    if row["state"] != "done":
        raise Refused(f"action {row['id']} failed and changed nothing", f"memd log --what {row['what']}")
    if row["undone"] is not None:
        raise Refused(f"action {row['id']} was undone already", f"to take that back: memd undo {row['undone']}")
    if not (row["spliced"] or row["shifted"]):
        raise Refused(f"action {row['id']} ({row['what']}) changed nothing that could be put back", "memd log")
    return row
