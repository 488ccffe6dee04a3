"""Memories by their key: `put`, `patch`, `rm` and `gc`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.write_request import WriteRequest, write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Conflict, NotFound, Refused, UsageError, VersionConflict
from memd.indexer.query import lookup
from memd.indexer.query.similar import similar
from memd.indexer.record import actions, history
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys, past, peek
from memd.indexer.views.get import near
from memd.indexer.views.keys import KeyTarget
from memd.indexer.writing import purge
from memd.indexer.writing.write_files import FileChange
from memd.models import KINDS, TIERS
from memd.notes import compose, patches, revise
from memd.notes.lifetime import span_of
from memd.notes.read import CONTROL

PRIORITIES = ("low", "normal", "high", "critical")
ON_SIMILAR = ("keep", "update", "skip")
RELS = ("modified", "created", "deleted", "read")
NEVER = "none"
MAX_VERSION = 10**9
MAX_RESTING = 200
"""Dormant memories that `gc` lists."""
ANY = -1


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """What someone wants a memory to be."""

    key: str
    text: str | None
    now: datetime
    if_version: int
    """The version that it must have now; 0: none yet, -1: any."""
    facts: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()


async def put(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    wish, on_similar = _wish(params), params.choice("on_similar", ON_SIMILAR, "keep")
    writer = write_request(ctx, params)
    params.done()
    check(wish, ctx.parts.worker.max_bytes)
    wish = replace(wish, files=await ctx.read(_files, writer.index, wish.files, params.place("cwd")))
    writer.may_hold(wish.text or "")
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.wanted, ctx.parts.stores, writer.index, wish.key, writer.layout)
    if await repeated(writer):
        return await _put(writer, wish, target, [])
    if target.memory is None and wish.text is None:
        raise NotFound(f"no memory has the key `{wish.key}`, and no text was given for a new one",
                       near(ctx.parts.stores, [writer.index], wish.key))  # fmt: skip
    _expect(target, wish.if_version)
    found = await _similar(writer, wish, target)
    if found and target.memory is None and on_similar == "skip":
        return _skipped(writer, wish, found)
    if found and target.memory is None and on_similar == "update":
        target = await ctx.read(keys.existing, ctx.parts.stores, writer.index, found[0]["key"])
    return await _put(writer, wish, target, found)


async def _put(writer: WriteRequest, wish: KeyedWrite, target: KeyTarget, found: list[Result]) -> Result:
    written: list[str | None] = []

    def change(text: str | None) -> str:
        _unchanged(target, text, wish.if_version)
        made = revise.put(target.path, target.slug, text, wish.text, facts_now(wish, target, text))
        written[:] = [keys.digest_in(target, made)]
        return made

    done = await writer.write("put", target.key, FileChange(target.path, edit=edit_of(target, change)))
    return {**done, "written": True, "version": await version(writer, target, written), "similar": found}


async def patch(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, diff, if_version = params.text("key"), params.text("patch"), params.number("if_version", ANY, 0, MAX_VERSION)
    writer = write_request(ctx, params)
    params.done()
    needed("patch", key=key)
    writer.may_hold(patches.added(diff))
    await ctx.catch_up("auto", ())
    target = await ctx.read(keys.existing, ctx.parts.stores, writer.index, key)
    if not await repeated(writer):
        _expect(target, if_version)

    written: list[str | None] = []

    def change(text: str | None) -> str:
        _unchanged(target, text, if_version)
        memory = revise.memory_in(target.path, text or "", target.slug)
        if memory is None:
            raise KeyError(target.slug)
        new = patches.apply(memory.text, diff)
        if not new.strip():
            raise UsageError("the patch would leave nothing of the memory", f"memd rm {key}")
        made = compose.with_section(target.path, text or "", target.slug, new)
        written[:] = [keys.digest_in(target, made)]
        return made

    done = await writer.write("patch", key, FileChange(target.path, edit=edit_of(target, change)))
    return {**done, "version": await version(writer, target, written)}


async def rm(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    key, hard = params.text("key"), params.flag("hard")
    writer = write_request(ctx, params)
    params.done()
    needed("rm", key=key)
    await ctx.catch_up("auto", ())
    if await repeated(writer):
        return {**await writer.write("rm", key), "hard": hard}
    memory = (await ctx.read(past.known, ctx.parts.stores, [writer.index], key)).memory if hard else None
    try:
        done = await remove(writer, await ctx.read(keys.existing, ctx.parts.stores, writer.index, key))
    except NotFound:
        if memory is None:
            raise
        done = untouched(writer, key)
    told = {**done, "hard": hard}
    return told if memory is None else {**told, **await _purge(writer, memory)}


async def remove(writer: WriteRequest, target: KeyTarget) -> Result:
    """Take a memory's text out of its file; what it said stays in the history."""

    def change(text: str | None) -> str | None:
        if text is None:
            raise KeyError(target.slug)
        return revise.without(target.path, target.slug, text)

    return await writer.write("rm", target.key, FileChange(target.path, edit=edit_of(target, change)))


async def gc(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    indexes = ctx.indexes(params)
    who, hard, dry_run = params.text("who") or "socket", params.flag("hard"), params.flag("dry_run")
    params.done()
    await ctx.catch_up("auto", ())
    found = await ctx.read(keys.expired, ctx.parts.stores, indexes)
    resting, total = await ctx.read(lambda: peek.dormant(ctx.parts.stores.ledger.reader, indexes, MAX_RESTING))
    purged = []
    for index in indexes if hard and not dry_run else ():
        writer = WriteRequest(ctx, index, who, "", True)
        for told in (told for told in found if told["ns"] == index.workspace.ns):
            target = await ctx.read(keys.existing, ctx.parts.stores, index, told["key"])
            assert target.memory is not None
            await remove(writer, target)
            purged.append({"key": told["key"], **await _purge(writer, target.memory)})
    return {"ns": [index.workspace.ns for index in indexes], "expired": found, "hard": hard and not dry_run,
            "purged": purged, "dormant": resting, "dormant_total": total}  # fmt: skip


async def _purge(writer: WriteRequest, memory: int) -> Result:
    """Forget what is gone from the files for good; on the writer's thread, as it changes every store."""
    ctx, index = writer.ctx, writer.index
    await asyncio.wrap_future(ctx.parts.worker.applied())
    call = tasks.CallTask(lambda: purge.purge(ctx.parts.stores, index, memory))
    return dict(await asyncio.wrap_future(ctx.parts.worker.submit(call)))


# --- what is wanted -----------------------------------------------------------------------------------------


def _wish(params: Params) -> KeyedWrite:
    text = params.text("text") if params.given.get("text") is not None else None
    return KeyedWrite(
        params.text("key"), text, params.moment("now"), params.number("if_version", ANY, 0, MAX_VERSION),
        _facts(params), params.texts("files"),
    )  # fmt: skip


def _facts(params: Params) -> dict[str, Any]:
    """What the caller declares; what is not named stays as it is."""
    tags = [tag.strip().lstrip("#") for tag in params.texts("tags")]
    given = {
        "kind": params.choice("kind", ("", *KINDS), ""),
        "tags": tags,
        "priority": params.choice("priority", ("", *PRIORITIES), ""),
        "importance": params.share("importance"),
        "pinned": params.flag("pinned"),
        "ttl": params.text("ttl"),
        "tier": params.choice("tier", ("", *TIERS), ""),
    }
    return {name: value for name, value in given.items() if params.given.get(name) is not None}


def check(wish: KeyedWrite, max_bytes: int) -> None:
    needed("put", key=wish.key)
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
    if not path.strip() or rel not in RELS or set(entry) & set('\n"<>'):
        raise UsageError(f"`files` must be PATH:REL with REL one of {', '.join(RELS)}, not {entry!r}")


def _files(index: WorkspaceIndex, entries: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    parts = (entry.rpartition(":") for entry in entries)
    return tuple(f"{keys.file_named(index, path, cwd)}:{rel}" for path, _, rel in parts)


def needed(method: str, **given: str) -> None:
    """Say what is missing, after everything that was given has been looked at."""
    for name, value in given.items():
        if not value.strip():
            raise UsageError(f"`{method}` needs `{name}`")


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


# --- versions -----------------------------------------------------------------------------------------------


def _expect(target: KeyTarget, wanted: int) -> None:
    if wanted not in (ANY, target.version):
        there = f"is at version {target.version}" if target.version else "does not exist yet"
        raise VersionConflict(f"`{target.key}` {there}, not {wanted}", f"read it again: memd get {target.key}")


def _unchanged(target: KeyTarget, text: str | None, wanted: int) -> None:
    """The same for the file as it is this moment: the ledger may not have heard of the last change."""
    if wanted != ANY and keys.digest_in(target, text) != target.digest:
        raise VersionConflict(
            f"`{target.key}` was changed a moment ago and is past version {target.version}",
            f"read it again: memd get {target.key}",
        )


async def version(writer: WriteRequest, target: KeyTarget, written: list[str | None]) -> int | None:
    """The number of the version that was just written; None where others wrote over it before it was taken in."""
    await writer.ctx.catch_up("auto", ())
    return await writer.ctx.read(_version, writer, target, written)


def _version(writer: WriteRequest, target: KeyTarget, written: list[str | None]) -> int | None:
    reader, memory = writer.ctx.parts.stores.ledger.reader, target.memory
    if memory is None:
        rows = lookup.memories(reader, writer.index.id, target.key, "")
        memory = rows[0]["id"] if rows else None
    kept = history.versions(reader, memory) if memory is not None else []
    # Not simply the last one: that may be someone else's, whom a later `if_version` would then overwrite unread.
    digest = written[0] if written else None
    fitting = [one.number for one in kept if digest is None or one.digest == digest]
    return fitting[-1] if fitting else None


async def repeated(writer: WriteRequest) -> bool:
    """Whether this very request was carried out before: then it is not judged by what it brought about."""
    reader = writer.ctx.parts.stores.ledger
    done = await writer.ctx.read(lambda: actions.by_request(reader.reader, writer.request))
    return done is not None


# --- the rest -----------------------------------------------------------------------------------------------


def edit_of(target: KeyTarget, change: Callable[[str | None], str | None]) -> Callable[[bytes | None], bytes | None]:
    """An edit of bytes that says so when the memory went meanwhile."""

    def edit(text: str | None) -> str | None:
        try:
            return change(text)
        except KeyError as error:
            raise Conflict(f"`{target.key}` is no longer in {target.path}", "memd sync, and look again") from error

    return revise.in_bytes(edit)


async def _similar(writer: WriteRequest, wish: KeyedWrite, target: KeyTarget) -> list[Result]:
    if wish.text is None:
        return []
    ctx = writer.ctx
    stores, most = ctx.parts.stores, ctx.parts.worker.max_bytes
    return await ctx.read(similar, stores, writer.index, wish.text, target.memory, most)


def untouched(writer: WriteRequest, key: str) -> Result:
    """What a write answers that had nothing to write."""
    return {"ns": writer.index.workspace.ns, "root": str(writer.index.workspace.root), "action": None, "paths": [],
            "conflicts": [], "repeated": False, "key": key,
            "visible": writer.ctx.parts.stores.ledger.clock}  # fmt: skip


def _skipped(writer: WriteRequest, wish: KeyedWrite, found: list[Result]) -> Result:
    return {**untouched(writer, wish.key), "written": False, "version": 0, "similar": found}
