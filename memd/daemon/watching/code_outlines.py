"""Keeps the code outlines of the workspaces fresh: read at the start, when files change, and before an answer."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memd.config.schema import OutlineSettings
from memd.daemon.process.health import Stopping, log_failure
from memd.daemon.watching.inotify import Inotify
from memd.errors import MemdError, Refused
from memd.indexer.store.stores import Stores, WorkspaceIndex

if TYPE_CHECKING:
    from memd.outline.outline import Outline

TURN_SECONDS = 3600.0
SETTLE_SECONDS = 0.3
"""A burst of changes, as a checkout makes it, is read once or twice."""


class FolderWatch:
    """Calls a function when something changed in a folder, on a thread of its own; without inotify, never."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._watches: dict[str, int] = {}
        self._lock = threading.Lock()
        self._inotify: Inotify | None = None
        with suppress(OSError):
            self._inotify = Inotify()
        self._thread = threading.Thread(target=self._listen, args=(self._inotify,), name="memd-folders", daemon=True)
        self._thread.start()

    def watch(self, root: Path, folders: Iterable[str]) -> None:
        """Watch these folders and no others."""
        paths = {os.fspath(root / folder) for folder in folders}
        with self._lock:
            if self._inotify is None:
                return
            for gone in self._watches.keys() - paths:
                self._inotify.forget(self._watches.pop(gone))
            for path in paths:
                # Added again each time: a folder that was made anew under its old name is another one.
                with suppress(OSError):
                    self._watches[path] = self._inotify.watch(path)

    def stop(self) -> None:
        """End the thread and give the watches back."""
        with self._lock:
            inotify, self._inotify = self._inotify, None
        if inotify is not None:
            inotify.wake()
            self._thread.join(2)
            inotify.close()

    def _listen(self, inotify: Inotify | None) -> None:
        while inotify is not None and inotify is self._inotify:
            if any(not event.ended for event in inotify.read(TURN_SECONDS)):
                time.sleep(SETTLE_SECONDS)
                self._changed()


log = logging.getLogger("memd.outline")

FOLDER = "outline"

T = TypeVar("T")


class _WorkspaceOutline(NamedTuple):
    """One workspace's outline, and the watch of its folders."""

    outline: Outline
    folders: FolderWatch


class CodeOutlines:
    """All outlines. One thread of its own reads and answers, so that nobody else waits for it."""

    def __init__(self, settings: OutlineSettings, stores: Stores) -> None:
        self.settings = settings
        self.on = settings.enabled
        self.progress: tuple[str, int, int] | None = None
        """How far a long read is, as a caller is told: its phase, done, total."""
        self._stores = stores
        self._kept: dict[str, _WorkspaceOutline] = {}
        self._due: set[str] = set()
        """The workspaces whose sources are about to be read."""
        self._pool = ThreadPoolExecutor(1, "memd-outline")
        self._stopping = threading.Event()

    def turn_on(self) -> None:
        """Read the sources of every workspace, in the background; once on, it stays on."""
        self.on = True
        for ns in list(self._stores.indexes):
            self.begin(ns)

    def begin(self, ns: str) -> None:
        """Read the sources of a workspace, if outlines are on."""
        if self.on:
            self._submit(ns)

    def stop(self) -> None:
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for ns in list(self._kept):
            self._close(ns)

    def forget(self, ns: str, number: int) -> None:
        """Remove the outline of a workspace."""

        def remove() -> None:
            self._close(ns)
            for ending in ("", "-wal", "-shm"):
                self._file(number, ending).unlink(missing_ok=True)

        with suppress(RuntimeError):
            self._pool.submit(remove)

    def ask(self, index: WorkspaceIndex, question: Callable[[Outline], T]) -> Future[T]:
        """Answer a question from an outline that agrees with the files on the disk."""
        if not self.on:
            raise Refused("the code outline is off", "memd config set outline.enabled true, then: memd restart")

        def answer() -> T:
            kept = self._open(index)
            self._refresh(kept)
            return question(kept.outline)

        return self._pool.submit(answer)

    def _submit(self, ns: str) -> None:
        """Read what changed soon, from any thread; many changes are one refresh."""
        if ns not in self._due:
            self._due.add(ns)
            with suppress(RuntimeError):  # the pool has just been shut down
                self._pool.submit(self._refresh_unasked, ns).add_done_callback(log_failure)

    # --- in the outline's own thread ------------------------------------------------------------------------

    def _open(self, index: WorkspaceIndex) -> _WorkspaceOutline:
        ns = index.workspace.ns
        kept = self._kept.get(ns)
        if kept is not None and kept.outline.root != index.workspace.root:
            self._close(ns)
            kept = None
        if kept is None:
            # With the first outline: most homes have none.
            from memd.outline.outline import Outline

            outline = Outline(index.workspace.root, self._file(index.id), self.settings.max_file_kb * 1024)
            kept = self._kept[ns] = _WorkspaceOutline(outline, FolderWatch(lambda: self._submit(ns)))
        return kept

    def _refresh(self, kept: _WorkspaceOutline) -> None:
        def report(read: int, total: int) -> None:
            self.progress = ("outline", read, total)
            if self._stopping.is_set():
                raise Stopping

        try:
            done = kept.outline.refresh(report)
        except sqlite3.Error as error:
            raise MemdError(f"the outline cannot be saved: {error}", "is the disk full, or read-only?") from error
        finally:
            self.progress = None
        if done.parsed or done.removed:
            log.info("outline parsed=%d removed=%d took_ms=%.0f", done.parsed, done.removed, done.took_ms)
        if done.listed:
            kept.folders.watch(kept.outline.root, kept.outline.folders)

    def _refresh_unasked(self, ns: str) -> None:
        """Read what changed, while nobody waits for it."""
        self._due.discard(ns)
        if (index := self._stores.indexes.get(ns)) is None:
            return
        try:
            self._refresh(self._open(index))
        except MemdError as error:
            log.warning("no outline ns=%s: %s", ns, error)
        except OSError as error:
            log.warning("no outline ns=%s: %s", ns, error.strerror)

    def _close(self, ns: str) -> None:
        if (kept := self._kept.pop(ns, None)) is not None:
            kept.folders.stop()
            kept.outline.close()

    def _file(self, number: int, ending: str = "") -> Path:
        return self._stores.folder / FOLDER / f"{number}.db{ending}"
