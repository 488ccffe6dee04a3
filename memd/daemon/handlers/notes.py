"""Writing down what happened and what is worth knowing: `note`, `save`, `write`, `read` and `recent`."""

import re
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, did_you_mean, workspace_writer
from memd.errors import NotFound, UsageError
from memd.indexer.indexing.scan import refusal
from memd.indexer.query.lookup import key_of
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views.keys import content_now
from memd.indexer.writing.write_files import FileChange
from memd.notes import names, read, sections, topics
from memd.protocol.methods.notes import NewSection, NoteRequest, ReadRequest, RecentRequest, SaveRequest, WriteRequest

TAG = re.compile(r"[^\s,\"'<>#]+")
ROLE = re.compile(r"[\w][\w .:+-]*")
LONGEST_ROLE = 100


# --- writing ------------------------------------------------------------------------------------------------------


@handles(NoteRequest)
async def note(ctx: HandlerContext, request: NoteRequest, call: IncomingCall) -> Result:
    return await _add_section(workspace_writer(ctx, request), "note", request)


@handles(SaveRequest)
async def save(ctx: HandlerContext, request: SaveRequest, call: IncomingCall) -> Result:
    daily = request.target == "daily"
    done = await _add_section(workspace_writer(ctx, request), "save", request, daily)
    where = "daily log" if daily else "long-term memory"
    return {**done, "target": request.target, "saved": f"Saved to {where} ({PurePosixPath(done['path']).name})"}


@handles(WriteRequest)
async def write(ctx: HandlerContext, request: WriteRequest, call: IncomingCall) -> Result:
    writer, now = workspace_writer(ctx, request), request.local_time()
    path = _role_path(writer.index, sections.SHARED if request.shared else request.role)
    entry = sections.new_entry(request.section, request.text, stamp=f"{now:%Y-%m-%d %H:%M}")
    return await _add(writer, "write", path, request.section, FileChange(path, entry), request.text)


async def _add_section(writer: WorkspaceWriter, what: str, request: NewSection, daily: bool = True) -> Result:
    """A section of the day's note or of the long-term memory, which is made where there is none."""
    now, tags, text = request.local_time(), _tags(request), request.text
    title, body = (request.title, text) if request.title else sections.split_title(text)
    day, layout = f"{now:%Y-%m-%d}", writer.layout
    if daily:
        heading, path, head = f"{now:%H:%M} {title}", layout.daily_note(day), sections.daily_head(day)
    else:
        heading, path, head = title or f"{day} {now:%H:%M}", layout.long_term, "# Memory\n"
    entry = sections.new_entry(heading, body, tags)
    # A place that must not be written to is refused when it is written.
    known = not daily and not refusal(writer.index.workspace, path)
    before = await writer.ctx.read(_content, writer.index, path, writer.ctx.max_bytes) if known else None
    if before is None or topics.list_start(before.text) is None:
        return await _add(writer, what, path, heading, FileChange(path, entry, head), text)
    # Where the long-term memory ends with a list of topics, before it.
    edit = sections.in_bytes(lambda current: topics.with_entry_before_list(current or "", entry))
    return await _add(writer, what, path, heading, FileChange(path, edit=edit), text, before.text)


async def _add(
    writer: WorkspaceWriter, what: str, path: str, heading: str, change: FileChange, text: str, before: str = ""
) -> Result:
    """Add a section, if its text may be written and will be found."""
    if not set(f"{heading}{text}".encode()).isdisjoint(read.CONTROL):
        raise UsageError("the text has control characters, as binary data has", "write it down in words")
    writer.refuse_secrets(f"{text}\n{heading}")
    known = writer.index.files.get(path)
    more = len(change.append.encode()) or len(text.encode())
    writer.refuse_unindexed(path, more + (known.size if known else 0))
    key = sections.unique_key(_key(writer.index, path, heading), before[: topics.list_start(before)] if before else "")
    done = await writer.write(what, key, change)
    return {**done, "path": done["paths"][0]}


def _key(index: WorkspaceIndex, path: str, heading: str) -> str:
    """The key that the section will have, if it is the first of this name."""
    pure = PurePosixPath(path)
    ending = f"/{pure.name}"
    shared = any(known.endswith(ending) or known == pure.name for known in index.files if known != path)
    return key_of(pure.stem, path, names.slug(heading), {pure.stem} if shared else set())


def _tags(request: NewSection) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.lstrip("#") for tag in request.tags))
    for tag in tags:
        if not TAG.fullmatch(tag) or "--" in tag:
            raise UsageError(f"{tag!r} cannot be a tag", "a tag is one word: project:ghost")
    return tags


# --- reading ------------------------------------------------------------------------------------------------------


@handles(ReadRequest)
async def read_role(ctx: HandlerContext, request: ReadRequest, call: IncomingCall) -> Result:
    role, index = request.role or sections.SHARED, ctx.only_index(request)
    path = _role_path(index, role)
    if (found := await ctx.read(_content, index, path, ctx.max_bytes)) is None:
        raise NotFound(f"no file of notes has the role {role} ({path})", _role_hint(index, role))
    await ctx.catch_up()
    authors = await ctx.read(lambda: history.authors_at(ctx.stores.ledger.reader, index.id, path))
    return {**index.place, "role": role, "path": path, "text": found.text, **authors}


@handles(RecentRequest)
async def recent(ctx: HandlerContext, request: RecentRequest, call: IncomingCall) -> Result:
    index, budget = ctx.only_index(request), request.budget
    roles = tuple(dict.fromkeys((sections.SHARED, request.role))) if request.role else ()
    first = f"{request.local_time() - timedelta(days=request.days):%Y-%m-%d}"
    await ctx.catch_up()
    paths = [_role_path(index, role) for role in roles] or _changed_since(index, first)
    newest = sections.newest_first(await ctx.read(_entries, index, paths, ctx.max_bytes), first)
    kept = sections.within_budget(newest, budget)
    left_out = len(newest) - len(kept)
    kept = await ctx.read(lambda: [_with_authors(ctx.stores, index, entry) for entry in kept])
    return {
        **index.place,
        "role": request.role,
        "entries": [_row(entry) for entry in kept],
        "left_out": left_out,
        "tokens": sum(entry.tokens for entry in kept),
        "text": sections.render(kept, roles or tuple(dict.fromkeys(entry.role for entry in kept)), left_out, budget),
    }


def _changed_since(index: WorkspaceIndex, first: str) -> list[str]:
    """The daily notes from a day on, and the files of roles that were changed since."""
    found = []
    for path, row in index.files.items():
        day = names.date_of(path) or f"{datetime.fromtimestamp(row.mtime_ns / 1e9):%Y-%m-%d}"
        if names.role_of(path) not in ("memory", "topic") and day >= first:
            found.append(path)
    return sorted(found)


def _with_authors(stores: Stores, index: WorkspaceIndex, entry: sections.RoleEntry) -> sections.RoleEntry:
    authors = history.authors_at(stores.ledger.reader, index.id, entry.path, entry.start_line, entry.end_line)
    return replace(entry, **authors)


def _row(entry: sections.RoleEntry) -> Result:
    return {name: value for name, value in asdict(entry).items() if name != "written_by" or value}


def _role_path(index: WorkspaceIndex, role: str) -> str:
    """Where a role's notes are, or will be: the file that has its name already, if only one has."""
    if not ROLE.fullmatch(role) or len(role) > LONGEST_ROLE or names.DATE.search(role) or role.endswith((".", " ")):
        raise UsageError(f"{role!r} cannot be a role", "letters, digits and dashes, as in the name of a file")
    files = index.files
    path = names.layout_of(files).role(role)
    ending = f"/{role}.md"
    named = [known for known in files if known.endswith(ending) and names.role_of(known) == role]
    return named[0] if path not in named and len(named) == 1 else path


def _role_hint(index: WorkspaceIndex, role: str) -> str:
    known = sorted({names.role_of(path) for path in index.files} - {"daily", "memory", "topic"})
    some = f"there are: {', '.join(known[:5])}" if known else f'begin one: memd write TITLE "…" --role {role}'
    return did_you_mean(role, known, some)


def _entries(index: WorkspaceIndex, paths: list[str], max_bytes: int) -> list[sections.RoleEntry]:
    files = [(path, _content(index, path, max_bytes)) for path in paths]
    return [entry for path, file in files if file for entry in sections.role_entries(path, file.text, file.day)]


def _content(index: WorkspaceIndex, path: str, max_bytes: int) -> read.FileContent | None:
    """A file as it is now; None when there is none."""
    if why := refusal(index.workspace, path):
        raise NotFound(f"{path} cannot be read: {why}", "memd status")
    return content_now(index, path, max_bytes)
