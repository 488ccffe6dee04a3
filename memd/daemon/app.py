"""The daemon's life: started as a list, stopped as the same list backwards."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from memd.config import paths
from memd.config.schema import Settings
from memd.daemon import handlers, logs, systemd, tasks
from memd.daemon.access_log import AccessLog
from memd.daemon.code_outlines import CodeOutlines
from memd.daemon.edge_updates import EdgeUpdates
from memd.daemon.embedding import Embedding
from memd.daemon.events import Events
from memd.daemon.handler_context import HandlerContext
from memd.daemon.health import Health
from memd.daemon.indexing import SETTLED, IndexingOptions
from memd.daemon.jobs import BuiltInJobs
from memd.daemon.lock import Lock
from memd.daemon.maintenance import IndexMaintenance
from memd.daemon.parts import Parts
from memd.daemon.reflect import ActiveRules, ReflectionRunner
from memd.daemon.scheduler import Scheduler
from memd.daemon.server import Server, listen
from memd.daemon.subscriptions import Subscriptions
from memd.daemon.watcher import Watcher
from memd.daemon.worker import Worker
from memd.errors import MemdError
from memd.indexer.store.stores import Stores
from memd.notes import parse
from memd.version import __version__

log = logging.getLogger("memd")

STOP_SECONDS = 4.0
"""Every store survives being killed; so a stop that takes longer is cut short."""

RESTART = 75
"""The exit code that asks for a new process: the package was upgraded."""


class App:
    """Everything that runs, and the few things that touch several of them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.health = Health()
        self.scheduler = Scheduler()
        self.exit_code = 0
        self._stack = ExitStack()
        self._scans: set[str] = set()
        self._scans_lock = threading.Lock()
        self._versions: list[str] = []

    # --- start and stop -----------------------------------------------------------------------------------

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self.stop_soon)
        with self._stack:
            await self._boot()
            systemd.notify(f"READY=1\nSTATUS=answering, {len(self.stores.indexes)} workspaces")
            log.info("ready version=%s pid=%d workspaces=%d", __version__, os.getpid(), len(self.stores.indexes))
            await self._serve_until_stopped()
            systemd.notify("STOPPING=1")
            self.worker.wind_down()
            threading.Thread(target=_exit_late, args=(self.exit_code,), daemon=True).start()
            await self.server.stop()
        log.info("stopped")
        return self.exit_code

    async def _boot(self) -> None:
        state = paths.private_dir(paths.state_dir())
        run = paths.private_dir(paths.run_dir())
        paths.check_socket_length(paths.socket_path())
        lock = Lock(paths.lock_file())
        self._stack.callback(lock.release)
        logs.start(self.settings.log, paths.log_file(), systemd.managed())
        _raise_limits()
        self.stores = Stores(state)
        self._stack.callback(self.stores.close)
        for workspace in self.settings.workspaces:
            self.stores.open_index(workspace)
        self._forget_others()
        self.worker = Worker(self.stores, self.settings, self.health)
        subscriptions = Subscriptions(self.stores, self._loop)
        self.worker.on_saved = subscriptions.saved
        events = Events(self._loop)
        self.worker.events = self.scheduler.events = events
        self.worker.start()
        self._stack.callback(self.worker.stop, STOP_SECONDS)
        self.watcher = Watcher(self.settings.watch, self.worker.note, self.rescan)
        self.embedding = Embedding(self.worker, self.settings.embedding, state, self.health)
        self._maintenance = IndexMaintenance(self.worker, self.embedding)
        parts = self._parts(subscriptions, events)
        self.ctx = HandlerContext(parts)
        self.worker.on_rest = self._rest
        self.worker.on_applied = lambda index, paths: parts.mcp.applied(self._loop, index.workspace.ns, paths)
        dispatch = partial(handlers.dispatch, self.ctx)
        listener = systemd.inherited_socket() or self._listen(run / "memd.sock")
        self.server = Server(listener, dispatch, self.settings.server)
        self._first_scan()
        await self.server.start()
        # In a thread: what it imports takes longer than the first answer does.
        await self._loop.run_in_executor(None, self._begin_work)

    def _parts(self, subscriptions: Subscriptions, events: Events) -> Parts:
        """Everything that the handlers work with."""
        edge_updates = EdgeUpdates(self.worker)
        self.worker.on_links, self.embedding.on_vectors = edge_updates.look, edge_updates.embedded
        rules = ActiveRules(self.health, self.settings.rules)
        self.outlines = CodeOutlines(self.settings.outline, self.stores)
        self._stack.callback(self.outlines.stop)
        return Parts(
            self.settings, self.health, self.stores, self.worker, self.watcher, self.embedding, self.scheduler,
            subscriptions, events, AccessLog(self.worker), rules, ReflectionRunner(self.stores, self.worker, rules.all),
            self.outlines, self.stop_soon,
        )  # fmt: skip

    def _listen(self, path: Path) -> socket.socket:
        """A socket of our own goes when we go; one that systemd made is systemd's to remove."""
        listener = listen(path)
        self._stack.callback(path.unlink, missing_ok=True)
        return listener

    def _begin_work(self) -> None:
        """What goes on behind the answering socket: watching, jobs, the model."""
        self.watcher.start()
        self._stack.callback(self.watcher.stop)
        for ns, index in self.stores.indexes.items():
            self.watcher.add(index.workspace)
            # What changed between the first scan and the first event.
            self.rescan(ns)
        jobs = BuiltInJobs(self.ctx, self._loop, self._notice_upgrade)
        self.scheduler.start(jobs.all(), jobs.keep, self.settings.jobs.jitter_s)
        self._stack.callback(self.scheduler.stop)
        if self.settings.outline.enabled:
            self.outlines.turn_on()
        self.embedding.start()
        self._stack.callback(self.embedding.stop, STOP_SECONDS)

    def _forget_others(self) -> None:
        """Workspaces that were taken out of the config while no daemon ran."""
        from memd.indexer.store import catalog

        known = {index.id for index in self.stores.indexes.values()}
        for row in catalog.workspace_rows(self.stores.ledger.reader):
            if row["id"] not in known:
                log.info("forgetting ns=%s, which is no longer in the config", row["ns"])
                self.stores.forget_number(row["id"])

    def _first_scan(self) -> None:
        """Find what changed while nobody watched; a new way of cutting notes cuts all of them again."""
        deep = self.stores.ledger.setting("notes_format") != str(parse.FORMAT)
        self.worker.submit(tasks.Recover())
        scan = self.worker.submit(tasks.ScanTask(how=IndexingOptions(deep=deep)))
        scan.add_done_callback(lambda done: self._scanned(deep) if not done.exception() else None)

    def _scanned(self, deep: bool) -> None:
        if deep:
            remember = self.stores.ledger.remember
            self.worker.submit(tasks.CallTask(lambda: remember("notes_format", str(parse.FORMAT))))

    async def _serve_until_stopped(self) -> None:
        every = systemd.watchdog_seconds()
        while not self._stop.is_set():
            if every:
                # Sent from the loop itself: when the loop hangs, the watchdog hears nothing.
                systemd.notify("WATCHDOG=1")
            try:
                await asyncio.wait_for(self._stop.wait(), every or None)
            except TimeoutError:
                continue

    def stop_soon(self) -> None:
        """Stop after the answer that is under way; from any thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def _rest(self) -> None:
        """What can wait for a quiet moment, which this is."""
        self._maintenance.look()
        if not self.embedding.warming and not self.embedding.pending:
            self.ctx.parts.mcp.load_ahead()

    # --- looking again ---------------------------------------------------------------------------------------

    def rescan(self, ns: str) -> None:
        """Look at a whole workspace soon; many wishes are one scan."""
        with self._scans_lock:
            if ns in self._scans or ns not in self.stores.indexes:
                return
            self._scans.add(ns)
        self.worker.submit(_Rescan(ns, self._begun))

    def _begun(self, ns: str) -> None:
        with self._scans_lock:
            self._scans.discard(ns)

    def _notice_upgrade(self) -> None:
        """Two looks that agree: an upgrade that is still being written is left to finish."""
        from importlib import metadata

        try:
            installed = metadata.version("memd")
        except metadata.PackageNotFoundError:
            return
        self._versions = [*self._versions[-1:], installed]
        if installed != __version__ and self._versions == [installed] * 2:
            log.warning("memd %s was installed over %s; starting again", installed, __version__)
            self.exit_code = RESTART
            self.stop_soon()


class _Rescan:
    """A scan on a hint; further hints from now on are a scan of their own."""

    def __init__(self, ns: str, begun: Any) -> None:
        self.ns = ns
        self.begun = begun

    def run(self, worker: Worker) -> Any:
        self.begun(self.ns)
        return tasks.ScanTask((self.ns,), SETTLED).run(worker) if self.ns in worker.stores.indexes else None


def _exit_late(code: int) -> None:
    time.sleep(STOP_SECONDS)
    log.warning("stopping took too long and is cut short; nothing is lost")
    os._exit(code)


def _raise_limits() -> None:
    """As many open files as the system allows: a thousand clients are a thousand descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(settings: Settings) -> int:
    sys.setswitchinterval(0.001)
    # The pen asks with a lease whether anybody has a file open; whoever opens it in that moment raises this signal.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        code = asyncio.run(App(settings).run())
    except MemdError:
        raise
    if code == RESTART and not systemd.managed():
        os.execv(sys.executable, [sys.executable, "-P", "-m", "memd.daemon"])
    return code
