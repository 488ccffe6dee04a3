"""What memories are labelled with: `files`, `tags.list`, `tags.rename` and `tags.rm`."""

from __future__ import annotations

import difflib

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.keyed import RELS, check_file, edit_of, needed, repeated, untouched, with_files
from memd.daemon.handlers.write_request import WriteRequest, write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, UsageError
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys
from memd.indexer.writing.write_files import FileChange
from memd.notes import revise
from memd.notes.read import decode
from memd.notes.safe_write import Edit
from memd.notes.tags import retagged, tag_name


async def files(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, touching, add = params.text("key"), params.text("touching"), params.text("add")
    rel, cwd, names = params.choice("rel", RELS, "modified"), params.place("cwd"), ctx.names(params)
    for name in ("who", "request_id"):
        params.text(name)
    params.flag("allow_secret")
    params.done()
    if bool(key) == bool(touching) or (touching and add):
        raise UsageError("`files` needs a `key`, or a path in `touching`")
    await ctx.catch_up("auto", ())
    stores = ctx.parts.stores
    if touching:
        indexes = [stores.index(ns) for ns in names]
        return {"ns": list(names), "memories": await ctx.read(keys.touching, stores, indexes, touching, cwd)}
    writer = write_request(ctx, params)
    done = await _declare(writer, key, await ctx.read(keys.file_named, writer.index, add, cwd), rel) if add else {}
    told = await ctx.read(keys.files_of, stores, writer.index, key)
    return {"ns": writer.index.workspace.ns, **done, "key": key, "files": [keys.file_told(entry) for entry in told]}


async def _declare(writer: WriteRequest, key: str, file: str, rel: str) -> Result:
    """Write down that a memory is about a file; answers when the ledger has it."""
    entry = f"{file}:{rel}"
    check_file(entry)
    target = await writer.ctx.read(keys.existing, writer.ctx.parts.stores, writer.index, key)

    def change(text: str | None) -> str:
        if text is None:
            raise KeyError(target.slug)
        there = revise.declared_here(target.path, target.slug, text)
        facts = {"files": with_files(there.files, (entry,))}
        return revise.declare(target.path, target.slug, text, facts)

    done = await writer.write("files", key, FileChange(target.path, edit=edit_of(target, change)))
    await writer.ctx.catch_up("auto", ())
    return done


# --- tags ---------------------------------------------------------------------------------------------------


async def tags_list(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    names = ctx.names(params)
    params.done()
    await ctx.catch_up("auto", ())
    indexes = [ctx.parts.stores.index(ns) for ns in names]
    return {"ns": list(names), "tags": await ctx.read(keys.tags, ctx.parts.stores, indexes)}


async def tags_rename(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    tag, to, dry_run = params.text("tag"), params.text("to"), params.flag("dry_run")
    writer = write_request(ctx, params)
    params.done()
    needed("tags.rename", tag=tag, to=to)
    return await _retag(writer, "tags.rename", tag, tag_name(to), dry_run)


async def tags_rm(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    tag, dry_run = params.text("tag"), params.flag("dry_run")
    writer = write_request(ctx, params)
    params.done()
    needed("tags.rm", tag=tag)
    return await _retag(writer, "tags.rm", tag, None, dry_run)


async def _retag(writer: WriteRequest, what: str, tag: str, new: str | None, dry_run: bool) -> Result:
    """Change every file of which a memory has the tag, as one action."""
    ctx, old = writer.ctx, tag.strip().lstrip("#")
    await ctx.catch_up("auto", ())
    if await repeated(writer):
        return {**await writer.write(what, old), "dry_run": False, "diff": ""}
    paths = await ctx.read(keys.tagged_files, ctx.parts.stores, writer.index, old)
    if not paths:
        raise NotFound(f"no memory has the tag `{old}`", await _near(writer, old))
    edits = {path: _edit(path, old, new) for path in paths}
    diff = await ctx.read(lambda: "".join(_diff(writer.index, path, edit) for path, edit in edits.items()))
    if dry_run:
        return {**untouched(writer, old), "paths": paths, "dry_run": True, "diff": diff}
    done = await writer.write(what, old, *(FileChange(path, edit=edit) for path, edit in edits.items()))
    return {**done, "dry_run": False, "diff": diff}


def _edit(path: str, old: str, new: str | None) -> Edit:
    return revise.in_bytes(lambda text: None if text is None else retagged(path, text, old, new))


def _diff(index: WorkspaceIndex, path: str, edit: Edit) -> str:
    """What an edit would change in a file, as a unified diff."""
    try:
        found = (index.workspace.root / path).read_bytes()
    except OSError:
        return ""
    old, new = (decode(data or b"").removesuffix("\n").split("\n") for data in (found, edit(found)))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


async def _near(writer: WriteRequest, tag: str) -> str:
    told = await writer.ctx.read(keys.tags, writer.ctx.parts.stores, [writer.index])
    near = difflib.get_close_matches(tag, [str(one["tag"]) for one in told], n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else "memd tags lists them"
