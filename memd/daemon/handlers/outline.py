"""The source code around the notes: `outline.symbol`, `outline.file`, `outline.project` and `outline.map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memd.daemon.handlers.handler_context import T, wait_reporting
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys
from memd.models import grouped
from memd.protocol.methods import outline as methods

if TYPE_CHECKING:
    from memd.outline.outline import Outline
    from memd.outline.queries import SymbolTrees


@handles(methods.OutlineMapRequest)
async def outline_map(ctx: HandlerContext, request: methods.OutlineMapRequest, call: IncomingCall) -> Result:
    index = ctx.only_index(request)

    def ask(outline: Outline) -> dict[str, Any]:
        from memd.outline import queries

        return queries.project_map(outline, request.language, request.budget)

    return {**index.place, **await _ask_outline(ctx, index, ask), "took_ms": ctx.took_ms}


async def trees(ctx: HandlerContext, request: methods.OutlineTree, call: IncomingCall) -> Result:
    """Ask the outline, then the notes, and put both together."""
    index, as_text = ctx.only_index(request), request.format == "text"

    def ask(outline: Outline) -> SymbolTrees:
        from memd.outline import queries

        # Of a symbol, of a file, or of the whole project.
        name, file = getattr(request, "symbol", ""), getattr(request, "file", "")
        return queries.trees(
            outline, request.language, name, file and _path_in(outline, index, file, request.cwd), depth=request.depth,
            relations=request.relations, omit_native=request.omit_native, whole=not as_text,
        )  # fmt: skip

    found = await _ask_outline(ctx, index, ask)
    if not request.relations or "mentioned_in" in request.relations:
        await ctx.catch_up()
        await ctx.read(_add_mentions, ctx, index, found)
    shown: Result = {"text": found.text()} if as_text else {"symbols": [tree.node for tree in found.trees]}
    return {**index.place, "language": found.language, "format": request.format, **shown,
            "skipped": found.skipped_files(), "took_ms": ctx.took_ms}  # fmt: skip


for _request in (methods.OutlineSymbolRequest, methods.OutlineFileRequest, methods.OutlineProjectRequest):
    handles(_request)(trees)


async def _ask_outline(ctx: HandlerContext, index: WorkspaceIndex, ask: Callable[[Outline], T]) -> T:
    """Wait for the outline's thread; a first read of many sources reports how far it is."""
    return await wait_reporting(ctx.outlines.ask(index, ask), lambda: ctx.outlines.progress, ctx.answer.report)


def _path_in(outline: Outline, index: WorkspaceIndex, path: str, cwd: str) -> str:
    """A file as the outline names it, given as the project has it or as the shell does."""
    plain = path.removeprefix("./")
    if outline.project_of(plain):
        return plain
    return keys.file_named(index, path, cwd).removeprefix("./")


def _add_mentions(ctx: HandlerContext, index: WorkspaceIndex, found: SymbolTrees) -> None:
    """Put under each symbol the memories that name it, and under a file those that are about it."""
    about = grouped(
        (row["file"], {"key": row["key"], "path": row["path"], "line": row["start_line"], "heading": row["heading"]})
        for row in keys.touching(ctx.stores, [index], str(index.workspace.root), "")
    )
    for tree, naming in zip(found.trees, ctx.code_names.of(ctx.stores, index, found.trees), strict=True):
        declared = about.get(tree.path, ()) if tree.whole_file else ()
        named = {memory["key"] for memory in naming}
        if every := [*naming, *(memory for memory in declared if memory["key"] not in named)]:
            tree.node["mentioned_in"] = every
