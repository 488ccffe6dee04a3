"""The daemon's life: started as a list, stopped as the same list backwards."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import NoReturn

from memd import installation
from memd.config import paths
from memd.config.schedules import OFF
from memd.config.schema import Settings
from memd.daemon import handlers
from memd.daemon.handlers.exam import nightly_exam
from memd.daemon.handlers.handler_context import HandlerContext
from memd.daemon.handlers.server import follow_config
from memd.daemon.jobs.built_in import BuiltInJobs, IndexMaintenance
from memd.daemon.process import system
from memd.daemon.process.health import log_failure, start_logging
from memd.daemon.process.lock import Lock
from memd.daemon.serving.events import IDLE, LOOKED, PUT_BACK
from memd.daemon.serving.server import Server
from memd.daemon.writer import tasks
from memd.errors import ConfigError
from memd.indexer.indexing.ingest import IndexingOptions, IngestReport
from memd.indexer.store import catalog
from memd.indexer.store.ledger import newest_backup
from memd.indexer.store.own_stores import OwnStores
from memd.notes import parse
from memd.protocol.connection import inherited, listen, raise_file_limit
from memd.version import __version__

log = logging.getLogger("memd")

STOP_SECONDS = 4.0
"""Every store survives being killed; so a stop that takes longer is cut short."""

CLOCK_SECONDS = 30.0
"""How often somebody looks whether the clock was put back."""

RELEASE_SECONDS = 300.0
"""How often a resting daemon gives freed memory back."""

RESTART = 75
"""The exit code that asks for a new process: the package was upgraded, or `state.db` had to be put back."""


class App:
    """Everything that runs."""

    def __init__(self, settings: Settings, lock: Lock) -> None:
        self.settings = settings
        self._lock = lock
        self.exit_code = 0
        self._stack = ExitStack()
        """The steps that end each started part, in the order of the start."""
        self._installed = __version__
        """The version that was last found installed."""

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self.stop_soon)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)
        with self._stack:
            self._stack.callback(self._lock.close)
            start_logging(self.settings.log, paths.log_file(), system.managed())
            raise_file_limit()
            self._open_stores()
            self._start_writer()
            await self._scan_at_start()
            await self._start_server()
            # Told before the first answer: from then on the watchdog restarts a daemon that hangs.
            system.notify(f"READY=1\nSTATUS=answering, {len(self.stores.indexes)} workspaces")
            reassure = asyncio.create_task(_reassure_watchdog())
            # In a thread: what it imports takes longer than the first answer does.
            await self._loop.run_in_executor(None, self._start_background_work)
            log.info("ready version=%s pid=%d workspaces=%d", __version__, os.getpid(), len(self.stores.indexes))
            await self._serve_until_stopped()
            reassure.cancel()
            system.notify("STOPPING=1")
            self.worker.drop_imports()
            await self.server.stop()
            await self.ctx.readers.stop()
        log.info("stopped")
        return self.exit_code

    # --- the start, step by step --------------------------------------------------------------------------------

    def _open_stores(self) -> None:
        most = self.settings.index
        self.stores = OwnStores(paths.state_dir(), most_open=most.max_open, most_open_mb=most.max_open_mb)
        self.stores.link_similarity = self.settings.links.similarity
        self._stack.callback(self.stores.close)
        self.stores.open_workspaces(self.settings.workspaces)
        self._promised = bool(self.stores.ledger.promises())
        self._lacks_backup = self.settings.jobs.backup != OFF and newest_backup(self.stores.folder) is None

    def _start_writer(self) -> None:
        self.ctx = HandlerContext(self.settings, self.stores, self._loop, self.stop_soon)
        threading.excepthook = self.ctx.health.thread_died
        self._stack.callback(self.ctx.outlines.stop)
        self.maintenance = IndexMaintenance(self.ctx.worker, self.ctx.embedding)
        self.worker = self.ctx.worker
        self.ctx.events.listen(IDLE, self._when_idle)
        self.ctx.events.listen(LOOKED, self.maintenance.look_at_pieces)
        self._release_from = 0.0
        self.ctx.events.listen(PUT_BACK, self._start_again)
        self.worker.start()
        self._stack.callback(self.worker.stop, STOP_SECONDS)

    async def _scan_at_start(self) -> None:
        """Find what changed while nobody watched; a new way of cutting notes cuts all of them again."""
        recovered = self.worker.submit(tasks.recover_actions, self.worker)
        recovered.add_done_callback(log_failure)
        if self._promised:
            # No answer before what was promised is indexed, or at least sure to be next.
            await asyncio.wait([asyncio.wrap_future(recovered)])
            await self.ctx.catch_up()
        self.worker.submit(tasks.leave_unlisted, self.stores).add_done_callback(log_failure)
        deep = self.stores.ledger.setting(tasks.NOTES_FORMAT) != str(parse.FORMAT)
        if deep and not catalog.any_files(self.stores.reader):
            # Said before the first import, which may be stopped: what it has read by then is not read again.
            self.worker.submit(tasks.save_notes_format, self.stores.ledger).add_done_callback(log_failure)
            deep = False
        scan = self.worker.submit(tasks.scan_workspaces, self.worker, (), IndexingOptions(deep=deep))
        scan.add_done_callback(log_failure)

        def parsed(scan: Future[IngestReport]) -> None:
            if not scan.exception():
                self.worker.submit(tasks.save_notes_format, self.stores.ledger)

        if deep:
            scan.add_done_callback(parsed)

    async def _start_server(self) -> None:
        if descriptor := inherited():
            listener = socket.socket(fileno=descriptor)
        else:
            path = paths.socket_path()
            listener = system.handed_socket(path) or socket.socket(fileno=listen(str(path)))
            # A socket of our own goes when we go; one that systemd made is systemd's to remove.
            self._socket_inode = path.stat().st_ino
            self._stack.callback(self._remove_socket, path)
            self.ctx.events.listen(LOOKED, partial(self._look_at_socket, path))
        self.server = Server(listener, partial(handlers.dispatch, self.ctx), self.settings.server)
        await self.server.start()

    def _look_at_socket(self, path: Path) -> None:
        """Make a socket that somebody removed again, as a cleaner of temporary files does; called by the writer."""
        if not os.path.lexists(path) and not self._stop.is_set():
            asyncio.run_coroutine_threadsafe(self._listen_again(path), self._loop)

    async def _listen_again(self, path: Path) -> None:
        if not os.path.lexists(path) and not self._stop.is_set():
            paths.private_dir(path.parent)
            await self.server.listen_at(socket.socket(fileno=listen(str(path))))
            self._socket_inode = path.stat().st_ino
            log.warning("the socket was removed, and is there again")

    def _remove_socket(self, path: Path) -> None:
        """Remove our own socket, and not the one at which callers wait for the next daemon."""
        if path.exists() and path.stat().st_ino == self._socket_inode:
            path.unlink(missing_ok=True)

    def _start_background_work(self) -> None:
        """Watching, jobs, the code outline, the model."""
        ctx = self.ctx
        ctx.watcher.start()
        self._stack.callback(ctx.watcher.stop)
        for index in self.stores.indexes.values():
            ctx.watcher.add(index.workspace)
        # The first of them is a scan, which finds what changed between that of the start and the first event.
        jobs = BuiltInJobs(ctx.worker, ctx.embedding, ctx.reflection, self._examine, self._restart_after_upgrade)
        ctx.scheduler.start(jobs.all(), jobs.save_run, self.settings.jobs.jitter_s)
        self._stack.callback(ctx.scheduler.stop)
        if self.settings.outline.enabled:
            ctx.outlines.turn_on()
        ctx.embedding.start()
        self._stack.callback(ctx.embedding.stop, STOP_SECONDS)

    def _examine(self, day: date) -> str:
        """The nightly exam, whose questions are asked on the loop as those of clients are."""
        return asyncio.run_coroutine_threadsafe(nightly_exam(self.ctx, day), self._loop).result()

    # --- while it runs --------------------------------------------------------------------------------------------

    async def _serve_until_stopped(self) -> None:
        every = min(CLOCK_SECONDS, self.settings.watch.scan_seconds)
        while not self._stop.is_set():
            self.ctx.scheduler.follow_clock()
            self.ctx.embedding.look(time.monotonic())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), every)

    def stop_soon(self) -> None:
        """Stop after the answer that is under way; from any thread."""
        self._loop.call_soon_threadsafe(self._stop_now)

    def _stop_now(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            # Counted from here, also while it is still starting.
            threading.Thread(target=_exit_late, args=(self,), daemon=True).start()

    def _reload(self) -> None:
        """SIGHUP, as `systemctl --user reload memd` sends it."""
        if hasattr(self, "ctx"):
            self.ctx.in_background(self._follow_config())

    async def _follow_config(self) -> None:
        try:
            told = await follow_config(self.ctx)
            log.info("settings read anew changed=%s restart=%s", told["changed"], told["restart"])
        except ConfigError as error:
            log.error("the settings stay as they were: %s", error)

    def _when_idle(self) -> None:
        """Work that can wait for a quiet moment."""
        self.maintenance.look()
        if self._lacks_backup and self.ctx.scheduler.ready and catalog.any_files(self.stores.reader):
            self._lacks_backup = False
            self.ctx.scheduler.ask("backup").add_done_callback(log_failure)
        if self.ctx.embedding.warming or self.ctx.embedding.at_work:
            return
        self.ctx.mcp.load_ahead(self.stores.ledger)
        if time.monotonic() >= self._release_from:
            system.release_freed()
            self._release_from = time.monotonic() + RELEASE_SECONDS

    def _restart_after_upgrade(self) -> None:
        """Restart when two looks found the same new version: an upgrade that is still being written may finish."""
        if (distribution := installation.metadata_of(installation.DISTRIBUTION)) is None:
            return
        before, self._installed = self._installed, distribution.version
        if __version__ != self._installed == before:
            log.warning("memd %s was installed over %s; starting again", self._installed, __version__)
            self._start_again()

    def _start_again(self) -> None:
        """Stop, and start anew, unless it is to stop anyway."""
        if not self._stop.is_set():
            self.exit_code = RESTART
            self.stop_soon()


async def _reassure_watchdog() -> None:
    """Sent from the loop itself: when the loop hangs, the watchdog hears nothing."""
    seconds = system.watchdog_seconds()
    while seconds:
        system.notify("WATCHDOG=1")
        await asyncio.sleep(seconds)


def _exit_late(app: App) -> None:
    time.sleep(STOP_SECONDS)
    log.warning("stopping took too long and is cut short; nothing is lost")
    _end(app.exit_code)


def _end(code: int) -> NoReturn:
    """End at once, or become a new daemon if the exit code asks for it and nobody else sees to it.

    The interpreter's own end is left out: it takes away what threads of libraries that are still at work stand on.
    """
    if code == RESTART and not system.managed():
        os.execv(sys.executable, [sys.executable, "-P", "-m", "memd.daemon"])
    os._exit(code)


def main(settings: Settings, lock: Lock) -> NoReturn:
    sys.setswitchinterval(0.001)
    # safe_write asks with a lease whether anybody has a file open; whoever opens it in that moment raises this signal.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    _end(asyncio.run(App(settings, lock).run()))
