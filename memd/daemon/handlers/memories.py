"""Memories by their key and what they declare: `put`, `patch`, `rm`, `gc`, `files` and the tags."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, get_args

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.registry import handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, workspace_writer
from memd.daemon.server import IncomingCall
from memd.errors import Conflict, NotFound, Refused, UsageError, VersionConflict
from memd.indexer.query import lookup
from memd.indexer.query.similar import similar
from memd.indexer.record import history
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys, past, peek
from memd.indexer.views.get import near
from memd.indexer.views.keys import KeyTarget
from memd.indexer.writing.write_files import FileChange
from memd.notes import compose, patches, revise
from memd.notes.lifetime import span_of
from memd.notes.read import CONTROL, decode
from memd.notes.safe_write import Edit
from memd.notes.tags import retagged, tag_name
from memd.protocol.methods.memories import (
    FileRelation,
    FilesRequest,
    GcRequest,
    PatchRequest,
    PutRequest,
    RmRequest,
    TagListRequest,
    TagRenameRequest,
    TagRmRequest,
)

FILE_RELATIONS = get_args(FileRelation)
FACTS = ("kind", "tags", "priority", "importance", "pinned", "ttl", "tier")
"""What a caller of `put` may declare about a memory."""
NEVER = "none"
MAX_DORMANT = 200
"""Dormant memories that `gc` lists."""


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """What someone wants a memory to be."""

    key: str
    text: str | None
    now: datetime
    if_version: int | None = None
    """The version that it must have now; 0: none yet, None: any."""
    facts: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()


@handles(PutRequest)
async def put(ctx: HandlerContext, request: PutRequest, call: IncomingCall) -> Result:
    writer, wish = workspace_writer(ctx, request), _wish(request)
    check(wish, ctx.max_bytes)
    wish = replace(wish, files=await ctx.read(_files, writer.index, wish.files, request.cwd))
    writer.may_hold(wish.text or "")
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.wanted, ctx.stores, writer.index, wish.key, writer.layout)
    if await writer.repeated():
        return await _put(writer, wish, target, [])
    if target.memory is None and wish.text is None:
        raise NotFound(f"no memory has the key `{wish.key}`, and no text was given for a new one",
                       near(ctx.stores, [writer.index], wish.key))  # fmt: skip
    _expect(target, wish.if_version)
    found = await _similar(writer, wish, target)
    if found and target.memory is None and request.on_similar == "skip":
        return {**writer.untouched(wish.key), "written": False, "version": 0, "similar": found}
    if found and target.memory is None and request.on_similar == "update":
        target = await ctx.read(keys.existing, ctx.stores, writer.index, found[0]["key"])
    return await _put(writer, wish, target, found)


async def _put(writer: WorkspaceWriter, wish: KeyedWrite, target: KeyTarget, found: list[Result]) -> Result:
    written: list[str | None] = []

    def change(text: str | None) -> str:
        _unchanged(target, text, wish.if_version)
        made = revise.put(target.path, target.slug, text, wish.text, facts_now(wish, target, text))
        written[:] = [keys.digest_in(target, made)]
        return made

    done = await writer.write("put", target.key, FileChange(target.path, edit=edit_of(target, change)))
    return {**done, "written": True, "version": await version(writer, target, written), "similar": found}


@handles(PatchRequest)
async def patch(ctx: HandlerContext, request: PatchRequest, call: IncomingCall) -> Result:
    writer, key, if_version = workspace_writer(ctx, request), request.key, request.if_version
    writer.may_hold(patches.added(request.patch))
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.existing, ctx.stores, writer.index, key)
    if not await writer.repeated():
        _expect(target, if_version)

    written: list[str | None] = []

    def change(text: str | None) -> str:
        _unchanged(target, text, if_version)
        memory = revise.memory_in(target.path, text or "", target.slug)
        if memory is None:
            raise KeyError(target.slug)
        new = patches.apply(memory.text, request.patch)
        if not new.strip():
            raise UsageError("the patch would leave nothing of the memory", f"memd rm {key}")
        made = compose.with_section(target.path, text or "", target.slug, new)
        written[:] = [keys.digest_in(target, made)]
        return made

    done = await writer.write("patch", key, FileChange(target.path, edit=edit_of(target, change)))
    return {**done, "version": await version(writer, target, written)}


@handles(RmRequest)
async def rm(ctx: HandlerContext, request: RmRequest, call: IncomingCall) -> Result:
    writer, key, hard = workspace_writer(ctx, request), request.key, request.hard
    await ctx.catch_up("auto", ())
    if await writer.repeated():
        return {**await writer.write("rm", key), "hard": hard}
    memory = (await ctx.read(past.known, ctx.stores, [writer.index], key)).memory if hard else None
    try:
        done = await remove(writer, await ctx.read(keys.existing, ctx.stores, writer.index, key))
    except NotFound:
        if memory is None:
            raise
        done = writer.untouched(key)
    purged = {} if memory is None else await _purge(writer, memory)
    return {**done, "hard": hard, **purged}


async def remove(writer: WorkspaceWriter, target: KeyTarget) -> Result:
    """Take a memory's text out of its file; what it said stays in the history."""

    def change(text: str | None) -> str | None:
        if text is None:
            raise KeyError(target.slug)
        return revise.without(target.path, target.slug, text)

    return await writer.write("rm", target.key, FileChange(target.path, edit=edit_of(target, change)))


@handles(GcRequest)
async def gc(ctx: HandlerContext, request: GcRequest, call: IncomingCall) -> Result:
    indexes, hard = ctx.indexes(request), request.hard and not request.dry_run
    await ctx.catch_up("auto", ())
    expired = await ctx.read(keys.expired, ctx.stores, indexes)
    dormant, total = await ctx.read(lambda: peek.dormant(ctx.stores.ledger.reader, indexes, MAX_DORMANT))
    purged = []
    for index in indexes if hard else ():
        writer = WorkspaceWriter(ctx, index, request.who or "socket", "", True)
        for row in (row for row in expired if row["ns"] == index.workspace.ns):
            target = await ctx.read(keys.existing, ctx.stores, index, row["key"])
            assert target.memory is not None
            await remove(writer, target)
            purged.append({"key": row["key"], **await _purge(writer, target.memory)})
    return {"ns": ctx.namespaces(indexes), "expired": expired, "hard": hard, "purged": purged, "dormant": dormant,
            "dormant_total": total}  # fmt: skip


async def _purge(writer: WorkspaceWriter, memory: int) -> Result:
    """Forget what is gone from the files for good; on the writer's thread, as it changes every store."""
    await writer.ctx.applied()
    return await writer.ctx.run(tasks.Purge(writer.index.workspace.ns, memory))


# --- what is wanted -----------------------------------------------------------------------------------------------


def _wish(request: PutRequest) -> KeyedWrite:
    facts = {name: value for name in FACTS if (value := getattr(request, name)) is not None}
    if "tags" in facts:
        facts["tags"] = [tag.strip().lstrip("#") for tag in facts["tags"]]
    return KeyedWrite(request.key, request.text, request.local_time(), request.if_version, facts, request.files)


def check(wish: KeyedWrite, max_bytes: int) -> None:
    if wish.text is None and not wish.facts and not wish.files:
        raise UsageError("there is nothing to put", "give a text (- reads it from standard input) or a fact")
    if wish.text is not None and not wish.text.strip():
        raise UsageError("there is nothing to put", f"to remove it: memd rm {wish.key}")
    if wish.text and set(wish.text.encode()) & set(CONTROL):
        raise UsageError("`text` has control characters, as binary data has", "write it down in words")
    if wish.text and len(wish.text.encode()) > max_bytes // 2:
        raise Refused("the text is too long for one memory", "cut it into several, or raise index.max_file_kb")
    if any(not tag or set(tag) & set(",\n\"'<>") for tag in wish.facts.get("tags", ())):
        raise UsageError("a tag is a word without commas and quotes")
    ttl = wish.facts.get("ttl")
    if ttl and ttl != NEVER and span_of(ttl) is None:
        raise UsageError(f"`ttl` must be such as 90m, 12h, 30d, 2w, 1y or none, not {ttl!r}")
    for entry in wish.files:
        check_file(entry)


def check_file(entry: str) -> None:
    path, _, rel = entry.rpartition(":")
    if not path.strip() or rel not in FILE_RELATIONS or set(entry) & set('\n"<>'):
        raise UsageError(f"`files` must be PATH:REL with REL one of {', '.join(FILE_RELATIONS)}, not {entry!r}")


def _files(index: WorkspaceIndex, entries: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    parts = (entry.rpartition(":") for entry in entries)
    return tuple(f"{keys.file_named(index, path, cwd)}:{rel}" for path, _, rel in parts)


def facts_now(wish: KeyedWrite, target: KeyTarget, text: str | None) -> dict[str, Any]:
    """The facts as they shall stand: files add up, a ttl counts from now on."""
    there = revise.declared_here(target.path, target.slug, text)
    facts = {**wish.facts, **({"ttl": None} if wish.facts.get("ttl") == NEVER else {})}
    if wish.files:
        facts["files"] = with_files(there.files, wish.files)
    if facts.get("ttl") or (there.ttl and "ttl" not in facts):
        facts["last_updated"] = f"{wish.now:%Y-%m-%dT%H:%M}"
    elif there.last_updated:
        facts["last_updated"] = f"{wish.now:%Y-%m-%d}"
    return facts


def with_files(had: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
    """Files with what was done to them; the last word on one counts."""
    return [
        f"{path}:{rel}"
        for path, rel in {path: rel for path, _, rel in (e.rpartition(":") for e in (*had, *more))}.items()
    ]


# --- versions -----------------------------------------------------------------------------------------------------


def _expect(target: KeyTarget, wanted: int | None) -> None:
    if wanted is not None and wanted != target.version:
        there = f"is at version {target.version}" if target.version else "does not exist yet"
        raise VersionConflict(f"`{target.key}` {there}, not {wanted}", f"read it again: memd get {target.key}")


def _unchanged(target: KeyTarget, text: str | None, wanted: int | None) -> None:
    """The same for the file as it is this moment: the ledger may not have heard of the last change."""
    if wanted is not None and keys.digest_in(target, text) != target.digest:
        raise VersionConflict(
            f"`{target.key}` was changed a moment ago and is past version {target.version}",
            f"read it again: memd get {target.key}",
        )


async def version(writer: WorkspaceWriter, target: KeyTarget, written: list[str | None]) -> int | None:
    """The number of the version that was just written; None where others wrote over it before it was taken in."""
    await writer.ctx.catch_up("auto", ())
    return await writer.ctx.read(_version, writer, target, written)


def _version(writer: WorkspaceWriter, target: KeyTarget, written: list[str | None]) -> int | None:
    reader, memory = writer.ctx.stores.ledger.reader, target.memory
    if memory is None:
        rows = lookup.memories(reader, writer.index.id, target.key, "")
        memory = rows[0]["id"] if rows else None
    kept = history.versions(reader, memory) if memory is not None else []
    # Not simply the last one: that may be someone else's, whom a later `if_version` would then overwrite unread.
    digest = written[0] if written else None
    fitting = [one.number for one in kept if digest is None or one.digest == digest]
    return fitting[-1] if fitting else None


def edit_of(target: KeyTarget, change: Callable[[str | None], str | None]) -> Callable[[bytes | None], bytes | None]:
    """An edit of bytes that says so when the memory went meanwhile."""

    def edit(text: str | None) -> str | None:
        try:
            return change(text)
        except KeyError as error:
            raise Conflict(f"`{target.key}` is no longer in {target.path}", "memd sync, and look again") from error

    return revise.in_bytes(edit)


async def _similar(writer: WorkspaceWriter, wish: KeyedWrite, target: KeyTarget) -> list[Result]:
    if wish.text is None:
        return []
    ctx = writer.ctx
    stores, most = ctx.stores, ctx.max_bytes
    return await ctx.read(similar, stores, writer.index, wish.text, target.memory, most)


# --- files and tags -----------------------------------------------------------------------------------------------


@handles(FilesRequest)
async def files(ctx: HandlerContext, request: FilesRequest, call: IncomingCall) -> Result:
    await ctx.catch_up("auto", ())
    if request.touching:
        indexes = ctx.indexes(request)
        found = await ctx.read(keys.touching, ctx.stores, indexes, request.touching, request.cwd)
        return {"ns": ctx.namespaces(indexes), "memories": found}
    writer, done = workspace_writer(ctx, request), {}
    if request.add:
        file = await ctx.read(keys.file_named, writer.index, request.add, request.cwd)
        done = await _declare(writer, request.key, file, request.rel)
    rows = await ctx.read(keys.files_of, ctx.stores, writer.index, request.key)
    return {"ns": writer.index.workspace.ns, **done, "key": request.key, "files": [keys.file_told(row) for row in rows]}


async def _declare(writer: WorkspaceWriter, key: str, file: str, rel: str) -> Result:
    """Write down that a memory is about a file; answers when the ledger has it."""
    entry = f"{file}:{rel}"
    check_file(entry)
    target = await writer.ctx.read(keys.existing, writer.ctx.stores, writer.index, key)

    def change(text: str | None) -> str:
        if text is None:
            raise KeyError(target.slug)
        there = revise.declared_here(target.path, target.slug, text)
        facts = {"files": with_files(there.files, (entry,))}
        return revise.declare(target.path, target.slug, text, facts)

    done = await writer.write("files", key, FileChange(target.path, edit=edit_of(target, change)))
    await writer.ctx.catch_up("auto", ())
    return done


@handles(TagListRequest)
async def tag_list(ctx: HandlerContext, request: TagListRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    await ctx.catch_up("auto", ())
    return {"ns": ctx.namespaces(indexes), "tags": await ctx.read(keys.tags, ctx.stores, indexes)}


@handles(TagRenameRequest)
async def tag_rename(ctx: HandlerContext, request: TagRenameRequest, call: IncomingCall) -> Result:
    return await _retag(
        workspace_writer(ctx, request), "tag.rename", request.tag, tag_name(request.to), request.dry_run
    )


@handles(TagRmRequest)
async def tag_rm(ctx: HandlerContext, request: TagRmRequest, call: IncomingCall) -> Result:
    return await _retag(workspace_writer(ctx, request), "tag.rm", request.tag, None, request.dry_run)


async def _retag(writer: WorkspaceWriter, what: str, tag: str, new: str | None, dry_run: bool) -> Result:
    """Change every file of which a memory has the tag, as one action."""
    ctx, old = writer.ctx, tag.strip().lstrip("#")
    await ctx.catch_up("auto", ())
    if await writer.repeated():
        return {**await writer.write(what, old), "dry_run": False, "diff": ""}
    paths = await ctx.read(keys.tagged_files, ctx.stores, writer.index, old)
    if not paths:
        raise NotFound(f"no memory has the tag `{old}`", await _near(writer, old))
    edits = {path: _edit(path, old, new) for path in paths}
    diff = await ctx.read(lambda: "".join(_diff(writer.index, path, edit) for path, edit in edits.items()))
    if dry_run:
        return {**writer.untouched(old), "paths": paths, "dry_run": True, "diff": diff}
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


async def _near(writer: WorkspaceWriter, tag: str) -> str:
    told = await writer.ctx.read(keys.tags, writer.ctx.stores, [writer.index])
    near = difflib.get_close_matches(tag, [str(one["tag"]) for one in told], n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else "memd tags lists them"
