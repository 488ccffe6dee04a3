"""The knowledge store: topics that are memorized, refined, recalled and forgotten, and the index that lists them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.registry import handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, only_index, workspace_writer
from memd.daemon.server import IncomingCall
from memd.errors import AlreadyExists, Conflict, DiskFull, MemdError, NotFound, Refused, UsageError
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import topics
from memd.indexer.writing.write_files import FileChange
from memd.notes import compose, names
from memd.notes.declared import front_matter, front_matter_span
from memd.notes.revise import in_bytes
from memd.notes.topic_index import (
    GENERAL,
    check_general,
    general_of,
    read_index,
    with_entry,
    with_general,
    without_entry,
)
from memd.notes.topics import Refinement, clean_summary, clean_tags, new_name, refined
from memd.protocol.methods.base import Timed
from memd.protocol.methods.topics import (
    TopicForgetRequest,
    TopicGeneralRequest,
    TopicListRequest,
    TopicMemorizeRequest,
    TopicRecallRequest,
    TopicRefineRequest,
    TopicSearchRequest,
    TopicSetGeneralRequest,
)

NONE = "No topics found"


# --- writing ------------------------------------------------------------------------------------------------


@handles(TopicMemorizeRequest)
async def memorize(ctx: HandlerContext, request: TopicMemorizeRequest, call: IncomingCall) -> Result:
    writer, title, tags = workspace_writer(ctx, request), request.title.strip(), clean_tags(request.tags)
    summary, name = clean_summary(request.summary), new_name(request.topic, writer.layout.index)
    _may_hold(writer, request.content, title, summary)
    facts = {"title": title or name, "tags": tags, "summary": summary, "last_updated": _stamp(request)}
    made = compose.topic_file(facts, request.content.replace("\r\n", "\n"))
    path = await ctx.read(_path, writer.index, name)
    _must_be_found(writer, path, made)

    def fresh(found: str | None) -> str:
        if found is not None:
            raise AlreadyExists(f"there is a topic `{name}` already ({path})", f"change it: memd topic refine {name}")
        return made

    listing = _index(writer, lambda text: with_entry(text, name, summary))
    done = await writer.write("topic.memorize", name, FileChange(path, edit=in_bytes(fresh)), listing)
    return {**done, "topic": name, "path": path}


@handles(TopicRefineRequest)
async def refine(ctx: HandlerContext, request: TopicRefineRequest, call: IncomingCall) -> Result:
    writer, now, wish = workspace_writer(ctx, request), _stamp(request), _wish(request)
    if not wish:
        raise UsageError("there is nothing to refine", "give tags to add or remove, a title, a summary or a content")
    name = compose.topic_name(request.topic)
    _may_hold(writer, wish.content or "", wish.title or "", wish.summary or "")
    known = await ctx.read(topics.paths, writer.index)
    path, told = known.get(name, ""), [name]

    def better(found: str | None) -> str:
        if found is None:
            raise _unknown(writer.index, name, list(known))
        made = refined(found, wish, now)
        facts = front_matter(made[: front_matter_span(made)])[0]
        told.append(facts.summary or facts.title or name)
        return made

    def listed(text: str) -> str:
        if not path:
            raise _unknown(writer.index, name, list(known), text)
        if wish.summary is None and read_index(text).of(name):
            return text
        return with_entry(text, name, wish.summary or told[-1])

    changes = (FileChange(path, edit=in_bytes(better)), _index(writer, listed)) if path else (_index(writer, listed),)
    done = await writer.write("topic.refine", name, *changes)
    return {**done, "topic": name, "path": path}


@handles(TopicForgetRequest)
async def forget(ctx: HandlerContext, request: TopicForgetRequest, call: IncomingCall) -> Result:
    writer, name = workspace_writer(ctx, request), compose.topic_name(request.topic)
    known = await ctx.read(topics.paths, writer.index)
    path = known.get(name, "")

    def unlisted(text: str) -> str:
        if not path and not read_index(text).of(name):
            raise _unknown(writer.index, name, list(known))
        return without_entry(text, name)

    index = _index(writer, unlisted)
    try:
        changes = (FileChange(path, edit=lambda found: None), index) if path else (index,)
        done, kept = await writer.write("topic.forget", name, *changes), ""
    except (Conflict, DiskFull, NotFound):
        raise
    except MemdError as error:
        # The file cannot be deleted; that it is no longer listed is promised all the same.
        done, kept = await writer.write("topic.forget", name, index), error.message
    return {**done, "topic": name, "path": path, "deleted": len(done["paths"]) > 1, "kept": kept}


@handles(TopicSetGeneralRequest)
async def set_general(ctx: HandlerContext, request: TopicSetGeneralRequest, call: IncomingCall) -> Result:
    writer, content = workspace_writer(ctx, request), request.content
    check_general(content)
    writer.may_hold(content)
    place = writer.layout.index
    stem = PurePosixPath(place).stem
    key = stem if names.is_topic(place) else f"{stem}#{names.slug(GENERAL)}"
    done = await writer.write("topic.set_general", key, _index(writer, lambda text: with_general(text, content)))
    return {**done, "path": place}


def _index(writer: WorkspaceWriter, edit: Callable[[str], str]) -> FileChange:
    """A change of the file that lists the topics; it is made when there is something to list."""
    path = writer.layout.index
    head = "# Memory\n" if names.is_long_term(path) else "# Project Knowledge\n"

    def change(found: str | None) -> str | None:
        edited = edit(head if found is None else found)
        return None if found is None and edited == head else edited

    return FileChange(path, edit=in_bytes(change))


def _must_be_found(writer: WorkspaceWriter, path: str, text: str) -> None:
    """Refuse a file that memd itself would never read."""
    workspace, most = writer.index.workspace, writer.ctx.max_bytes
    if not is_memory_path(workspace, path):
        raise Refused(f"{path} would not be among the files of {workspace.ns}: {', '.join(workspace.globs)}",
                      "choose another name, or add a glob that takes it in")  # fmt: skip
    if len(text.encode()) > most:
        raise Refused(f"{path} would have more than index.max_file_kb = {most // 1024:,}", "make two topics of it")


def _path(index: WorkspaceIndex, name: str) -> str:
    return topics.paths(index).get(name) or topics.layout(index).topic(name)


def _may_hold(writer: WorkspaceWriter, content: str, *rest: str) -> None:
    writer.may_hold(content)
    for text in rest:
        writer.may_hold(text)


def _wish(request: TopicRefineRequest) -> Refinement:
    summary = request.summary.strip()
    return Refinement(
        add=clean_tags(request.add_tags),
        remove=clean_tags(request.remove_tags),
        title=request.title.strip() or None,
        summary=clean_summary(summary) if summary else None,
        content=request.content if request.content.strip() else None,
    )


def _stamp(request: Timed) -> str:
    return request.local_time().isoformat(timespec="minutes")


def _unknown(workspace_index: WorkspaceIndex, name: str, known: list[str], index: str = "") -> NotFound:
    if index and read_index(index).of(name):
        hint = f"the index lists it; to take it from there: memd topic forget {name}"
        return NotFound(f"the topic `{name}` has no file", hint)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(f'`{one}`' for one in near)}?" if near else "what there is: memd topic list"
    return NotFound(f"no topic of {workspace_index.workspace.ns} is called `{name}`", hint)


# --- reading ------------------------------------------------------------------------------------------------


@handles(TopicRecallRequest)
async def recall(ctx: HandlerContext, request: TopicRecallRequest, call: IncomingCall) -> Result:
    return await ctx.read(_recalled, ctx.indexes(request), compose.topic_name(request.topic), ctx.max_bytes)


def _recalled(indexes: list[WorkspaceIndex], name: str, max_bytes: int) -> Result:
    having = [(index, path) for index in indexes if (path := topics.paths(index).get(name))]
    if len(having) > 1:
        there = ", ".join(index.workspace.ns for index, _ in having)
        raise UsageError(f"several workspaces have the topic `{name}` ({there})", "name one: -n NS")
    index, path = having[0] if having else (indexes[0], "")
    found = topics.topic(index, name, path, max_bytes) if path else None
    if found is None:
        raise _unknown(index, name, list(topics.paths(index)), topics.index_text(index, max_bytes))
    return {"ns": index.workspace.ns, "root": str(index.workspace.root), "path": path, "topic": name,
            "title": found.title, "tags": list(found.tags), "summary": found.summary,
            "last_updated": found.last_updated, "content": found.content, "markdown": found.markdown()}  # fmt: skip


@handles(TopicGeneralRequest)
async def general(ctx: HandlerContext, request: TopicGeneralRequest, call: IncomingCall) -> Result:
    return await ctx.read(_general, only_index(ctx, request), ctx.max_bytes)


def _general(index: WorkspaceIndex, max_bytes: int) -> Result:
    text = topics.index_text(index, max_bytes)
    listed = [{"topic": entry.topic, "summary": entry.summary} for entry in read_index(text).entries]
    return {"ns": index.workspace.ns, "root": str(index.workspace.root), "path": topics.layout(index).index,
            "content": general_of(text), "topics": listed}  # fmt: skip


@handles(TopicSearchRequest)
async def search(ctx: HandlerContext, request: TopicSearchRequest, call: IncomingCall) -> Result:
    wanted = {tag.casefold() for tag in clean_tags(request.tags)}
    found = await ctx.read(_with_tags, ctx, ctx.indexes(request), wanted, request.match == "all")
    return {"topics": found, "text": _joined(found) or NONE}


def _with_tags(
    ctx: HandlerContext, indexes: list[WorkspaceIndex], wanted: set[str], every: bool
) -> list[dict[str, Any]]:
    """The topics that have the tags; those that have more of them come first."""
    found = []
    for index in indexes:
        known = topics.paths(index)
        for name, tags in topics.tags(ctx.stores, index, known, ctx.max_bytes).items():
            matched = [tag for tag in tags if tag.casefold() in wanted]
            if matched and (len(matched) == len(wanted) or not every):
                found.append({"ns": index.workspace.ns, "topic": name, "path": known[name], "tags": list(tags),
                              "matched": matched})  # fmt: skip
    return sorted(found, key=lambda entry: -len(entry["matched"]))


@handles(TopicListRequest)
async def topic_list(ctx: HandlerContext, request: TopicListRequest, call: IncomingCall) -> Result:
    rows, missing = await ctx.read(_listed, ctx.indexes(request), ctx.max_bytes)
    return {"topics": rows, "missing": missing, "text": _joined(rows)}


def _listed(indexes: list[WorkspaceIndex], max_bytes: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every topic that has a file, and those that the index lists without one."""
    rows, missing = [], []
    for index in indexes:
        ns, known = index.workspace.ns, topics.paths(index)
        entries = {entry.topic: entry.summary for entry in read_index(topics.index_text(index, max_bytes)).entries}
        rows += [{"ns": ns, "topic": name, "path": path, "summary": entries.get(name, ""), "listed": name in entries}
                 for name, path in known.items()]  # fmt: skip
        missing += [{"ns": ns, "topic": name, "summary": summary} for name, summary in entries.items()
                    if name not in known]  # fmt: skip
    return rows, missing


def _joined(rows: list[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(row["topic"] for row in rows))
