"""Writing what happened and what is worth knowing: `note`, `save`, `write`, `read` and `recent`."""

from __future__ import annotations

import difflib
import re
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.write_request import WriteRequest, only_index, write_request
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import NotFound, Refused, UsageError
from memd.indexer.indexing.scan import is_memory_path, refusal
from memd.indexer.query.lookup import key_of
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.writing.write_files import FileChange
from memd.notes import entries, names
from memd.notes.compose import daily_entry, daily_head, role_entry
from memd.notes.entries import SHARED
from memd.notes.layout import layout_of
from memd.notes.read import CONTROL, FileContent, SkippedFile, UnreadableFile, read

TARGETS = ("daily", "long_term")
TAG = re.compile(r"[^\s,\"'<>#]+")
ROLE = re.compile(r"[\w][\w .:+-]*")
LONGEST_ROLE = 100
MOST_DAYS = 36_500
MOST_TOKENS = 200_000
BUDGET = 2_000


# --- writing ------------------------------------------------------------------------------------------------


async def note(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    text, title, tags = params.required("text"), params.text("title"), _tags(params)
    now, writer = params.moment("now"), write_request(ctx, params)
    params.done()
    return await _to_daily(writer, "note", now, text, title, tags)


async def save(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    target = params.text("target")
    text, title, tags = params.required("text"), params.text("title"), _tags(params)
    now, writer = params.moment("now"), write_request(ctx, params)
    params.done()
    if target not in TARGETS:
        raise UsageError(f"`target` must be daily or long_term, not {target!r}", "today's note, or MEMORY.md")
    to = _to_daily if target == "daily" else _to_long_term
    done = await to(writer, "save", now, text, title, tags)
    name = PurePosixPath(done["path"]).name
    where = "daily log" if target == "daily" else "long-term memory"
    return {**done, "target": target, "saved": f"Saved to {where} ({name})"}


async def write(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    section, text = params.required("section"), params.required("text")
    role, shared = params.text("role"), params.flag("shared")
    now, writer = params.moment("now"), write_request(ctx, params)
    params.done()
    if bool(role) == shared:
        raise UsageError("`write` needs a `role`, or `shared`", "memd write TITLE TEXT --role edit, or --shared")
    path = _role_path(writer.index, SHARED if shared else role)
    entry = role_entry(section, text, f"{now:%Y-%m-%d %H:%M}")
    return await _add(writer, "write", path, section, FileChange(path, entry), text)


async def _to_daily(
    writer: WriteRequest, what: str, now: datetime, text: str, title: str, tags: tuple[str, ...]
) -> Result:
    """A section of the day's note, which is made where there is none."""
    found, body = (title, text) if title else entries.titled(text)
    path, day = writer.layout.daily_note(f"{now:%Y-%m-%d}"), f"{now:%Y-%m-%d}"
    entry = daily_entry(body, f"{now:%H:%M}", " ".join(found.split()), tags)
    return await _add(writer, what, path, f"{now:%H:%M} {found}", FileChange(path, entry, daily_head(day)), text)


async def _to_long_term(
    writer: WriteRequest, what: str, now: datetime, text: str, title: str, tags: tuple[str, ...]
) -> Result:
    """A section of the long-term memory; where that ends with a list of topics, before it."""
    found, body = (title, text) if title else entries.titled(text)
    heading, path = found or f"{now:%Y-%m-%d %H:%M}", writer.layout.long_term
    entry = entries.section(heading, body, tags)
    # A place that must not be written to is refused by the pen.
    known = not refusal(writer.index.workspace, path)
    before = await writer.ctx.read(_reading, writer.index, path, writer.ctx.parts.worker.max_bytes) if known else None
    if before is None or entries.index_start(before.text) is None:
        return await _add(writer, what, path, heading, FileChange(path, entry, "# Memory\n"), text)

    def edit(found: bytes | None) -> bytes:
        return entries.before_index(found or b"", entry)

    return await _add(writer, what, path, heading, FileChange(path, edit=edit), text, before.text)


async def _add(
    writer: WriteRequest, what: str, path: str, heading: str, change: FileChange, text: str, before: str = ""
) -> Result:
    """Do it, once it is known that the text may be written and that questions will find it."""
    if not set(f"{heading}{text}".encode()).isdisjoint(CONTROL):
        raise UsageError("the text has control characters, as binary data has", "write it down in words")
    writer.may_hold(f"{text}\n{heading}")
    _must_be_found(writer, path, len(change.append.encode()) or len(text.encode()))
    key = entries.numbered(_key(writer.index, path, heading), before[: entries.index_start(before)] if before else "")
    done = await writer.write(what, key, change)
    return {**done, "path": done["paths"][0]}


def _key(index: WorkspaceIndex, path: str, heading: str) -> str:
    """What the section will be called, if it is the first of this name."""
    pure = PurePosixPath(path)
    ending = f"/{pure.name}"
    shared = any(known.endswith(ending) or known == pure.name for known in list(index.files) if known != path)
    return key_of(pure.stem, path, names.slug(heading), {pure.stem} if shared else set())


def _must_be_found(writer: WriteRequest, path: str, more: int) -> None:
    """Refuse to write what no question would ever find."""
    workspace = writer.index.workspace
    if not is_memory_path(workspace, path):
        globs = ", ".join(workspace.globs)
        raise Refused(
            f"{path} would not be among the files of {workspace.ns}, which are {globs}",
            "take it in with a further glob in the config file, then: memd restart",
        )
    known, most = writer.index.files.get(path), writer.ctx.parts.worker.max_bytes
    if more + (known.size if known else 0) > most:
        raise Refused(
            f"{path} would be larger than index.max_file_kb = {most // 1024:,} and no longer be indexed",
            "move a part of it to another file, or raise the limit",
        )


def _tags(params: Params) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.lstrip("#") for tag in params.texts("tags")))
    for tag in tags:
        if not TAG.fullmatch(tag) or "--" in tag:
            raise UsageError(f"{tag!r} cannot be a tag", "a tag is one word: project:ghost")
    return tags


# --- reading ------------------------------------------------------------------------------------------------


async def read_role(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    role, index = params.text("role") or SHARED, only_index(ctx, params)
    params.done()
    path = _role_path(index, role)
    found = await ctx.read(_reading, index, path, ctx.parts.worker.max_bytes)
    if found is None:
        raise NotFound(f"no file of notes has the role {role} ({path})", _near(index, role))
    return {**_place(index), "role": role, "path": path, "text": found.text}


async def recent(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    role, now = params.required("role"), params.moment("now")
    days, budget = params.number("days", 7, 1, MOST_DAYS), params.number("budget", BUDGET, 1, MOST_TOKENS)
    index = only_index(ctx, params)
    params.done()
    roles = tuple(dict.fromkeys((SHARED, role)))
    paths = [_role_path(index, one) for one in roles]
    first = f"{now - timedelta(days=days):%Y-%m-%d}"
    found = entries.newest(await ctx.read(_entries, index, paths, ctx.parts.worker.max_bytes), first)
    kept = entries.within(found, budget)
    left_out = len(found) - len(kept)
    return {
        **_place(index),
        "role": role,
        "entries": [
            {name: getattr(entry, name) for name in ("role", "path", "start_line", "end_line", "title", "time", "text")}
            for entry in kept
        ],
        "left_out": left_out,
        "tokens": sum(entry.tokens for entry in kept),
        "text": entries.told(kept, roles, left_out, budget),
    }


def _place(index: WorkspaceIndex) -> Result:
    return {"ns": index.workspace.ns, "root": str(index.workspace.root)}


def _role_path(index: WorkspaceIndex, role: str) -> str:
    """Where a role's notes are, or will be: the file that has its name already, if only one has."""
    if not ROLE.fullmatch(role) or len(role) > LONGEST_ROLE or names.DATE.search(role) or role.endswith((".", " ")):
        raise UsageError(f"{role!r} cannot be a role", "letters, digits and dashes, as in the name of a file")
    files = list(index.files)
    path = layout_of(files).role(role)
    ending = f"/{role}.md"
    named = [known for known in files if known.endswith(ending) and names.role_of(known) == role]
    return named[0] if path not in named and len(named) == 1 else path


def _near(index: WorkspaceIndex, role: str) -> str:
    known = sorted({names.role_of(path) for path in list(index.files)} - {"daily", "memory", "topic"})
    near = difflib.get_close_matches(role, known, n=3, cutoff=0.4) or known[:5]
    return f"there are: {', '.join(near)}" if near else f'begin one: memd write TITLE "…" --role {role}'


def _entries(index: WorkspaceIndex, paths: list[str], max_bytes: int) -> list[entries.RoleEntry]:
    found = [(path, _reading(index, path, max_bytes)) for path in paths]
    return [entry for path, one in found if one is not None for entry in entries.entries_of(path, one.text, one.day)]


def _reading(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent | None:
    why = refusal(index.workspace, path)
    try:
        if why:
            raise SkippedFile(why)
        return read(index.workspace.root / path, max_bytes)
    except FileNotFoundError:
        return None
    except (SkippedFile, UnreadableFile) as error:
        raise NotFound(f"{path} cannot be read: {error}", "memd status") from error
