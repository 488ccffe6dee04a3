"""What memories are labelled with: `files`, `tags.list`, `tags.rename` and `tags.rm`."""

from __future__ import annotations

import difflib

from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.hand import Hand, hand
from memd.daemon.handlers.keyed import RELS, check_file, edit_of, needed, repeated, untouched, with_files
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, UsageError
from memd.indexer.actions.writing import Change
from memd.indexer.store.stores import Shelf
from memd.indexer.views import keys
from memd.notes import revise
from memd.notes.pen import Edit
from memd.notes.read import decode
from memd.notes.tags import retagged, tag_name


async def files(desk: Desk, params: Params, tell: Tell) -> Result:
    key, touching, add = params.text("key"), params.text("touching"), params.text("add")
    rel, cwd, names = params.choice("rel", RELS, "modified"), params.place("cwd"), desk.names(params)
    for name in ("who", "request_id"):
        params.text(name)
    params.flag("allow_secret")
    params.done()
    if bool(key) == bool(touching) or (touching and add):
        raise UsageError("`files` needs a `key`, or a path in `touching`")
    await desk.catch_up("auto", ())
    stores = desk.parts.stores
    if touching:
        shelves = [stores.shelf(ns) for ns in names]
        return {"ns": list(names), "memories": await desk.read(keys.touching, stores, shelves, touching, cwd)}
    writer = hand(desk, params)
    done = await _declare(writer, key, await desk.read(keys.file_named, writer.shelf, add, cwd), rel) if add else {}
    told = await desk.read(keys.files_of, stores, writer.shelf, key)
    return {"ns": writer.shelf.workspace.ns, **done, "key": key, "files": [keys.file_told(entry) for entry in told]}


async def _declare(writer: Hand, key: str, file: str, rel: str) -> Result:
    """Write down that a memory is about a file; answers when the ledger has it."""
    entry = f"{file}:{rel}"
    check_file(entry)
    target = await writer.desk.read(keys.existing, writer.desk.parts.stores, writer.shelf, key)

    def change(text: str | None) -> str:
        if text is None:
            raise KeyError(target.slug)
        there = revise.declared_here(target.path, target.slug, text)
        facts = {"files": with_files(there.files, (entry,))}
        return revise.declare(target.path, target.slug, text, facts)

    done = await writer.write("files", key, Change(target.path, edit=edit_of(target, change)))
    await writer.desk.catch_up("auto", ())
    return done


# --- tags ---------------------------------------------------------------------------------------------------


async def tags_list(desk: Desk, params: Params, tell: Tell) -> Result:
    names = desk.names(params)
    params.done()
    await desk.catch_up("auto", ())
    shelves = [desk.parts.stores.shelf(ns) for ns in names]
    return {"ns": list(names), "tags": await desk.read(keys.tags, desk.parts.stores, shelves)}


async def tags_rename(desk: Desk, params: Params, tell: Tell) -> Result:
    tag, to, dry_run = params.text("tag"), params.text("to"), params.flag("dry_run")
    writer = hand(desk, params)
    params.done()
    needed("tags.rename", tag=tag, to=to)
    return await _retag(writer, "tags.rename", tag, tag_name(to), dry_run)


async def tags_rm(desk: Desk, params: Params, tell: Tell) -> Result:
    tag, dry_run = params.text("tag"), params.flag("dry_run")
    writer = hand(desk, params)
    params.done()
    needed("tags.rm", tag=tag)
    return await _retag(writer, "tags.rm", tag, None, dry_run)


async def _retag(writer: Hand, what: str, tag: str, new: str | None, dry_run: bool) -> Result:
    """Change every file of which a memory has the tag, as one action."""
    desk, old = writer.desk, tag.strip().lstrip("#")
    await desk.catch_up("auto", ())
    if await repeated(writer):
        return {**await writer.write(what, old), "dry_run": False, "diff": ""}
    paths = await desk.read(keys.tagged_files, desk.parts.stores, writer.shelf, old)
    if not paths:
        raise NotFound(f"no memory has the tag `{old}`", await _near(writer, old))
    edits = {path: _edit(path, old, new) for path in paths}
    diff = await desk.read(lambda: "".join(_diff(writer.shelf, path, edit) for path, edit in edits.items()))
    if dry_run:
        return {**untouched(writer, old), "paths": paths, "dry_run": True, "diff": diff}
    done = await writer.write(what, old, *(Change(path, edit=edit) for path, edit in edits.items()))
    return {**done, "dry_run": False, "diff": diff}


def _edit(path: str, old: str, new: str | None) -> Edit:
    return revise.in_bytes(lambda text: None if text is None else retagged(path, text, old, new))


def _diff(shelf: Shelf, path: str, edit: Edit) -> str:
    """What an edit would change in a file, as a unified diff."""
    try:
        found = (shelf.workspace.root / path).read_bytes()
    except OSError:
        return ""
    old, new = (decode(data or b"").removesuffix("\n").split("\n") for data in (found, edit(found)))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


async def _near(writer: Hand, tag: str) -> str:
    told = await writer.desk.read(keys.tags, writer.desk.parts.stores, [writer.shelf])
    near = difflib.get_close_matches(tag, [str(one["tag"]) for one in told], n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else "memd tags lists them"
