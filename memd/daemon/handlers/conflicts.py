"""Two versions of one note: `conflict.list` and `conflict.settle`."""

from __future__ import annotations

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import workspace_writer
from memd.errors import Conflict
from memd.indexer.views import conflicts
from memd.indexer.writing.write_files import FileChange
from memd.notes import sections
from memd.notes.markers import sides
from memd.protocol.methods.conflicts import ConflictListRequest, ConflictSettleRequest


@handles(ConflictListRequest)
async def conflict_list(ctx: HandlerContext, request: ConflictListRequest, call: IncomingCall) -> Result:
    indexes = await ctx.current_indexes(request)
    rows = []
    for index in indexes:
        for known, text in await ctx.read(conflicts.found, ctx.stores, index, ctx.max_bytes):
            clashes = list(known.merged(text).clashes)
            rows.append({"ns": index.workspace.ns, "path": known.path, "copy": known.copy, "clashes": clashes})
    return {"ns": [index.workspace.ns for index in indexes], "conflicts": rows}


@handles(ConflictSettleRequest)
async def conflict_settle(ctx: HandlerContext, request: ConflictSettleRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    await ctx.scan((writer.ns,))
    known = await ctx.read(conflicts.one, ctx.stores, writer.index, request.path, ctx.max_bytes)
    clashes: list[str] = []

    def settled(text: str | None) -> str:
        nonlocal clashes
        ours, theirs = (text or "", known.theirs) if known.copy else sides(text or "")[:2]
        if request.take in ("ours", "theirs"):
            return ours if request.take == "ours" else theirs
        merged = known.merged(text or "")
        clashes = list(merged.clashes)
        if clashes and request.take == "merge":
            raise Conflict(
                f"both versions changed: {', '.join(clashes)}", "memd conflict settle PATH --take both, ours or theirs"
            )
        return merged.text

    changes = [FileChange(known.path, edit=sections.in_bytes(settled))]
    changes += [FileChange(known.copy, edit=lambda _: None)] if known.copy else []
    done = await writer.write("settle", known.path, *changes)
    return {**done, "path": known.path, "copy": known.copy, "clashes": clashes}
