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

from memd import __version__
from memd.config import paths
from memd.config.schema import Settings
from memd.daemon import handlers, logs, systemd, tasks
from memd.daemon.desk import Desk
from memd.daemon.embedding import Embedding
from memd.daemon.events import Events
from memd.daemon.health import Health
from memd.daemon.imports import SETTLED, How
from memd.daemon.jobs import Jobs
from memd.daemon.linking import Linking
from memd.daemon.lock import Lock
from memd.daemon.observing import Observing
from memd.daemon.outlining import Outlining
from memd.daemon.parts import Parts
from memd.daemon.reflecting import Reflecting, Ruling
from memd.daemon.scheduler import Scheduler
from memd.daemon.server import Server, listen
from memd.daemon.standing import Standing
from memd.daemon.upkeep import Upkeep
from memd.daemon.watcher import Watcher
from memd.daemon.worker import Worker
from memd.errors import MemdError
from memd.indexer.store.stores import Stores
from memd.notes import parse

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
            systemd.notify(f"READY=1\nSTATUS=answering, {len(self.stores.shelves)} workspaces")
            log.info("ready version=%s pid=%d workspaces=%d", __version__, os.getpid(), len(self.stores.shelves))
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
            self.stores.open_shelf(workspace)
        self._forget_others()
        self.worker = Worker(self.stores, self.settings, self.health)
        standing = Standing(self.stores, self._loop)
        self.worker.on_saved = standing.saved
        events = Events(self._loop)
        self.worker.events = self.scheduler.events = events
        self.worker.start()
        self._stack.callback(self.worker.stop, STOP_SECONDS)
        self.watcher = Watcher(self.settings.watch, self.worker.note, self.rescan)
        self.embedding = Embedding(self.worker, self.settings.embedding, state, self.health)
        self._upkeep = Upkeep(self.worker, self.embedding)
        parts = self._parts(standing, events)
        self.desk = Desk(parts)
        self.worker.on_rest = self._rest
        self.worker.on_applied = lambda shelf, paths: parts.mcp.applied(self._loop, shelf.workspace.ns, paths)
        dispatch = partial(handlers.call, self.desk)
        listener = systemd.inherited_socket() or self._listen(run / "memd.sock")
        self.server = Server(listener, dispatch, self.settings.server)
        self._first_scan()
        await self.server.start()
        # In a thread: what it imports takes longer than the first answer does.
        await self._loop.run_in_executor(None, self._begin_work)

    def _parts(self, standing: Standing, events: Events) -> Parts:
        """Everything that the handlers work with."""
        linking = Linking(self.worker)
        self.worker.on_links, self.embedding.on_vectors = linking.look, linking.embedded
        rules = Ruling(self.health, self.settings.rules)
        self.outlining = Outlining(self.settings.outline, self.stores)
        self._stack.callback(self.outlining.stop)
        return Parts(
            self.settings, self.health, self.stores, self.worker, self.watcher, self.embedding, self.scheduler,
            standing, events, Observing(self.worker), rules, Reflecting(self.stores, self.worker, rules.all),
            self.outlining, self.stop_soon,
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
        for ns, shelf in self.stores.shelves.items():
            self.watcher.add(shelf.workspace)
            # What changed between the first scan and the first event.
            self.rescan(ns)
        jobs = Jobs(self.desk, self._loop, self._notice_upgrade)
        self.scheduler.start(jobs.all(), jobs.keep, self.settings.jobs.jitter_s)
        self._stack.callback(self.scheduler.stop)
        if self.settings.outline.enabled:
            self.outlining.turn_on()
        self.embedding.start()
        self._stack.callback(self.embedding.stop, STOP_SECONDS)

    def _forget_others(self) -> None:
        """Workspaces that were taken out of the config while no daemon ran."""
        from memd.indexer.store import catalog

        known = {shelf.id for shelf in self.stores.shelves.values()}
        for row in catalog.workspace_rows(self.stores.ledger.reader):
            if row["id"] not in known:
                log.info("forgetting ns=%s, which is no longer in the config", row["ns"])
                self.stores.forget_number(row["id"])

    def _first_scan(self) -> None:
        """Find what changed while nobody watched; a new way of cutting notes cuts all of them again."""
        deep = self.stores.ledger.setting("notes_format") != str(parse.FORMAT)
        self.worker.submit(tasks.Recover())
        scan = self.worker.submit(tasks.Scan(how=How(deep=deep)))
        scan.add_done_callback(lambda done: self._scanned(deep) if not done.exception() else None)

    def _scanned(self, deep: bool) -> None:
        if deep:
            remember = self.stores.ledger.remember
            self.worker.submit(tasks.Call(lambda: remember("notes_format", str(parse.FORMAT))))

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
        self._upkeep.look()
        if not self.embedding.warming and not self.embedding.pending:
            self.desk.parts.mcp.load_ahead()

    # --- looking again ---------------------------------------------------------------------------------------

    def rescan(self, ns: str) -> None:
        """Look at a whole workspace soon; many wishes are one scan."""
        with self._scans_lock:
            if ns in self._scans or ns not in self.stores.shelves:
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
        return tasks.Scan((self.ns,), SETTLED).run(worker) if self.ns in worker.stores.shelves else None


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
