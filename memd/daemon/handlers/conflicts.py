"""Two versions of one note: `conflict.list` and `conflict.settle`."""

from __future__ import annotations

from dataclasses import asdict

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import SETTLE, workspace_writer
from memd.errors import Conflict
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import conflicts
from memd.indexer.writing.write_files import FileChange
from memd.notes import sections
from memd.notes.merging import Merged
from memd.notes.read import sides
from memd.protocol.methods.proposals import ConflictListRequest, ConflictSettleRequest


@handles(ConflictListRequest)
async def conflict_list(ctx: HandlerContext, request: ConflictListRequest, call: IncomingCall) -> Result:
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


def _outcome(merged: Merged) -> Result:
    return {"clashes": [clash.heading for clash in merged.clashes], "taken": list(merged.taken)}


@handles(ConflictSettleRequest)
async def conflict_settle(ctx: HandlerContext, request: ConflictSettleRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    await ctx.scan((writer.ns,))
    known = await ctx.read(conflicts.one, ctx.stores, writer.index, request.path, ctx.max_bytes)
    outcome = Merged("")

    def settled(text: str | None) -> str:
        nonlocal outcome
        ours, theirs = (text or "", known.theirs) if known.copy else sides(text or "")[:2]
        if request.take in ("ours", "theirs"):
            return ours if request.take == "ours" else theirs
        outcome = known.merged(text or "")
        if outcome.clashes and request.take == "merge":
            how = f"memd conflict settle {known.path} --take both, ours or theirs"
            raise Conflict(f"both versions changed: {', '.join(clash.heading for clash in outcome.clashes)}", how)
        return outcome.text

    changes = [FileChange(known.path, edit=sections.in_bytes(settled))]
    changes += [FileChange(known.copy, edit=lambda _: None)] if known.copy else []
    done = await writer.write(SETTLE, known.path, *changes)
    return {**done, **_named(known), **_outcome(outcome)}
