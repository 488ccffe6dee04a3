"""Directories that hold memory: `workspace.list`, `workspace.add` and `workspace.rm`."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from memd.config import edit, load, paths
from memd.config.declared import is_unicode
from memd.daemon.handlers.handler_context import P, T
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.server import workspace_status
from memd.daemon.handlers.workspace_writer import absolute_path
from memd.daemon.writer.tasks import forget_workspace
from memd.errors import AlreadyExists, DiskFull, MemdError, UnknownWorkspace, UsageError
from memd.indexer.store.own_stores import OwnIndex
from memd.models import DEFAULT_GLOBS, Workspace
from memd.protocol.methods.workspaces import WorkspaceAddRequest, WorkspaceListRequest, WorkspaceRmRequest


@handles(WorkspaceListRequest)
async def workspace_list(ctx: HandlerContext, request: WorkspaceListRequest, call: IncomingCall) -> Result:
    indexes = list(ctx.stores.indexes.values())
    return {"workspaces": [await ctx.read(workspace_status, ctx, index) for index in indexes]}


@handles(WorkspaceAddRequest)
async def workspace_add(ctx: HandlerContext, request: WorkspaceAddRequest, call: IncomingCall) -> Result:
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


@handles(WorkspaceRmRequest)
async def workspace_rm(ctx: HandlerContext, request: WorkspaceRmRequest, call: IncomingCall) -> Result:
    async with ctx.config.lock:
        index = ctx.stores.index(request.ns) if request.ns else _index_at(ctx, absolute_path(request.path))
        ns = index.workspace.ns
        await configure(ctx, edit.remove_workspace, ns)
        ctx.watcher.remove(ns)
        ctx.outlines.forget(ns, index.id)
        await ctx.write(forget_workspace, ctx.worker, ns)
    return {**index.place, "removed": True}


async def configure(ctx: HandlerContext, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Change the config file, or say why that cannot be done."""
    try:
        return await ctx.read(change, *args, **kwargs)
    except OSError as error:
        kind = DiskFull if error.errno == errno.ENOSPC else MemdError
        file = paths.config_file()
        raise kind(f"{file} could not be changed: {error.strerror}", f"look at it: ls -la {file.parent}") from error


def _index_at(ctx: HandlerContext, directory: Path) -> OwnIndex:
    for index in ctx.stores.indexes.values():
        if index.workspace.root in (directory, directory.resolve()):
            return index
    raise UnknownWorkspace(f"{directory} is no workspace", "memd workspaces")


def _workspace(request: WorkspaceAddRequest) -> Workspace:
    """The workspace that a call of `workspace.add` describes."""
    path = absolute_path(request.path)
    globs, ns = request.globs or DEFAULT_GLOBS, request.ns or path.name
    project = str(absolute_path(request.project).resolve()) if request.project else ""
    workspace = Workspace(ns, path, globs, request.follow, request.exclude, request.gitignore, project=project)
    if not is_unicode(str(path)):
        raise UsageError(f"{str(path)!a} is not valid Unicode, as the config file must be")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no directory", "add the directory that holds your notes")
    for name, value in {"ns": ns, "globs": list(globs), "exclude": list(request.exclude)}.items():
        right, wanted = load.CHECKS[name]
        if not right(value):
            raise UsageError(
                f"`{name}` must be {wanted}, not {value!r}", "such as --ns app, --glob '**/*.md', --exclude drafts/"
            )
    paths.check_notes_place(path.resolve())
    return replace(workspace, root=path.resolve())
