"""The daemon itself: `hello`, `ping`, `status`, `reload`, `shutdown`; and `mcp.open`, after which MCP is spoken."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from memd.child import running_children
from memd.config import paths
from memd.config.declared import fields_of
from memd.config.ignore_rules import EXCLUDED
from memd.config.load import load
from memd.config.schema import SECTIONS, Settings
from memd.daemon.handlers.permission import ADD, bind, check_folder
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, dispatch, handles
from memd.daemon.jobs.built_in import rules_of
from memd.daemon.process.health import Trouble
from memd.daemon.process.system import memory_mb, memory_of
from memd.daemon.serving.mcp_sessions import SPOKEN, SessionIdentity, time_zone
from memd.errors import ConfigError
from memd.indexer.store import catalog
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.views import conflicts, overview
from memd.mcp.tools import EXPERIMENTAL, tools_of
from memd.models import Workspace
from memd.protocol.methods import METHODS, server as methods
from memd.protocol.methods.base import MAX_HITS, MAX_QUERY
from memd.protocol.wire import MAX_REQUEST, PROTOCOL
from memd.version import __version__

MAX_SKIPPED = 50
FOLLOWED = ("embedding", "search", "rules", "vectors", "hooks", "hub")
"""The sections that hold at once here; a hook reads its own at each call, the hub when it starts."""
COUNTS = ("files", "memories", "chunks", "vectors", "pending_vectors")


@handles(methods.HelloRequest)
async def hello(ctx: HandlerContext, request: methods.HelloRequest, call: IncomingCall) -> Result:
    if request.bind or request.bind_around:
        bind(ctx, call.connection, request.bind or ctx.workspace_around(request.bind_around))
    call.connection.mask_secrets |= request.mask_secrets
    per_second = ctx.settings.server.calls_per_second
    limits = {"request_bytes": MAX_REQUEST, "hits": MAX_HITS, "query_chars": MAX_QUERY, "calls_per_second": per_second}
    bound = call.connection.bound
    along = list(ctx.along(bound, hooks=True)) if bound else []
    about = {"protocol": PROTOCOL, "version": __version__, "pid": os.getpid(), "capabilities": list(METHODS)}
    return {**about, "limits": limits, "bound": bound or None, "along": along}


@handles(methods.PingRequest)
async def ping(ctx: HandlerContext, request: methods.PingRequest, call: IncomingCall) -> Result:
    return {"pong": True}


@handles(methods.ReloadRequest)
async def reload(ctx: HandlerContext, request: methods.ReloadRequest, call: IncomingCall) -> Result:
    return await follow_config(ctx)


async def follow_config(ctx: HandlerContext) -> dict[str, Any]:
    """Follow the config file; ConfigError if something is wrong with it, and then everything stays as it was."""
    async with ctx.config.lock:
        settings = await ctx.read(load)
        changed = list(_changes(ctx.settings, settings))
        moved = await _follow_workspaces(ctx, settings.workspaces)
        if set(settings.workspaces) != {index.workspace for index in ctx.stores.indexes.values()}:
            changed.append("workspace")
        followed = {name: getattr(settings, name) for name in FOLLOWED}
        ctx.config.settings = replace(ctx.settings, **followed)
    ctx.config.rules = rules_of(settings.rules, ctx.health)
    ctx.embedding.change(settings.embedding)
    ctx.embedding.change_vectors(settings.vectors)
    waiting = [name for name in changed if name.split(".")[0] not in FOLLOWED]
    return {"changed": [*changed, *moved], "restart": waiting}


async def _follow_workspaces(ctx: HandlerContext, workspaces: Iterable[Workspace]) -> list[str]:
    """Take over which files of a workspace are memory; returns the workspaces where that changed."""
    known = {index.workspace for index in ctx.stores.indexes.values()}
    places = {(workspace.ns, workspace.root) for workspace in known}
    changed = [one for one in workspaces if one not in known and (one.ns, one.root) in places]
    for workspace in changed:
        await ctx.write(ctx.stores.change_workspace, workspace)
        ctx.watcher.remove(workspace.ns)
        ctx.watcher.add(workspace)
    if changed:
        ctx.rescan(tuple(one.ns for one in changed))
    return [f"workspace {one.ns}" for one in changed]


def _changes(before: Settings, after: Settings) -> Iterator[str]:
    """The names of the settings that differ."""
    for name, section in SECTIONS.items():
        old, new = getattr(before, name), getattr(after, name)
        for setting in fields_of(section):
            if getattr(old, setting) != getattr(new, setting):
                yield f"{name}.{setting}"


@handles(methods.ShutdownRequest)
async def shutdown(ctx: HandlerContext, request: methods.ShutdownRequest, call: IncomingCall) -> Result:
    ctx.stop_soon()
    return {"stopping": True}


@handles(methods.StatusRequest, without_ledger=True)
@handles(methods.StatusRequest)
async def status(ctx: HandlerContext, request: methods.StatusRequest, call: IncomingCall) -> Result:
    return await ctx.read(_status, ctx)


def config_error() -> ConfigError | None:
    """What is wrong with the config as the next start reads it: what this daemon follows may be older."""
    try:
        load()
    except ConfigError as error:
        return error
    return None


def _status(ctx: HandlerContext) -> Result:
    ledger, indexes = ctx.stores.ledger, ctx.stores.indexes.values()
    if ledger.damage is None:
        proposals = catalog.number_of(ledger.reader, "SELECT COUNT(*) FROM proposals")
        rows = [workspace_status(ctx, index) for index in indexes]
    else:
        proposals, rows = 0, [_workspace(ctx, index, dict.fromkeys(COUNTS, 0), {}) for index in indexes]
    troubles = ctx.health.troubles
    if config_error():
        # What is wrong may have a secret in it.
        troubles.append(Trouble("config", "the next start would refuse it", "memd config check"))
    return {
        "proposals": proposals,
        "workspaces": rows,
        "pid": os.getpid(),
        "readers": ctx.readers.pids,
        "version": __version__,
        "protocol": PROTOCOL,
        "started": ctx.started,
        "uptime_s": round(time.monotonic() - ctx.began, 1),
        "pending_files": ctx.worker.pending_files(),
        "pending_vectors": ctx.embedding.pending,
        "vectors_per_s": ctx.embedding.backlog.rate,
        "eta_s": ctx.embedding.backlog.eta_s,
        "embedded": ctx.stores.embedded,
        "subscriptions": len(ctx.subscriptions.all) + len(ctx.events.watching.all),
        "memory_mb": memory_mb(),
        "children": [{"module": module, "pid": pid, "memory_mb": memory_of(pid)} for module, pid in running_children()],
        "degraded_details": [asdict(trouble) for trouble in troubles],
        "model": _model_status(ctx, any(row["languages"] for row in rows)),
        "jobs": ctx.scheduler.states(),
        "log": str(paths.log_file()),
        "state_dir": str(paths.state_dir()),
        "config": str(paths.config_file()),
        "socket": str(paths.socket_path()),
    }


def workspace_status(ctx: HandlerContext, index: OwnIndex) -> Result:
    reader = ctx.stores.reader
    vectors = {"vectors": ctx.stores.vector_count(index), "pending_vectors": ctx.missing_vectors(index)}
    changed = reader.execute("SELECT changed FROM workspaces WHERE id = ?", (index.id,)).fetchone()
    problems = catalog.problems(reader, index.id)
    last_exam, exam_before = [*overview.exam_trend(reader, index.id, 2), None, None][:2]
    exams = {"last": last_exam, "before": exam_before}
    known = {"last_change": changed[0] if changed else None, "exam": exams, "languages": _languages(ctx, index)}
    return _workspace(ctx, index, catalog.counts(reader, index.id) | vectors, problems) | known


def _workspace(ctx: HandlerContext, index: OwnIndex, counts: dict[str, int], problems: catalog.Problems) -> Result:
    mode, why = ctx.watcher.mode(index.workspace.ns)
    problems |= {path: (why, False) for path, why in index.skipped.items()}
    # What a person excluded comes last: it needs no one's attention.
    listed = sorted(problems.items(), key=lambda one: (one[1][0].startswith(EXCLUDED), one[0]))
    skipped = [{"path": path, "why": why, "searched": searched} for path, (why, searched) in listed]
    return {
        **index.place,
        "globs": list(index.workspace.globs),
        "shared": index.workspace.shared,
        **counts,
        "watch": mode,
        "watch_note": why,
        "held": len(index.held),
        "missing": index.missing,
        "last_change": None,
        "conflicts": conflicts.count((path, why) for path, (why, _) in problems.items()),
        "skipped": skipped[:MAX_SKIPPED],
        "languages": [],
        "exam": {"last": None, "before": None},
    }


def _languages(ctx: HandlerContext, index: OwnIndex) -> list[str]:
    """Why a workspace needs the model for other languages: its first such note, and the first such question."""
    ledger = ctx.stores.ledger
    note = catalog.first_foreign(ledger.reader, index.id) if ctx.embedding.multilingual else None
    noted = f"{note['language']}: {note['path']}:{note['start_line']}" if note is not None else ""
    asked = (ledger.setting(catalog.multilingual_key(index.id)) or "a question") if index.multilingual else ""
    return [why for why in (noted, asked) if why]


def _model_status(ctx: HandlerContext, foreign: bool) -> Result:
    known: Result = {"name": "", "dims": 0, "fingerprint": "", "scale": None}
    if ctx.stores.model is not None:
        embedder = ctx.stores.model.embedder
        known = {name: getattr(embedder, name) for name in known} | {"scale": asdict(embedder.scale)}
    state = {"provider": ctx.settings.embedding.provider, "state": ctx.embedding.phase, **known}
    switch = asdict(ctx.embedding.switch) if ctx.embedding.switch is not None else None
    multilingual = _multilingual_state(ctx, foreign)
    return {**state, "note": ctx.embedding.note, "switch": switch, "multilingual": multilingual}


def _multilingual_state(ctx: HandlerContext, needed: bool) -> str:
    """The state of the model for other languages, which is loaded when a note or a question is in one."""
    if ctx.stores.multilingual is not None:
        return f"{ctx.stores.multilingual.embedder.name}, ready"
    return ("loading" if needed else "not needed") if ctx.embedding.multilingual else "off"


# --- MCP sessions ---------------------------------------------------------------------------------------------


@handles(methods.McpOpenRequest)
async def mcp_open(ctx: HandlerContext, request: methods.McpOpenRequest, call: IncomingCall) -> Result:
    connection = call.connection
    # The first session waits until the SDK is imported; later ones of this home find it so.
    module = await asyncio.get_running_loop().run_in_executor(None, ctx.mcp.load)
    connection.mask_secrets = True
    # To the workspace that is named, or that it was started in; elsewhere each call says how.
    if ns := request.ns[0] if request.ns else ctx.around(request.cwd):
        bind(ctx, connection, ns)

    def begin() -> None:
        ledger = ctx.stores.ledger
        ctx.worker.submit_once(ledger.transact, ledger.save_setting, SPOKEN, "yes")
        if request.experimental and request.profile in EXPERIMENTAL and not ctx.outlines.on:
            ctx.outlines.turn_on()

    async def call_bound(method: str, params: dict[str, Any]) -> Result:
        if method == ADD:
            check_folder(ctx, str(params["path"]))
        # Workspaces may have been added or removed since the session opened.
        elif not connection.bound:
            bind(ctx, connection, ctx.workspace_around(request.cwd))
        return _as_asked(await dispatch(ctx, method, params, call), connection.bound)

    identity = SessionIdentity(request.who, time_zone(request.tz), request.session)
    server = ctx.settings.server
    tools = tools_of(request.profile, request.experimental, server.index_folders)
    call_for = partial(identity.call_for, call_bound)
    session = module.McpSession(tools, call_for, connection, structured_content=server.structured_content)
    connection.successor = partial(ctx.mcp.run, session, connection, begin)
    return {"profile": request.profile, "ns": connection.bound or None, "tools": list(tools)}


def _as_asked(result: Result, own: str) -> Result:
    """A result that names files and memories as a session can ask for them: `people:MEMORY.md` is that of another
    workspace, and its own may have one of the same name."""
    for row in result.get("hits", [result]):
        if {"root", "path"} <= row.keys() and row["ns"] != own:
            row |= {name: f"{row['ns']}:{row[name]}" for name in ("path", "key") if name in row}
    return result
