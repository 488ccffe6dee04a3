"""The source code around the notes: `outline.symbol`, `outline.file`, `outline.project` and `outline.map`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memd.daemon.handler_context import PROGRESS_SECONDS, HandlerContext, ReportProgress, Result, progress_reporter
from memd.daemon.handlers.registry import handles
from memd.daemon.handlers.workspace_writer import only_index
from memd.daemon.server import IncomingCall
from memd.indexer.context.code_names import CodeName
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys
from memd.protocol.methods.outline import (
    OutlineFileRequest,
    OutlineMapRequest,
    OutlineProjectRequest,
    OutlineSymbolRequest,
    OutlineTree,
)

if TYPE_CHECKING:
    from memd.outline.looking import Asked, Looked
    from memd.outline.outline import Outline

Question = Callable[[Any, "Asked", "Outline", Callable[[str], str]], "Looked"]
"""What is asked of the module that answers, with how the tree is wanted, the outline, and how it names a file."""


@handles(OutlineSymbolRequest)
async def symbol(ctx: HandlerContext, request: OutlineSymbolRequest, call: IncomingCall) -> Result:
    return await _answer(ctx, request, call, lambda looking, asked, outline, inside: looking.symbol(
        outline, asked, request.symbol, inside(request.file) if request.file else ""))  # fmt: skip


@handles(OutlineFileRequest)
async def file(ctx: HandlerContext, request: OutlineFileRequest, call: IncomingCall) -> Result:
    return await _answer(ctx, request, call, lambda looking, asked, outline, inside: looking.file(
        outline, asked, inside(request.file)))  # fmt: skip


@handles(OutlineProjectRequest)
async def project(ctx: HandlerContext, request: OutlineProjectRequest, call: IncomingCall) -> Result:
    return await _answer(ctx, request, call, lambda looking, asked, outline, inside: looking.project(
        outline, asked))  # fmt: skip


@handles(OutlineMapRequest)
async def outline_map(ctx: HandlerContext, request: OutlineMapRequest, call: IncomingCall) -> Result:
    index, started = only_index(ctx, request), time.monotonic()

    def ask(outline: Outline) -> dict[str, Any]:
        from memd.outline import looking

        return looking.chart(outline, request.language, request.budget)

    found = await _waited(ctx, ctx.parts.outlines.ask(index, ask), progress_reporter(request, call))
    return {**index.place, **found, "took_ms": round((time.monotonic() - started) * 1000, 2)}


async def _answer(ctx: HandlerContext, request: OutlineTree, call: IncomingCall, question: Question) -> Result:
    """Ask the outline, then the notes, and put both together as it was wanted."""
    index, started = only_index(ctx, request), time.monotonic()
    told, as_text = progress_reporter(request, call), request.format == "text"

    def ask(outline: Outline) -> Looked:
        from memd.outline import looking

        asked = looking.Asked(
            whole=not as_text, language=request.language, depth=request.depth, relations=request.relations,
            omit_native=request.omit_native,
        )  # fmt: skip
        return question(looking, asked, outline, lambda path: _inside(outline, index, path, request.cwd))

    looked = await _waited(ctx, ctx.parts.outlines.ask(index, ask), told)
    if not request.relations or "mentioned_in" in request.relations:
        await ctx.catch_up("auto", ())
        await ctx.read(_mention, ctx, index, looked)
    shown: Result = {"text": looked.text()} if as_text else {"symbols": [entry.node for entry in looked.entries]}
    return {**index.place, "language": looked.language, "format": request.format, **shown,
            "skipped": looked.told_skipped(), "took_ms": round((time.monotonic() - started) * 1000, 2)}  # fmt: skip


async def _waited(ctx: HandlerContext, future: Any, told: ReportProgress | None) -> Any:
    """Wait for the outline's thread; a first read of many sources tells how far it is."""
    waiting = asyncio.wrap_future(future)
    while told and not waiting.done():
        await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
        if progress := ctx.parts.outlines.progress:
            await told("outline", *progress)
    return await waiting


def _inside(outline: Outline, index: WorkspaceIndex, path: str, cwd: str) -> str:
    """A file as the outline names it; as the project has it, or as the shell does."""
    plain = path.removeprefix("./")
    if any(plain in family.project.files for family in outline.families.values()):
        return plain
    return keys.file_named(index, path, cwd).removeprefix("./")


def _mention(ctx: HandlerContext, index: WorkspaceIndex, looked: Looked) -> None:
    """Put under each symbol the memories that name it, and under a file those that are about it."""
    stores = ctx.stores
    wanted = [CodeName(one.path, one.segments, one.whole_file, one.alone) for one in looked.entries]
    about: dict[str, list[Result]] = {}
    for one in keys.touching(stores, [index], str(index.workspace.root), ""):
        told = {"key": one["key"], "path": one["path"], "line": one["start_line"], "heading": one["heading"]}
        about.setdefault(one["file"], []).append(told)
    for entry, found in zip(looked.entries, ctx.parts.code_names.of(stores, index, wanted), strict=True):
        declared = about.get(entry.path, ()) if entry.whole_file else ()
        named = {one["key"] for one in found}
        if every := [*found, *(one for one in declared if one["key"] not in named)]:
            entry.node["mentioned_in"] = every
