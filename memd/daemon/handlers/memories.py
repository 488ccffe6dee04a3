"""Memories by their key and what they declare: `put`, `patch`, `rm`, `gc`, `files` and the tags."""

import asyncio
import difflib
from datetime import datetime
from typing import get_args

from memd.daemon.handlers.handler_context import namespaces
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles, shows
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, did_you_mean, in_memory, workspace_writer
from memd.errors import NotFound, Refused, UsageError, VersionConflict, in_shell
from memd.indexer.query.similar import similar
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys, overview, past
from memd.indexer.writing.purge import around, left_behind, purge
from memd.indexer.writing.write_files import FileChange
from memd.models import Memory
from memd.notes import metadata, patches, read, safe_write, sections
from memd.protocol.methods import memories as methods

FILE_RELATIONS = get_args(methods.FileRelation)
FACTS = ("kind", "tags", "priority", "importance", "pinned", "ttl", "tier")
"""The facts that a caller of `put` may declare about a memory."""
NEVER = "none"
MAX_DORMANT = 200
"""Dormant memories that `gc` lists."""


@handles(methods.PutRequest)
async def put(ctx: HandlerContext, request: methods.PutRequest, call: IncomingCall) -> Result:
    writer, key, new, facts = workspace_writer(ctx, request), request.key, request.text, _facts(request)
    check(key, new, facts, request.files, ctx.max_bytes)
    files = await ctx.read(_file_entries, writer.index, request.files, request.cwd)
    writer.refuse_secrets(new or "")
    await ctx.catch_up()
    target, found = await ctx.read(keys.existing_or_new, ctx.stores, writer.index, key, writer.layout), list[Result]()
    if not await writer.repeated():
        if target.memory is None and new is None:
            raise NotFound(f"no memory has the key `{key}`, and no text was given for a new one",
                           keys.suggest_keys(ctx.stores, [writer.index], key))  # fmt: skip
        _check_version(target, request.if_version)
        found = await _similar(writer, new, target)
    if found and target.memory is None and request.on_similar == "skip":
        return {**writer.untouched(key), "written": False, "version": 0, "similar": found}
    if found and target.memory is None and request.on_similar == "update":
        target = await ctx.read(keys.existing, ctx.stores, writer.index, found[0]["key"])

    def edit(text: str | None) -> str:
        _check_unchanged(target, text, request.if_version)
        declared = facts_now(target, text, request.local_time(), facts, files)
        return sections.put(target.path, target.slug, text, new, declared)

    return {**await writer.edit_version("put", target, edit), "written": True, "similar": found}


async def _similar(writer: WorkspaceWriter, text: str | None, target: keys.KeyTarget) -> list[Result]:
    if text is None:
        return []
    ctx = writer.ctx
    about = writer.index, text, target.memory, ctx.max_bytes
    found, ctx.answer.unheard = await ctx.read_elsewhere(similar, ctx.stores, *about)
    return found


@handles(methods.PatchRequest)
async def patch(ctx: HandlerContext, request: methods.PatchRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    writer.refuse_secrets(patches.added_text(request.patch))
    target = await writer.target(request.key)
    if not await writer.repeated():
        _check_version(target, request.if_version)

    def edit(text: str, memory: Memory) -> str:
        _check_unchanged(target, text, request.if_version)
        new = patches.apply(memory.text, request.patch)
        if not new.strip():
            raise UsageError("the patch would leave nothing of the memory", f"memd rm {in_shell(request.key)}")
        return sections.with_section(target.path, text, target.slug, new)

    return await writer.edit_version("patch", target, in_memory(target, edit))


@handles(methods.RmRequest)
async def rm(ctx: HandlerContext, request: methods.RmRequest, call: IncomingCall) -> Result:
    writer, key, hard = workspace_writer(ctx, request), request.key, request.hard
    await ctx.catch_up()
    if await writer.repeated():
        return {**await writer.write("rm", key), "hard": hard}
    memory = (await ctx.read(past.known, ctx.stores, [writer.index], key))[1]["id"] if hard else None
    try:
        target = await writer.target(key)
        await ctx.read(keys.refuse_whole_file, ctx.stores, writer.index, target)
        done = await _remove(writer, target)
    except NotFound:
        if memory is None:
            raise
        done = writer.untouched(key)
    purged = {} if memory is None else await _purge(writer, memory)
    return {**done, "hard": hard, **purged}


async def _remove(writer: WorkspaceWriter, target: keys.KeyTarget) -> Result:
    """Take a memory's text out of its file; what it said stays in the history."""

    def edit(text: str | None) -> str | None:
        if text is None:
            raise KeyError(target.slug)
        return sections.without_section(target.path, target.slug, text)

    return await writer.edit("rm", target, edit)


@handles(methods.GcRequest)
async def gc(ctx: HandlerContext, request: methods.GcRequest, call: IncomingCall) -> Result:
    indexes, hard = await ctx.current_indexes(request), request.hard and not request.dry_run
    expired = await ctx.read(keys.expired, ctx.stores, indexes)
    dormant, total = await ctx.read(overview.dormant, ctx.stores, indexes, MAX_DORMANT)
    purged = []
    for index in indexes if hard else ():
        writer = WorkspaceWriter(ctx, index, request.author)
        for key in (row["key"] for row in expired if row["ns"] == writer.ns):
            target = await ctx.read(keys.existing, ctx.stores, index, key)
            await _remove(writer, target)
            purged.append({"key": key, **await _purge(writer, target.number)})
    return {"ns": namespaces(indexes), "expired": expired, "hard": hard, "purged": purged, "dormant": dormant,
            "dormant_total": total}  # fmt: skip


async def _purge(writer: WorkspaceWriter, memory: int) -> Result:
    """Forget what is gone from the files for good; on the writer's thread, as it changes every store."""
    ctx = writer.ctx
    await ctx.applied()
    if others := namespaces(around(ctx.stores, writer.index)):
        await ctx.scan(tuple(others))
    # Chroma has the text too.
    await ctx.model_loaded(collections=True)
    purged, trace = await ctx.write(purge, ctx.stores, writer.index, memory)
    left = await asyncio.to_thread(left_behind, ctx.stores, writer.ns, trace)
    if not purged["kept"]:
        await ctx.write(ctx.stores.end_purging, trace.workspaces)
    return {**purged, "kept": [*purged["kept"], *left]}


# --- what a memory is to be -----------------------------------------------------------------------------------------


def _facts(request: methods.PutRequest) -> Result:
    facts = {name: value for name in FACTS if (value := getattr(request, name)) is not None}
    if "tags" in facts:
        facts["tags"] = [tag.strip().lstrip("#") for tag in facts["tags"]]
    return facts


def check(key: str, text: str | None, facts: Result, files: tuple[str, ...], max_bytes: int) -> None:
    """Refuse what a memory cannot be."""
    if text is None and not facts and not files:
        raise UsageError("there is nothing to put", "give a text (- reads it from standard input) or a fact")
    if text is not None and not text.strip():
        raise UsageError("there is nothing to put", f"to remove it: memd rm {in_shell(key)}")
    if text and set(text.encode()) & set(read.CONTROL):
        raise UsageError("`text` has control characters, as binary data has", "write it down in words")
    if text and len(text.encode()) > max_bytes // 2:
        raise Refused("the text is too long for one memory", "split it, or raise index.max_file_kb")
    if any(not tag or set(tag) & set(",\n\"'<>") for tag in facts.get("tags", ())):
        raise UsageError("a tag is a word without commas and quotes")
    ttl = facts.get("ttl")
    # No span, or one of no time.
    if ttl and ttl != NEVER and not metadata.ttl_span(ttl):
        raise UsageError(f"`ttl` must be such as 90m, 12h, 30d, 2w, 1y or none, not {ttl!r}")
    for entry in files:
        _check_file(entry)


def _check_file(entry: str) -> None:
    path, _, rel = entry.rpartition(":")
    if not path.strip() or rel not in FILE_RELATIONS or set(entry) & set('\n"<>'):
        raise UsageError(f"`files` must be PATH:REL with REL one of {', '.join(FILE_RELATIONS)}, not {entry!r}")


def _file_entries(index: WorkspaceIndex, entries: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    split = (entry.rpartition(":") for entry in entries)
    return tuple(f"{keys.file_named(index, path, cwd)}:{rel}" for path, _, rel in split)


def facts_now(target: keys.KeyTarget, text: str | None, now: datetime, new: Result, files: tuple[str, ...]) -> Result:
    """The facts to declare: files add up, a ttl counts from now on."""
    before = sections.metadata_of(target.path, target.slug, text)
    facts = {**new, **({"ttl": None} if new.get("ttl") == NEVER else {})}
    if files:
        facts["files"] = _with_files(before.files, files)
    if facts.get("ttl") or (before.ttl and "ttl" not in facts):
        facts["last_updated"] = f"{now:%Y-%m-%dT%H:%M}"
    elif before.last_updated:
        facts["last_updated"] = f"{now:%Y-%m-%d}"
    return facts


def _with_files(before: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
    """Files with what was done to them; the last word on one counts."""
    relations = {path: rel for path, _, rel in (entry.rpartition(":") for entry in (*before, *more))}
    return [f"{path}:{rel}" for path, rel in relations.items()]


def _check_version(target: keys.KeyTarget, expected: int | None) -> None:
    if expected is not None and expected != target.version:
        state = f"is at version {target.version}" if target.version else "does not exist yet"
        raise VersionConflict(
            f"`{target.key}` {state}, not {expected}", f"read it again: memd get {in_shell(target.key)}"
        )


def _check_unchanged(target: keys.KeyTarget, text: str | None, expected: int | None) -> None:
    """The same for the file as it is this moment: the ledger may not have seen the last change."""
    if expected is not None and keys.digest_in(target, text) != target.digest:
        why = f"`{target.key}` was changed a moment ago and is past version {target.version}"
        raise VersionConflict(why, f"read it again: memd get {in_shell(target.key)}")


# --- files and tags -----------------------------------------------------------------------------------------------


@handles(methods.FilesRequest)
async def files(ctx: HandlerContext, request: methods.FilesRequest, call: IncomingCall) -> Result:
    await ctx.catch_up()
    if request.touching:
        indexes = ctx.indexes(request)
        rows = await ctx.read(keys.touching, ctx.stores, indexes, request.touching, request.cwd)
        return {"ns": namespaces(indexes), "memories": rows}
    writer, done = workspace_writer(ctx, request), {}
    if request.add:
        file = await ctx.read(keys.file_named, writer.index, request.add, request.cwd)
        done = await _add_file(writer, request.key, f"{file}:{request.rel}")
    entries = await ctx.read(keys.files_of, ctx.stores, writer.index, request.key)
    return {"ns": writer.ns, **done, "key": request.key, "files": entries}


async def _add_file(writer: WorkspaceWriter, key: str, entry: str) -> Result:
    """Declare that a memory is about a file, and wait until the ledger has it."""
    _check_file(entry)
    target = await writer.target(key)

    def edit(text: str, memory: Memory) -> str:
        before = sections.metadata_of(target.path, target.slug, text)
        return sections.with_metadata(target.path, target.slug, text, {"files": _with_files(before.files, (entry,))})

    done = await writer.edit("files", target, in_memory(target, edit))
    await writer.ctx.catch_up()
    return done


shows(methods.TagListRequest, keys.tags)


async def retag(ctx: HandlerContext, request: methods.Retagging, call: IncomingCall) -> Result:
    """Change every file of which a memory has the tag, as one action."""
    new = sections.tag_name(request.to) if isinstance(request, methods.TagRenameRequest) else None
    what = "tag.rename" if new else "tag.rm"
    writer, old = workspace_writer(ctx, request), request.tag.strip().lstrip("#")
    await ctx.catch_up()
    if await writer.repeated():
        return {**await writer.write(what, old), "dry_run": False, "diff": ""}
    if not (paths := await ctx.read(keys.tagged_files, ctx.stores, writer.index, old)):
        known = [str(row["tag"]) for row in (await ctx.read(keys.tags, ctx.stores, [writer.index]))["tags"]]
        raise NotFound(f"no memory has the tag `{old}`", did_you_mean(old, known, "memd tags lists them"))
    edits = {path: _retag_edit(path, old, new) for path in paths}
    diff = await ctx.read(lambda: "".join(_diff(writer.index, path, edit) for path, edit in edits.items()))
    if request.dry_run:
        return {**writer.untouched(old), "paths": paths, "dry_run": True, "diff": diff}
    done = await writer.write(what, old, *(FileChange(path, edit=edit) for path, edit in edits.items()))
    return {**done, "dry_run": False, "diff": diff}


for _request in (methods.TagRenameRequest, methods.TagRmRequest):
    handles(_request)(retag)


def _retag_edit(path: str, old: str, new: str | None) -> safe_write.Edit:
    return sections.in_bytes(lambda text: None if text is None else sections.with_tag_renamed(path, text, old, new))


def _diff(index: WorkspaceIndex, path: str, edit: safe_write.Edit) -> str:
    """The change of a file by an edit, as a unified diff."""
    try:
        before = (index.workspace.root / path).read_bytes()
    except OSError:
        return ""
    old, new = (read.decode(data or b"").removesuffix("\n").split("\n") for data in (before, edit(before)))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    return "".join(f"{line}\n" for line in lines)
