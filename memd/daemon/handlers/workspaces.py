"""Directories that hold memory: `workspace.list`, `workspace.add`, `workspace.rm`; and keeping them in order: `sync`,
`rebuild`, `doctor`, `job.list` and `job.run`."""

import asyncio
import errno
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from memd.config import edit, load, paths, tokens
from memd.config.declared import is_unicode
from memd.daemon.handlers.handler_context import POLL_SECONDS, P, T
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.server import config_error, workspace_status
from memd.daemon.handlers.workspace_writer import absolute_path
from memd.daemon.serving.events import PUT_BACK
from memd.daemon.writer.tasks import examine_stores, rebuild_vectors, stop_watching, use_built_text
from memd.errors import AlreadyExists, Busy, DiskFull, MemdError, UnknownWorkspace, UsageError, in_shell
from memd.indexer.indexing.ingest import IndexingOptions
from memd.indexer.maintenance import doctor as doctor_checks
from memd.indexer.maintenance.rebuild import build_elsewhere
from memd.indexer.store import catalog
from memd.indexer.store.ledger import LedgerPlace
from memd.indexer.store.own_stores import OwnIndex
from memd.models import DEFAULT_GLOBS, Workspace
from memd.protocol.methods import workspaces as methods

START_SECONDS = 30.0
"""How long a call waits for a daemon that is only just starting."""


@handles(methods.WorkspaceListRequest)
async def workspace_list(ctx: HandlerContext, request: methods.WorkspaceListRequest, call: IncomingCall) -> Result:
    indexes = list(ctx.stores.indexes.values())
    former = () if call.connection.bound else (await ctx.read(_unwatched, ctx)).values()
    return {
        "workspaces": [await ctx.read(workspace_status, ctx, index) for index in indexes],
        "unwatched": [{"ns": ns, "root": root} for ns, root in former],
    }


def _former_at(ctx: HandlerContext, directory: Path) -> tuple[int, str, str] | None:
    """The workspace that a directory was, where it is none any more."""
    if any(index.workspace.root == directory for index in ctx.stores.indexes.values()):
        return None
    rows = ((number, *named) for number, named in _unwatched(ctx).items())
    return next((row for row in rows if row[2] == str(directory)), None)


def _unwatched(ctx: HandlerContext) -> dict[int, tuple[str, str]]:
    return catalog.others(ctx.stores.reader, {index.id for index in ctx.stores.indexes.values()})


@handles(methods.WorkspaceAddRequest)
async def workspace_add(ctx: HandlerContext, request: methods.WorkspaceAddRequest, call: IncomingCall) -> Result:
    workspace = _workspace(request)
    async with ctx.config.lock:
        if (known := _added_before(ctx, workspace, ns_given=bool(request.ns))) is None:
            await configure(ctx, edit.add_workspace, workspace)
            await ctx.write(ctx.stores.open_index, workspace)
            ctx.watcher.add(workspace)
            ctx.outlines.begin(workspace.ns)
    ns = known.workspace.ns if known else workspace.ns
    if request.wait:
        await ctx.scan((ns,), report=ctx.answer.report)
    else:
        ctx.in_background(ctx.scan((ns,)))
    row = await ctx.read(workspace_status, ctx, ctx.stores.index(ns))
    return {"workspace": row, "files": row["files"], "chunks": row["chunks"], "added": known is None}


SETTLED = {"globs": DEFAULT_GLOBS, "follow": False, "exclude": (), "gitignore": False}
"""What a directory that is added again may leave unsaid."""


def _added_before(ctx: HandlerContext, workspace: Workspace, ns_given: bool) -> OwnIndex | None:
    """The index of this very directory; a name that another one has is refused.

    Adding a directory again is fine; adding it differently would be ignored, and is refused instead.
    """
    ns = workspace.ns
    for index in ctx.stores.indexes.values():
        known = index.workspace
        if known.root == workspace.root:
            asked = {name for name in SETTLED if getattr(workspace, name) not in (getattr(known, name), SETTLED[name])}
            if not asked and (known.ns == ns or not ns_given):
                return index
            differs = f"{known.root} is added already, as `{known.ns}` with other settings"
            raise AlreadyExists(differs, f"change them in {paths.config_file()}, then: memd reload")
        if known.ns == ns:
            raise AlreadyExists(f"`{ns}` is {known.root} already", f"give this one a name: --ns {ns}-2")
    return None


@handles(methods.WorkspaceRmRequest)
async def workspace_rm(ctx: HandlerContext, request: methods.WorkspaceRmRequest, call: IncomingCall) -> Result:
    async with ctx.config.lock:
        if request.hard and request.path and (former := await ctx.read(_former_at, ctx, absolute_path(request.path))):
            number, ns, root = former
            await ctx.write(stop_watching, ctx.worker, number, ns, True)
            return {"ns": ns, "root": root, "removed": True, "tokens": [], "globs": []}
        index = ctx.stores.index(request.ns) if request.ns else _index_at(ctx, absolute_path(request.path))
        ns = index.workspace.ns
        withdrawn = await ctx.read(tokens.withdraw, ns)
        await configure(ctx, edit.remove_workspace, ns)
        ctx.watcher.remove(ns)
        ctx.outlines.forget(ns, index.id)
        await ctx.write(stop_watching, ctx.worker, index.id, ns, request.hard)
    return {**index.place, "removed": True, "tokens": withdrawn, "globs": list(index.workspace.globs)}


async def configure(ctx: HandlerContext, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Change the config file, or say why that cannot be done."""
    try:
        return await ctx.read(change, *args, **kwargs)
    except OSError as error:
        kind = DiskFull if error.errno == errno.ENOSPC else MemdError
        file = paths.config_file()
        look = f"look at it: ls -la {in_shell(file.parent)}"
        raise kind(f"{file} could not be changed: {error.strerror}", look) from error


def _index_at(ctx: HandlerContext, directory: Path) -> OwnIndex:
    for index in ctx.stores.indexes.values():
        if index.workspace.root in (directory, directory.resolve()):
            return index
    raise UnknownWorkspace(f"{directory} is no workspace", "memd workspaces")


def _workspace(request: methods.WorkspaceAddRequest) -> Workspace:
    """The workspace that a call of `workspace.add` describes."""
    path = absolute_path(request.path)
    globs, ns = request.globs or DEFAULT_GLOBS, request.ns or load.default_name(path)
    project = str(absolute_path(request.project).resolve()) if request.project else ""
    workspace = Workspace(ns, path, globs, request.follow, request.exclude, request.gitignore, project=project)
    if not is_unicode(str(path)):
        raise UsageError(f"{str(path)!a} is not valid Unicode, as the config file must be")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no directory", "add the directory that holds your notes")
    for name, value in {"ns": ns, "globs": list(globs), "exclude": list(request.exclude)}.items():
        right, wanted = load.CHECKS[name]
        if not right(value):
            hint = "such as --ns app, --glob '**/*.md', --exclude drafts/"
            raise UsageError(f"`{name}` must be {wanted}, not {value!r}", hint)
    paths.check_notes_place(path.resolve())
    return replace(workspace, root=path.resolve())


# --- keeping in step and in order -------------------------------------------------------------------------------


@handles(methods.SyncRequest)
async def sync(ctx: HandlerContext, request: methods.SyncRequest, call: IncomingCall) -> Result:
    options = IndexingOptions(accept_missing=request.accept_missing)
    done = await ctx.scan(ctx.names(request), options, ctx.answer.report)
    if request.vectors:
        await ctx.vectors_made()
    files = sum(index.searched for index in ctx.indexes(request))
    return {"files": files, "changed": done.files, "removed": done.removed, "held": done.held,
            "took_ms": round(done.took_ms, 1)}  # fmt: skip


@handles(methods.RebuildRequest)
async def rebuild(ctx: HandlerContext, request: methods.RebuildRequest, call: IncomingCall) -> Result:
    names = ctx.names(request)
    await ctx.model_loaded(collections=True)
    await ctx.scan(names, IndexingOptions(deep=True), ctx.answer.report)
    for name in names:
        index = ctx.stores.index(name)
        fresh = await ctx.read(build_elsewhere, ctx.stores.folder, index.id)
        await ctx.write(use_built_text, ctx.worker, index, fresh)
        await ctx.write(rebuild_vectors, ctx.stores, name)
    rows = [await ctx.read(workspace_status, ctx, ctx.stores.index(name)) for name in names]
    totals = {what: sum(row[what] for row in rows) for what in ("files", "chunks", "vectors")}
    return {**totals, "took_ms": ctx.took_ms}


@handles(methods.DoctorRequest)
async def doctor(ctx: HandlerContext, request: methods.DoctorRequest, call: IncomingCall) -> Result:
    workspaces = [index.workspace for index in ctx.stores.indexes.values()]
    if request.file:
        file = absolute_path(request.file)
        return await ctx.read(doctor_checks.explain_file, file, workspaces, ctx.max_bytes)
    ledger = await ctx.read(doctor_checks.examine_ledger, ctx.stores.ledger)
    findings = await ctx.write(examine_stores, ctx.worker, ctx.settings, ledger, request.fix)
    if ctx.stores.ledger.damage is None:
        findings += await asyncio.to_thread(doctor_checks.examine_collections, ctx.stores, request.fix)
    if error := await ctx.read(config_error):
        findings.append(doctor_checks.DoctorFinding("config", "broken", error.message, error.hint))
    secrets = await ctx.read(doctor_checks.find_secrets, workspaces, ctx.max_bytes) if request.secrets else None
    if ctx.stores.ledger.place is LedgerPlace.PUT_BACK:
        # Last, so that the answer is out before memd starts again with the ledger that was mended.
        ctx.events.tell(PUT_BACK)
    return doctor_checks.report(findings, secrets)


# --- jobs ---------------------------------------------------------------------------------------------------------


@handles(methods.JobListRequest)
async def job_list(ctx: HandlerContext, request: methods.JobListRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"jobs": ctx.scheduler.states()}


@handles(methods.JobRunRequest)
async def job_run(ctx: HandlerContext, request: methods.JobRunRequest, call: IncomingCall) -> Result:
    await _scheduler_ready(ctx)
    return {"job": await asyncio.wrap_future(ctx.scheduler.ask(request.name))}


async def _scheduler_ready(ctx: HandlerContext) -> None:
    until = time.monotonic() + START_SECONDS
    while not ctx.scheduler.ready:
        if time.monotonic() > until:
            raise Busy("memd is still starting, and knows no jobs yet", "try again in a moment")
        await asyncio.sleep(POLL_SECONDS)
