"""One handler a method: read the parameters, do it, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from memd import __version__
from memd.config import edit, paths
from memd.config.load import NS, glob_ok
from memd.daemon import status, tasks
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.daemon.worker import How
from memd.errors import AlreadyExists, UnknownMethod, UnknownWorkspace, UsageError
from memd.indexer import check, get
from memd.indexer.ingest import Report
from memd.indexer.rebuild import build_elsewhere
from memd.indexer.search import search
from memd.indexer.stores import Shelf
from memd.models import DEFAULT_GLOBS, MODES, Answer, Ask, Filters, Workspace
from memd.protocol.messages import METHODS, PROTOCOL
from memd.protocol.wire import MAX_REQUEST

if TYPE_CHECKING:
    from memd.daemon.app import App

READERS = 4
MAX_HITS = 200
AUTO_SYNC_SECONDS = 0.5
PROGRESS_SECONDS = 0.1

P = ParamSpec("P")
T = TypeVar("T")
Result = dict[str, Any]
Handler = Callable[[Params, Tell], Awaitable[Result]]


class Handlers:
    """The dispatcher: `call(method, params)` for the socket, and later for MCP and the web."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.readers = ThreadPoolExecutor(READERS, "memd-reader")
        self._methods: dict[str, Handler] = {name: getattr(self, "do_" + name.replace(".", "_")) for name in METHODS}

    async def call(self, method: str, given: dict[str, Any], tell: Tell) -> Result:
        handler = self._methods.get(method)
        if handler is None:
            raise UnknownMethod(f"there is no method `{method}`", f"known: {', '.join(self._methods)}")
        result = await handler(Params(method, given), tell)
        return {**result, **self._freshness()}

    def _freshness(self) -> Result:
        """What every answer says: how new it is and what is missing from it."""
        return {
            "clock": self.app.stores.ledger.clock,
            "lag_ms": self.app.worker.lag_ms,
            "pending": self.app.worker.pending_files + self.app.embedding.pending,
            "degraded": self.app.health.names,
        }

    # --- small talk ---------------------------------------------------------------------------------------

    async def do_hello(self, params: Params, tell: Tell) -> Result:
        for name in ("client", "version"):
            params.text(name)
        params.number("protocol", PROTOCOL, 0, 1_000_000)
        params.done()
        limits = {"request_bytes": MAX_REQUEST, "hits": MAX_HITS}
        pid = self.app.pid
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "pid": pid,
            "capabilities": list(METHODS),
            "limits": limits,
        }

    async def do_ping(self, params: Params, tell: Tell) -> Result:
        params.done()
        return {"pong": True}

    async def do_shutdown(self, params: Params, tell: Tell) -> Result:
        params.done()
        self.app.stop_soon()
        return {"stopping": True}

    # --- reading ------------------------------------------------------------------------------------------

    async def do_query(self, params: Params, tell: Tell) -> Result:
        started = time.monotonic()
        ask = self._ask(params)
        sync = params.choice("sync", ("auto", "none", "full"), "auto")
        params.done()
        await self._catch_up(sync, ask.ns)
        answer = await self._search(ask)
        checked = not answer.hits and sync != "none"
        if checked:
            # Never an empty answer without a look at the files themselves.
            await self._scan(ask.ns)
            answer = await self._search(ask)
        hits = [{name: value for name, value in asdict(hit).items() if value is not None} for hit in answer.hits]
        took = round((time.monotonic() - started) * 1000, 2)
        return {"hits": hits, "verdict": answer.verdict, "confidence": answer.confidence, "checked": checked,
                "ns": list(ask.ns), "mode": ask.mode, "total": answer.total, "took_ms": took}  # fmt: skip

    def _ask(self, params: Params) -> Ask:
        limit = params.number("limit", self.app.settings.search.limit, 0, MAX_HITS)
        filters = Filters(
            kind=params.text("kind"),
            tags=params.texts("tags"),
            role=params.text("role"),
            path=params.text("path"),
            since=params.date("since"),
            until=params.date("until"),
            tier=params.text("tier"),
        )
        return Ask(
            query=params.required("query"),
            ns=self._names(params),
            limit=limit or MAX_HITS,
            mode=params.choice("mode", MODES, "hybrid"),
            filters=filters,
            explain=params.flag("explain"),
            marks=params.flag("marks"),
        )

    async def _search(self, ask: Ask) -> Answer:
        settings = self.app.settings
        return await self._read(search, self.app.stores, ask, settings.search.rrf_k, self.app.worker.max_bytes)

    async def do_get(self, params: Params, tell: Tell) -> Result:
        key, path = params.text("key"), params.text("path")
        first, count = params.number("from", 1, 1, 10**9), params.number("lines", 0, 0, 10**9)
        shelves = [self.app.stores.shelf(ns) for ns in self._names(params)]
        params.done()
        if bool(key) == bool(path):
            raise UsageError("`get` needs a `key` or a `path`")
        await self._catch_up("auto", ())
        if path:
            return await self._read(get.by_path, shelves, path, first, count, self.app.worker.max_bytes)
        return await self._read(get.by_key, self.app.stores, shelves, key, self.app.worker.max_bytes)

    async def do_status(self, params: Params, tell: Tell) -> Result:
        params.done()
        return await self._read(self._status)

    def _status(self) -> Result:
        app = self.app
        return {
            "pid": app.pid,
            "version": __version__,
            "protocol": PROTOCOL,
            "started": app.started,
            "uptime_s": round(time.monotonic() - app.began, 1),
            "pending_files": app.worker.pending_files,
            "pending_vectors": app.embedding.pending,
            "eta_s": app.embedding.eta_s,
            "embedded": app.stores.embedded,
            "memory_mb": status.memory_mb(),
            "degraded_details": [asdict(trouble) for trouble in app.health.troubles],
            "model": status.model_status(app),
            "workspaces": [status.workspace_status(app, shelf) for shelf in app.stores.shelves.values()],
            "jobs": app.scheduler.states(),
            "log": str(paths.log_file()),
            "state_dir": str(paths.state_dir()),
            "config": str(paths.config_file()),
            "socket": str(paths.socket_path()),
        }

    # --- keeping in step ----------------------------------------------------------------------------------

    async def do_sync(self, params: Params, tell: Tell) -> Result:
        ns = self._names(params)
        vectors, accept = params.flag("vectors"), params.flag("accept_missing")
        params.done()
        report = await self._scan(ns, How(accept_missing=accept), _teller(params, tell))
        if vectors:
            await self._vectors_made(_teller(params, tell))
        files = sum(len(self.app.stores.shelf(name).files) for name in ns)
        return {"files": files, "changed": report.files, "removed": report.removed, "held": report.held,
                "took_ms": round(report.took_ms, 1)}  # fmt: skip

    async def do_rebuild(self, params: Params, tell: Tell) -> Result:
        started = time.monotonic()
        ns = self._names(params)
        params.done()
        told = _teller(params, tell)
        await self._scan(ns, How(deep=True), told)
        for name in ns:
            fresh = await self._read(build_elsewhere, self.app.stores.folder, self.app.stores.shelf(name).id)
            await asyncio.wrap_future(self.app.worker.submit(tasks.SwapText(name, fresh)))
            await asyncio.wrap_future(self.app.worker.submit(tasks.RenewVectors(name)))
        found = [await self._read(status.workspace_status, self.app, self.app.stores.shelf(name)) for name in ns]
        totals = {what: sum(entry[what] for entry in found) for what in ("files", "chunks", "vectors")}
        return {**totals, "took_ms": round((time.monotonic() - started) * 1000, 1)}

    async def do_doctor(self, params: Params, tell: Tell) -> Result:
        fix = params.flag("fix")
        params.done()
        work = tasks.Call(lambda: check.examine(self.app.stores, self.app.settings, fix, running=True))
        findings = await asyncio.wrap_future(self.app.worker.submit(work))
        return {"ok": check.sound(findings), "findings": [asdict(finding) for finding in findings]}

    # --- workspaces ---------------------------------------------------------------------------------------

    async def do_workspaces_list(self, params: Params, tell: Tell) -> Result:
        params.done()
        shelves = list(self.app.stores.shelves.values())
        return {"workspaces": [await self._read(status.workspace_status, self.app, shelf) for shelf in shelves]}

    async def do_workspaces_add(self, params: Params, tell: Tell) -> Result:
        workspace = _workspace(params)
        wait = params.flag("wait", True)
        params.done()
        known = self._same(workspace)
        if known is None:
            await self._read(edit.add_workspace, workspace)
            await self.app.open_workspace(workspace)
        ns = known.workspace.ns if known else workspace.ns
        scanned = self._scan((ns,), How(), _teller(params, tell))
        if wait:
            await scanned
        else:
            self.app.in_background(scanned)
        told = await self._read(status.workspace_status, self.app, self.app.stores.shelf(ns))
        return {"workspace": told, "files": told["files"], "chunks": told["chunks"], "added": known is None}

    def _same(self, workspace: Workspace) -> Shelf | None:
        """The shelf of this very directory; a name that another one has is refused."""
        for shelf in self.app.stores.shelves.values():
            if shelf.workspace.root == workspace.root:
                return shelf
            if shelf.workspace.ns == workspace.ns:
                raise AlreadyExists(
                    f"`{workspace.ns}` is {shelf.workspace.root} already",
                    f"give this one a name: --ns {workspace.ns}-2",
                )
        return None

    async def do_workspaces_remove(self, params: Params, tell: Tell) -> Result:
        ns, path = params.text("ns"), params.text("path")
        params.done()
        shelf = self.app.stores.shelf(ns) if ns else self._at(Path(path).expanduser())
        await self._read(edit.remove_workspace, shelf.workspace.ns)
        await self.app.forget_workspace(shelf.workspace.ns)
        return {"ns": shelf.workspace.ns, "root": str(shelf.workspace.root), "removed": True}

    def _at(self, directory: Path) -> Shelf:
        for shelf in self.app.stores.shelves.values():
            if shelf.workspace.root == directory:
                return shelf
        raise UnknownWorkspace(f"{directory} is no workspace", "memd workspaces")

    # --- how they do it -----------------------------------------------------------------------------------

    def _names(self, params: Params) -> tuple[str, ...]:
        """The workspaces a call is about: named, or the one around `cwd`, or all."""
        named, cwd = params.texts("ns"), params.text("cwd")
        shelves = self.app.stores.shelves
        if not shelves:
            raise UnknownWorkspace("no workspace has been added yet", "go to your notes and run: memd add .")
        if named:
            return tuple(self.app.stores.shelf(ns).workspace.ns for ns in named)
        around = [shelf for shelf in shelves.values() if cwd and Path(cwd).is_relative_to(shelf.workspace.root)]
        if around:
            return (max(around, key=lambda shelf: len(shelf.workspace.root.parts)).workspace.ns,)
        return tuple(shelves)

    async def _read(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(work, *arguments, **named))

    async def _catch_up(self, sync: str, ns: tuple[str, ...]) -> None:
        """Wait for changes that were seen already, but not for a long import."""
        if sync == "full":
            await self._scan(ns)
        elif sync == "auto" and self.app.worker.importing is None:
            await asyncio.wait([asyncio.wrap_future(self.app.worker.applied())], timeout=AUTO_SYNC_SECONDS)

    async def _scan(self, ns: tuple[str, ...], how: How | None = None, told: _Teller | None = None) -> Report:
        scan = tasks.Scan(ns, how or How())
        return await self._with_progress(self.app.worker.submit(scan), told)

    async def _with_progress(self, future: Future[T], told: _Teller | None) -> T:
        waiting = asyncio.wrap_future(future)
        while told and not waiting.done():
            await asyncio.wait([waiting], timeout=PROGRESS_SECONDS)
            job = self.app.worker.importing
            if job is not None:
                await told("text", job.done, job.total)
        return await waiting

    async def _vectors_made(self, told: _Teller | None) -> None:
        total = self.app.embedding.pending
        while self.app.embedding.pending and self.app.embedding.phase in ("loading", "ready"):
            await asyncio.sleep(PROGRESS_SECONDS)
            total = max(total, self.app.embedding.pending)
            if told:
                await told("vectors", total - self.app.embedding.pending, total)


_Teller = Callable[[str, int, int], Awaitable[None]]


def _teller(params: Params, tell: Tell) -> _Teller | None:
    """A way to report progress, for callers that asked for it."""
    if not params.flag("progress"):
        return None

    async def told(phase: str, done: int, total: int) -> None:
        await tell({"phase": phase, "done": done, "total": total})

    return told


def _workspace(params: Params) -> Workspace:
    """The workspace that a call of `workspaces.add` describes."""
    path = Path(params.required("path")).expanduser()
    globs = params.texts("globs") or DEFAULT_GLOBS
    ns = params.text("ns") or path.name
    workspace = Workspace(ns, path, globs, params.flag("follow"))
    if not path.is_absolute():
        raise UsageError(f"`path` must be absolute, not {str(path)!r}")
    if not NS.fullmatch(ns):
        raise UsageError(f"`ns` must be a name without spaces or slashes, not {ns!r}", "name it with --ns")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no directory", "add the directory that holds your notes")
    for glob in globs:
        if not glob_ok(glob):
            raise UsageError(f"the glob {glob!r} leaves the workspace", "globs are relative, such as '**/*.md'")
    return replace(workspace, root=Path(path.resolve()) if path.exists() else path)
