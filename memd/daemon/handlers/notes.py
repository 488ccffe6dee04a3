"""Writing down what happened and what is worth knowing: `note`, `save`, `write`, `read` and `recent`; and the knowledge
store: topics that are memorized, refined, recalled and forgotten, and the index that lists them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, did_you_mean, workspace_writer
from memd.errors import AlreadyExists, Conflict, DiskFull, MemdError, NotFound, UsageError, in_shell
from memd.indexer.indexing.scan import refusal
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views import keys, topics as topic_views
from memd.indexer.writing.write_files import FileChange
from memd.notes import metadata, names, read, sections, topics
from memd.prose import composed
from memd.protocol.methods import notes as methods

TAG = re.compile(r"[^\s,\"'<>#]+")
ROLE = re.compile(r"[\w][\w .:+-]*")
LONGEST_ROLE = 100


# --- writing ------------------------------------------------------------------------------------------------------


@handles(methods.NoteRequest)
async def note(ctx: HandlerContext, request: methods.NoteRequest, call: IncomingCall) -> Result:
    return await _add_section(workspace_writer(ctx, request), "note", request)


@handles(methods.SaveRequest)
async def save(ctx: HandlerContext, request: methods.SaveRequest, call: IncomingCall) -> Result:
    daily = request.target == "daily"
    done = await _add_section(workspace_writer(ctx, request), "save", request, daily)
    where = "daily log" if daily else "long-term memory"
    return {**done, "target": request.target, "saved": f"Saved to {where} ({PurePosixPath(done['path']).name})"}


@handles(methods.WriteRequest)
async def write(ctx: HandlerContext, request: methods.WriteRequest, call: IncomingCall) -> Result:
    writer, now = workspace_writer(ctx, request), request.local_time()
    path = _role_path(writer.index, sections.SHARED if request.shared else request.role)
    entry = sections.new_entry(request.section, request.text, stamp=f"{now:%Y-%m-%d %H:%M}")
    return await _add(writer, "write", path, request.section, FileChange(path, entry), request.text)


async def _add_section(writer: WorkspaceWriter, what: str, request: methods.NewSection, daily: bool = True) -> Result:
    """A section of the day's note or of the long-term memory, which is made where there is none."""
    now, tags, text = request.local_time(), _tags(request), request.text
    title, body = (request.title, text) if request.title.strip() else sections.split_title(text)
    day, layout = f"{now:%Y-%m-%d}", writer.layout
    if daily:
        heading, path, head = f"{now:%H:%M} {title}", layout.daily_note(day), sections.daily_head(day)
    else:
        heading, path, head = title or f"{day} {now:%H:%M}", layout.long_term, "# Memory\n"
    entry = sections.new_entry(heading, body, tags)
    # A place that must not be written to is refused when it is written.
    known = not daily and not refusal(writer.index.workspace, path)
    before = await writer.ctx.read(_content, writer.index, path, writer.ctx.max_bytes) if known else None
    edit = None
    if before is not None and topics.list_start(before.text) is not None:
        # Where the long-term memory ends with a list of topics, before it.
        edit = sections.in_bytes(lambda current: topics.with_entry_before_list(current or "", entry))
    return await _add(writer, what, path, heading, FileChange(path, entry, head, edit), text)


async def _add(writer: WorkspaceWriter, what: str, path: str, heading: str, change: FileChange, text: str) -> Result:
    """Add a section, if its text may be written and will be found."""
    if not set(f"{heading}{text}".encode()).isdisjoint(read.CONTROL):
        raise UsageError("the text has control characters, as binary data has", "write it down in words")
    writer.refuse_secrets(f"{text}\n{heading}")
    known = writer.index.files.get(path)
    writer.refuse_unindexed(path, len(change.append.encode()) + (known.size if known else 0))
    done = await writer.write(what, _key(writer.index, path, heading), change)
    return {**done, "path": done["paths"][0]}


def _key(index: WorkspaceIndex, path: str, heading: str) -> str:
    """The key that the section will have, if it is the first of this name."""
    pure = PurePosixPath(path)
    ending = f"/{pure.name}"
    shared = any(known.endswith(ending) or known == pure.name for known in index.files if known != path)
    return lookup.key_of(pure.stem, path, names.slug(heading), {pure.stem} if shared else set())


def _tags(request: methods.NewSection) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.lstrip("#") for tag in request.tags))
    for tag in tags:
        if not TAG.fullmatch(tag) or "--" in tag:
            raise UsageError(f"{tag!r} cannot be a tag", "a tag is one word: project:ghost")
    return tags


# --- reading ------------------------------------------------------------------------------------------------------


@handles(methods.ReadRequest)
async def read_role(ctx: HandlerContext, request: methods.ReadRequest, call: IncomingCall) -> Result:
    role, index = request.role or sections.SHARED, ctx.only_index(request)
    path = _role_path(index, role)
    if (found := await ctx.read(_content, index, path, ctx.max_bytes)) is None:
        raise NotFound(f"no file of notes has the role {role} ({path})", _role_hint(index, role))
    await ctx.catch_up()
    authors = await ctx.read(lambda: history.authors_at(ctx.stores.reader, index.id, path))
    return {**index.place, "role": role, "path": path, "text": found.text, **authors}


@handles(methods.RecentRequest)
async def recent(ctx: HandlerContext, request: methods.RecentRequest, call: IncomingCall) -> Result:
    index, budget = ctx.only_index(request), request.budget
    roles = tuple(dict.fromkeys((sections.SHARED, request.role))) if request.role else ()
    first = f"{request.local_time() - timedelta(days=request.days):%Y-%m-%d}"
    await ctx.catch_up()
    paths = [_role_path(index, role) for role in roles] or _changed_since(index, first)
    newest = sections.newest_first(await ctx.read(_entries, ctx, index, paths), first)
    kept = sections.within_budget(newest, budget)
    left_out = len(newest) - len(kept)
    kept = await ctx.read(lambda: [_with_authors(ctx.stores, index, entry) for entry in kept])
    text = sections.render(kept, roles or tuple(dict.fromkeys(entry.role for entry in kept)), left_out, budget)
    entries, tokens = [_row(entry) for entry in kept], sum(entry.tokens for entry in kept)
    found = {"entries": entries, "left_out": left_out, "tokens": tokens, "text": text}
    return {**index.place, "role": request.role, **found}


def _changed_since(index: WorkspaceIndex, first: str) -> list[str]:
    """The daily notes from a day on, and the files of roles that were changed since."""
    found = []
    for path, row in index.files.items():
        day = names.date_of(path) or f"{datetime.fromtimestamp(row.mtime_ns / 1e9):%Y-%m-%d}"
        if names.role_of(path) not in ("memory", "topic") and day >= first:
            found.append(path)
    return sorted(found)


def _with_authors(stores: Stores, index: WorkspaceIndex, entry: sections.RoleEntry) -> sections.RoleEntry:
    authors = history.authors_at(stores.reader, index.id, entry.path, entry.start_line, entry.end_line)
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
    named = [known for known in files if composed(known).endswith(ending) and names.role_of(known) == role]
    return named[0] if path not in named and len(named) == 1 else path


def _role_hint(index: WorkspaceIndex, role: str) -> str:
    known = sorted({names.role_of(path) for path in index.files} - {"daily", "memory", "topic"})
    some = f"there are: {', '.join(known[:5])}" if known else f'begin one: memd write TITLE "…" --role {in_shell(role)}'
    return did_you_mean(role, known, some)


def _entries(ctx: HandlerContext, index: WorkspaceIndex, paths: list[str]) -> list[sections.RoleEntry]:
    ended = keys.ended(ctx.stores, index)
    files = [(path, file) for path in paths if (file := _content(index, path, ctx.max_bytes))]
    found = [sections.role_entries(path, file.text, file.day, ended.get(path, ())) for path, file in files]
    return [entry for entries in found for entry in entries]


def _content(index: WorkspaceIndex, path: str, max_bytes: int) -> read.FileContent | None:
    """A file as it is now; None when there is none."""
    if why := refusal(index.workspace, path):
        raise NotFound(f"{path} cannot be read: {why}", "memd status")
    return keys.content_now(index, path, max_bytes)


# --- topics: writing ------------------------------------------------------------------------------------------------


@handles(methods.TopicMemorizeRequest)
async def memorize(ctx: HandlerContext, request: methods.TopicMemorizeRequest, call: IncomingCall) -> Result:
    writer, title, tags = workspace_writer(ctx, request), request.title.strip(), topics.clean_tags(request.tags)
    summary, name = topics.clean_summary(request.summary), topics.new_topic_name(request.topic, writer.layout.index)
    writer.refuse_secrets(request.content, title, summary)
    facts = {"title": title or name, "tags": tags, "summary": summary, "last_updated": _stamp(request)}
    file = topics.topic_file(facts, request.content.replace("\r\n", "\n"))
    path = (await ctx.read(topic_views.paths, writer.index)).get(name) or writer.layout.topic(name)
    writer.refuse_unindexed(path, len(file.encode()))

    def create(text: str | None) -> str:
        if text is not None:
            raise AlreadyExists(
                f"there is a topic `{name}` already ({path})", f"change it: memd topic refine {in_shell(name)}"
            )
        return file

    listing = _change_index(writer, lambda text: topics.with_entry(text, name, summary))
    done = await writer.write("topic.memorize", name, FileChange(path, edit=sections.in_bytes(create)), listing)
    return {**done, "topic": name, "path": path}


@handles(methods.TopicRefineRequest)
async def refine(ctx: HandlerContext, request: methods.TopicRefineRequest, call: IncomingCall) -> Result:
    writer, now, refinement = workspace_writer(ctx, request), _stamp(request), _refinement(request)
    if not refinement:
        raise UsageError("there is nothing to refine", "give tags to add or remove, a title, a summary or a content")
    name = topics.topic_name(request.topic)
    writer.refuse_secrets(refinement.content, refinement.title, refinement.summary)
    known = await ctx.read(topic_views.paths, writer.index)
    path, summary = known.get(name, ""), refinement.summary or name

    def edit(text: str | None) -> str:
        nonlocal summary
        if text is None:
            raise _unknown(writer.index, name, known)
        edited = topics.refined(text, refinement, now)
        facts = metadata.read_front_matter(edited)[0]
        summary = refinement.summary or facts.summary or facts.title or name
        return edited

    def edit_index(text: str) -> str:
        if not path:
            raise _unknown(writer.index, name, known, text)
        if not refinement.summary and topics.read_index(text).of(name):
            return text
        return topics.with_entry(text, name, summary)

    changes = [FileChange(path, edit=sections.in_bytes(edit))] if path else []
    done = await writer.write("topic.refine", name, *changes, _change_index(writer, edit_index))
    return {**done, "topic": name, "path": path}


@handles(methods.TopicForgetRequest)
async def forget(ctx: HandlerContext, request: methods.TopicForgetRequest, call: IncomingCall) -> Result:
    writer, name = workspace_writer(ctx, request), topics.topic_name(request.topic)
    known = await ctx.read(topic_views.paths, writer.index)
    path = known.get(name, "")

    def edit_index(text: str) -> str:
        if not path and not topics.read_index(text).of(name):
            raise _unknown(writer.index, name, known)
        return topics.without_entry(text, name)

    listing, kept = _change_index(writer, edit_index), ""
    deletion = [FileChange(path, edit=lambda data: None)] if path else []
    try:
        done = await writer.write("topic.forget", name, *deletion, listing)
    except (Conflict, DiskFull, NotFound):
        raise
    except MemdError as error:
        # The file cannot be deleted; that it is no longer listed is promised all the same.
        done, kept = await writer.write("topic.forget", name, listing), error.message
    return {**done, "topic": name, "path": path, "deleted": len(done["paths"]) > 1, "kept": kept}


@handles(methods.TopicSetGeneralRequest)
async def set_general(ctx: HandlerContext, request: methods.TopicSetGeneralRequest, call: IncomingCall) -> Result:
    writer, content = workspace_writer(ctx, request), request.content
    topics.check_general(content)
    writer.refuse_secrets(content)
    path = writer.layout.index
    change = _change_index(writer, lambda text: topics.with_general(text, content))
    return {**await writer.write("topic.set_general", _general_key(path), change), "path": path}


def _general_key(path: str) -> str:
    """The key of the general knowledge, by the file that lists the topics."""
    stem = PurePosixPath(path).stem
    return stem if names.is_topic(path) else f"{stem}#{names.slug(topics.GENERAL)}"


def _change_index(writer: WorkspaceWriter, edit: Callable[[str], str]) -> FileChange:
    """A change of the file that lists the topics; it is made when there is something to list."""
    path = writer.layout.index
    head = "# Memory\n" if names.is_long_term(path) else "# Project Knowledge\n"

    def change(text: str | None) -> str | None:
        edited = edit(head if text is None else text)
        return None if text is None and edited == head else edited

    return FileChange(path, edit=sections.in_bytes(change))


def _refinement(request: methods.TopicRefineRequest) -> topics.Refinement:
    add, remove = topics.clean_tags(request.add_tags), topics.clean_tags(request.remove_tags)
    content = request.content if request.content.strip() else ""
    return topics.Refinement(add, remove, request.title.strip(), topics.clean_summary(request.summary), content)


def _stamp(request: methods.TopicMemorizeRequest | methods.TopicRefineRequest) -> str:
    return request.local_time().isoformat(timespec="minutes")


def _unknown(index: WorkspaceIndex, name: str, known: Iterable[str], listing: str = "") -> NotFound:
    """The error for a topic without a file; `listing` is the file that lists the topics."""
    if listing and topics.read_index(listing).of(name):
        hint = f"the index lists it; to take it from there: memd topic forget {in_shell(name)}"
        return NotFound(f"the topic `{name}` has no file", hint)
    hint = did_you_mean(name, known, "what there is: memd topic list")
    return NotFound(f"no topic of {index.workspace.ns} is called `{name}`", hint)


# --- topics: reading ------------------------------------------------------------------------------------------------


@handles(methods.TopicRecallRequest)
async def recall(ctx: HandlerContext, request: methods.TopicRecallRequest, call: IncomingCall) -> Result:
    await ctx.catch_up()
    return await ctx.read(_recall, ctx.stores, ctx.indexes(request), topics.topic_name(request.topic), ctx.max_bytes)


def _recall(stores: Stores, indexes: Indexes, name: str, max_bytes: int) -> Result:
    having = [(index, path) for index in indexes if (path := topic_views.paths(index).get(name))]
    if len(having) > 1:
        there = ", ".join(index.workspace.ns for index, _ in having)
        raise UsageError(f"several workspaces have the topic `{name}` ({there})", "name one: -n NS")
    index, path = having[0] if having else (indexes[0], "")
    topic = topic_views.topic(index, name, path, max_bytes) if path else None
    if topic is None:
        raise _unknown(index, name, topic_views.paths(index), topic_views.index_text(index, max_bytes))
    for row in lookup.memories(stores.reader, index.id, path):
        keys.refuse_deleted(row, name)
    return {**index.place, "path": path, "topic": name, "title": topic.title, "tags": list(topic.tags),
            "summary": topic.summary, "last_updated": topic.last_updated, "content": topic.content,
            "markdown": topic.markdown(), **history.authors_at(stores.reader, index.id, path)}  # fmt: skip


@handles(methods.TopicGeneralRequest)
async def general(ctx: HandlerContext, request: methods.TopicGeneralRequest, call: IncomingCall) -> Result:
    index = ctx.only_index(request)
    text = await ctx.read(topic_views.index_text, index, ctx.max_bytes)
    entries = [{"topic": entry.topic, "summary": entry.summary} for entry in topics.read_index(text).entries]
    path = topic_views.layout(index).index
    await ctx.catch_up()
    authors = await ctx.read(_authors, ctx.stores, index, _general_key(path))
    whole = text if names.is_topic(path) else topics.index_of(text)
    parts = {"content": topics.general_of(text), "topics": entries, "index": whole}
    return {**index.place, "path": path, **parts, **authors}


def _authors(stores: Stores, index: WorkspaceIndex, key: str) -> Result:
    """Who wrote some of a memory, where that was not only a person."""
    rows = [(row["id"], Result()) for row in lookup.memories(stores.reader, index.id, key)]
    return next(iter(history.with_authors(stores.reader, rows)), {})


@handles(methods.TopicSearchRequest)
async def search(ctx: HandlerContext, request: methods.TopicSearchRequest, call: IncomingCall) -> Result:
    tags = {tag.casefold() for tag in topics.clean_tags(request.tags)}
    rows = await ctx.read(_with_tags, ctx, ctx.indexes(request), tags, request.match == "all")
    return {"topics": rows, "text": _joined(rows) or "No topics found"}


def _with_tags(ctx: HandlerContext, indexes: Indexes, tags: set[str], every: bool) -> list[Result]:
    """The topics that have one of the tags, or every one; those that have more of them come first."""
    rows = []
    for index in indexes:
        known = topic_views.shown(ctx.stores, index, topic_views.paths(index))
        for name, own in topic_views.tags(ctx.stores, index, known, ctx.max_bytes).items():
            matched = [tag for tag in own if tag.casefold() in tags]
            if matched and (len(matched) == len(tags) or not every):
                rows.append({"ns": index.workspace.ns, "topic": name, "path": known[name], "tags": list(own),
                             "matched": matched})  # fmt: skip
    return sorted(rows, key=lambda row: -len(row["matched"]))


@handles(methods.TopicListRequest)
async def topic_list(ctx: HandlerContext, request: methods.TopicListRequest, call: IncomingCall) -> Result:
    await ctx.catch_up()
    rows, missing = await ctx.read(_list, ctx.stores, ctx.indexes(request), ctx.max_bytes)
    return {"topics": rows, "missing": missing, "text": _joined(rows)}


def _list(stores: Stores, indexes: Indexes, max_bytes: int) -> tuple[list[Result], list[Result]]:
    """Every topic that has a file and is in answers, and those that the index lists without a file."""
    rows, missing = [], []
    for index in indexes:
        ns, known = index.workspace.ns, topic_views.paths(index)
        entries = topics.read_index(topic_views.index_text(index, max_bytes)).entries
        summaries = {entry.topic: entry.summary for entry in entries}
        rows += [{"ns": ns, "topic": name, "path": path, "summary": summaries.get(name, ""),
                  "listed": name in summaries} for name, path in topic_views.shown(stores, index, known).items()
                 ]  # fmt: skip
        missing += [{"ns": ns, "topic": name, "summary": summary} for name, summary in summaries.items()
                    if name not in known]  # fmt: skip
    return rows, missing


def _joined(rows: list[Result]) -> str:
    return ", ".join(dict.fromkeys(row["topic"] for row in rows))
