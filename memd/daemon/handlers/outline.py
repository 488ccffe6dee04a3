"""The source code around the notes: `outline.symbol`, `outline.file`, `outline.project` and `outline.map`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memd.daemon.handler_context import PROGRESS_SECONDS, HandlerContext, Result, Told, progress_reporter
from memd.daemon.handlers.write_request import only_index
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.indexer.context.code_names import CodeName
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys

if TYPE_CHECKING:
    from memd.outline.looking import Asked, Looked
    from memd.outline.outline import Outline

FORMATS = ("text", "json")
DEEPEST = 8
MOST_TOKENS = 200_000
BUDGET = 1_000


async def symbol(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    name, file, given = params.required("symbol"), params.text("file"), _given(params)
    return await _answer(ctx, params, tell, given, lambda looking, asked, outline, inside: looking.symbol(
        outline, asked, name, inside(file) if file else ""))  # fmt: skip


async def file(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    path, given = params.required("file"), _given(params)
    return await _answer(ctx, params, tell, given, lambda looking, asked, outline, inside: looking.file(
        outline, asked, inside(path)))  # fmt: skip


async def project(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    given = _given(params)
    return await _answer(ctx, params, tell, given, lambda looking, asked, outline, inside: looking.project(
        outline, asked))  # fmt: skip


async def chart(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    language, budget = params.text("language"), params.number("budget", BUDGET, 1, MOST_TOKENS)
    index, told = only_index(ctx, params), progress_reporter(params, tell)
    params.done()

    def ask(outline: Outline) -> dict[str, Any]:
        from memd.outline import looking

        return looking.chart(outline, language, budget)

    started = time.monotonic()
    found = await _waited(ctx, ctx.parts.outlines.ask(index, ask), told)
    return {**_place(index), **found, "took_ms": round((time.monotonic() - started) * 1000, 2)}


def _given(params: Params) -> dict[str, Any]:
    """How the tree is wanted, checked."""
    return {
        "whole": params.choice("format", FORMATS, "text") == "json",
        "language": params.text("language"),
        "depth": params.number("depth", 2, 1, DEEPEST),
        "relations": params.texts("relations"),
        "omit_native": params.flag("omit_native"),
    }


Question = Callable[[Any, "Asked", "Outline", Callable[[str], str]], "Looked"]


async def _answer(ctx: HandlerContext, params: Params, tell: Tell, given: dict[str, Any], question: Question) -> Result:
    """Ask the outline, then the notes, and put both together as it was wanted."""
    started = time.monotonic()
    index, cwd, told = only_index(ctx, params), params.place("cwd"), progress_reporter(params, tell)
    params.done()

    def ask(outline: Outline) -> Looked:
        from memd.outline import looking

        return question(looking, looking.Asked(**given), outline, lambda path: _inside(outline, index, path, cwd))

    looked = await _waited(ctx, ctx.parts.outlines.ask(index, ask), told)
    if not given["relations"] or "mentioned_in" in given["relations"]:
        await ctx.catch_up("auto", ())
        await ctx.read(_mention, ctx, index, looked)
    shown: Result = {"text": looked.text()} if params.text("format", "text") == "text" else {
        "symbols": [entry.node for entry in looked.entries]}  # fmt: skip
    return {**_place(index), "language": looked.language, "format": params.text("format", "text"), **shown,
            "skipped": looked.told_skipped(), "took_ms": round((time.monotonic() - started) * 1000, 2)}  # fmt: skip


async def _waited(ctx: HandlerContext, future: Any, told: Told | None) -> Any:
    """Wait for the outline's thread; a first read of many sources tells how far it is."""
    waiting = asyncio.wrap_future(future)
    while told and not waiting.done():
        await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
        if progress := ctx.parts.outlines.progress:
            await told("outline", *progress)
    return await waiting


def _place(index: WorkspaceIndex) -> Result:
    return {"ns": index.workspace.ns, "root": str(index.workspace.root)}


def _inside(outline: Outline, index: WorkspaceIndex, path: str, cwd: str) -> str:
    """A file as the outline names it; as the project has it, or as the shell does."""
    plain = path.removeprefix("./")
    if any(plain in family.project.files for family in outline.families.values()):
        return plain
    return keys.file_named(index, path, cwd).removeprefix("./")


def _mention(ctx: HandlerContext, index: WorkspaceIndex, looked: Looked) -> None:
    """Put under each symbol the memories that name it, and under a file those that are about it."""
    stores = ctx.parts.stores
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
