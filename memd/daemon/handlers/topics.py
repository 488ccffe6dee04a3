"""The knowledge store: topics that are memorized, refined, recalled and forgotten, and the index that lists them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, did_you_mean, workspace_writer
from memd.errors import AlreadyExists, Conflict, DiskFull, MemdError, NotFound, UsageError
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import topics
from memd.indexer.writing.write_files import FileChange
from memd.notes import metadata, names, sections
from memd.notes import topics as notes
from memd.protocol.methods import notes as methods

NONE = "No topics found"


# --- writing ------------------------------------------------------------------------------------------------


@handles(methods.TopicMemorizeRequest)
async def memorize(ctx: HandlerContext, request: methods.TopicMemorizeRequest, call: IncomingCall) -> Result:
    writer, title, tags = workspace_writer(ctx, request), request.title.strip(), notes.clean_tags(request.tags)
    summary, name = notes.clean_summary(request.summary), notes.new_topic_name(request.topic, writer.layout.index)
    writer.refuse_secrets(request.content, title, summary)
    facts = {"title": title or name, "tags": tags, "summary": summary, "last_updated": _stamp(request)}
    file = notes.topic_file(facts, request.content.replace("\r\n", "\n"))
    path = (await ctx.read(topics.paths, writer.index)).get(name) or writer.layout.topic(name)
    writer.refuse_unindexed(path, len(file.encode()))

    def create(text: str | None) -> str:
        if text is not None:
            raise AlreadyExists(f"there is a topic `{name}` already ({path})", f"change it: memd topic refine {name}")
        return file

    listing = _change_index(writer, lambda text: notes.with_entry(text, name, summary))
    done = await writer.write("topic.memorize", name, FileChange(path, edit=sections.in_bytes(create)), listing)
    return {**done, "topic": name, "path": path}


@handles(methods.TopicRefineRequest)
async def refine(ctx: HandlerContext, request: methods.TopicRefineRequest, call: IncomingCall) -> Result:
    writer, now, refinement = workspace_writer(ctx, request), _stamp(request), _refinement(request)
    if not refinement:
        raise UsageError("there is nothing to refine", "give tags to add or remove, a title, a summary or a content")
    name = notes.topic_name(request.topic)
    writer.refuse_secrets(refinement.content or "", refinement.title or "", refinement.summary or "")
    known = await ctx.read(topics.paths, writer.index)
    path, summary = known.get(name, ""), refinement.summary or name

    def edit(text: str | None) -> str:
        nonlocal summary
        if text is None:
            raise _unknown(writer.index, name, known)
        edited = notes.refined(text, refinement, now)
        facts = metadata.read_front_matter(edited)[0]
        summary = refinement.summary or facts.summary or facts.title or name
        return edited

    def edit_index(text: str) -> str:
        if not path:
            raise _unknown(writer.index, name, known, text)
        if refinement.summary is None and notes.read_index(text).of(name):
            return text
        return notes.with_entry(text, name, summary)

    changes = [FileChange(path, edit=sections.in_bytes(edit))] if path else []
    done = await writer.write("topic.refine", name, *changes, _change_index(writer, edit_index))
    return {**done, "topic": name, "path": path}


@handles(methods.TopicForgetRequest)
async def forget(ctx: HandlerContext, request: methods.TopicForgetRequest, call: IncomingCall) -> Result:
    writer, name = workspace_writer(ctx, request), notes.topic_name(request.topic)
    known = await ctx.read(topics.paths, writer.index)
    path = known.get(name, "")

    def edit_index(text: str) -> str:
        if not path and not notes.read_index(text).of(name):
            raise _unknown(writer.index, name, known)
        return notes.without_entry(text, name)

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
    notes.check_general(content)
    writer.refuse_secrets(content)
    path = writer.layout.index
    change = _change_index(writer, lambda text: notes.with_general(text, content))
    return {**await writer.write("topic.set_general", _general_key(path), change), "path": path}


def _general_key(path: str) -> str:
    """The key of the general knowledge, by the file that lists the topics."""
    stem = PurePosixPath(path).stem
    return stem if names.is_topic(path) else f"{stem}#{names.slug(notes.GENERAL)}"


def _change_index(writer: WorkspaceWriter, edit: Callable[[str], str]) -> FileChange:
    """A change of the file that lists the topics; it is made when there is something to list."""
    path = writer.layout.index
    head = "# Memory\n" if names.is_long_term(path) else "# Project Knowledge\n"

    def change(text: str | None) -> str | None:
        edited = edit(head if text is None else text)
        return None if text is None and edited == head else edited

    return FileChange(path, edit=sections.in_bytes(change))


def _refinement(request: methods.TopicRefineRequest) -> notes.Refinement:
    summary = request.summary.strip()
    return notes.Refinement(
        add=notes.clean_tags(request.add_tags),
        remove=notes.clean_tags(request.remove_tags),
        title=request.title.strip() or None,
        summary=notes.clean_summary(summary) if summary else None,
        content=request.content if request.content.strip() else None,
    )


def _stamp(request: methods.TopicMemorizeRequest | methods.TopicRefineRequest) -> str:
    return request.local_time().isoformat(timespec="minutes")


def _unknown(index: WorkspaceIndex, name: str, known: Iterable[str], listing: str = "") -> NotFound:
    """The error for a topic without a file; `listing` is the file that lists the topics."""
    if listing and notes.read_index(listing).of(name):
        hint = f"the index lists it; to take it from there: memd topic forget {name}"
        return NotFound(f"the topic `{name}` has no file", hint)
    hint = did_you_mean(name, known, "what there is: memd topic list")
    return NotFound(f"no topic of {index.workspace.ns} is called `{name}`", hint)


# --- reading ------------------------------------------------------------------------------------------------


@handles(methods.TopicRecallRequest)
async def recall(ctx: HandlerContext, request: methods.TopicRecallRequest, call: IncomingCall) -> Result:
    await ctx.catch_up()
    return await ctx.read(_recall, ctx.stores, ctx.indexes(request), notes.topic_name(request.topic), ctx.max_bytes)


def _recall(stores: Stores, indexes: Sequence[WorkspaceIndex], name: str, max_bytes: int) -> Result:
    having = [(index, path) for index in indexes if (path := topics.paths(index).get(name))]
    if len(having) > 1:
        there = ", ".join(index.workspace.ns for index, _ in having)
        raise UsageError(f"several workspaces have the topic `{name}` ({there})", "name one: -n NS")
    index, path = having[0] if having else (indexes[0], "")
    topic = topics.topic(index, name, path, max_bytes) if path else None
    if topic is None:
        raise _unknown(index, name, topics.paths(index), topics.index_text(index, max_bytes))
    return {**index.place, "path": path, "topic": name, "title": topic.title, "tags": list(topic.tags),
            "summary": topic.summary, "last_updated": topic.last_updated, "content": topic.content,
            "markdown": topic.markdown(), **history.authors_at(stores.ledger.reader, index.id, path)}  # fmt: skip


@handles(methods.TopicGeneralRequest)
async def general(ctx: HandlerContext, request: methods.TopicGeneralRequest, call: IncomingCall) -> Result:
    index = ctx.only_index(request)
    text = await ctx.read(topics.index_text, index, ctx.max_bytes)
    entries = [{"topic": entry.topic, "summary": entry.summary} for entry in notes.read_index(text).entries]
    path = topics.layout(index).index
    await ctx.catch_up()
    authors = await ctx.read(_authors, ctx.stores, index, _general_key(path))
    whole = text if names.is_topic(path) else notes.index_of(text)
    parts = {"content": notes.general_of(text), "topics": entries, "index": whole}
    return {**index.place, "path": path, **parts, **authors}


def _authors(stores: Stores, index: WorkspaceIndex, key: str) -> Result:
    """Who wrote some of a memory, where that was not only a person."""
    rows = [(row["id"], Result()) for row in lookup.memories(stores.ledger.reader, index.id, key)]
    return next(iter(history.with_authors(stores.ledger.reader, rows)), {})


@handles(methods.TopicSearchRequest)
async def search(ctx: HandlerContext, request: methods.TopicSearchRequest, call: IncomingCall) -> Result:
    tags = {tag.casefold() for tag in notes.clean_tags(request.tags)}
    rows = await ctx.read(_with_tags, ctx, ctx.indexes(request), tags, request.match == "all")
    return {"topics": rows, "text": _joined(rows) or NONE}


def _with_tags(ctx: HandlerContext, indexes: Sequence[WorkspaceIndex], tags: set[str], every: bool) -> list[Result]:
    """The topics that have one of the tags, or every one; those that have more of them come first."""
    rows = []
    for index in indexes:
        known = topics.paths(index)
        for name, own in topics.tags(ctx.stores, index, known, ctx.max_bytes).items():
            matched = [tag for tag in own if tag.casefold() in tags]
            if matched and (len(matched) == len(tags) or not every):
                rows.append({"ns": index.workspace.ns, "topic": name, "path": known[name], "tags": list(own),
                             "matched": matched})  # fmt: skip
    return sorted(rows, key=lambda row: -len(row["matched"]))


@handles(methods.TopicListRequest)
async def topic_list(ctx: HandlerContext, request: methods.TopicListRequest, call: IncomingCall) -> Result:
    rows, missing = await ctx.read(_list, ctx.indexes(request), ctx.max_bytes)
    return {"topics": rows, "missing": missing, "text": _joined(rows)}


def _list(indexes: Sequence[WorkspaceIndex], max_bytes: int) -> tuple[list[Result], list[Result]]:
    """Every topic that has a file, and those that the index lists without one."""
    rows, missing = [], []
    for index in indexes:
        ns, known = index.workspace.ns, topics.paths(index)
        entries = notes.read_index(topics.index_text(index, max_bytes)).entries
        summaries = {entry.topic: entry.summary for entry in entries}
        rows += [{"ns": ns, "topic": name, "path": path, "summary": summaries.get(name, ""),
                  "listed": name in summaries} for name, path in known.items()]  # fmt: skip
        missing += [{"ns": ns, "topic": name, "summary": summary} for name, summary in summaries.items()
                    if name not in known]  # fmt: skip
    return rows, missing


def _joined(rows: list[Result]) -> str:
    return ", ".join(dict.fromkeys(row["topic"] for row in rows))
