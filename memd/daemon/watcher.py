"""Turns file events into hints for the writer, and notices when events stop coming.

Events are hints, the scan is the truth: whatever is lost here is found by the next scan.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from watchdog import events
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from memd.config.schema import WatchSettings
from memd.indexer.indexing.scan import is_memory_path, watched_folders
from memd.models import Workspace

log = logging.getLogger("memd.watcher")

EVENTS: list[type[FileSystemEvent]] = [
    events.FileCreatedEvent, events.FileModifiedEvent, events.FileClosedEvent, events.FileMovedEvent,
    events.FileDeletedEvent, events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent,
]  # fmt: skip
"""All but those that reading a file causes."""

IN_DELETE_SELF = 0x400
TICK_SECONDS = 1.0
LIMIT_FIX = "raise the limit: sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024"

Note = Callable[[str, str], None]
Rescan = Callable[[str], None]


@dataclass(slots=True, eq=False)
class _Watched:
    """A workspace and its watched folders."""

    workspace: Workspace
    watches: dict[str, tuple[tuple[int, int], ObservedWatch]] = field(default_factory=dict)
    """By folder: device and inode when watching began, and the watch."""
    polling: str = ""
    """Why it is polled; empty where inotify watches it."""
    polled: float = 0.0
    lost: set[str] = field(default_factory=set)
    """Folders that went: one made again in their place may have the same inode and yet sends no events."""
    grown: bool = True
    """Whether folders have come since the limit of watches was last checked."""


class Watcher:
    """Watches every workspace, by inotify where it can and by polling where it cannot."""

    def __init__(self, settings: WatchSettings, note: Note, rescan: Rescan) -> None:
        self.settings = settings
        self._note = note
        self._rescan = rescan
        self._observer: BaseObserver = Observer()
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="memd-watcher", daemon=True)
        self._overflow = _OverflowHandler(self._overflowed)
        self._unusable = 'watch.mode = "poll"' if settings.mode == "poll" else ""

    def start(self) -> None:
        logging.getLogger("watchdog").addHandler(self._overflow)
        try:
            self._observer.start()
        except OSError as error:
            log.warning("inotify cannot be used, polling instead: %s", error)
            self._unusable = f"{error.strerror}; {LIMIT_FIX}"
        self._thread.start()

    def stop(self) -> None:
        logging.getLogger("watchdog").removeHandler(self._overflow)
        self._stopping.set()
        self._thread.join(5)
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(5)

    def add(self, workspace: Workspace) -> None:
        with self._lock:
            if workspace.ns in self._watched:
                return
            watched = self._watched[workspace.ns] = _Watched(workspace, polling=self._unusable)
            self._attend(watched)

    def remove(self, ns: str) -> None:
        with self._lock:
            watched = self._watched.pop(ns, None)
            if watched is not None:
                for folder in list(watched.watches):
                    self._release(watched, folder)

    def mode(self, ns: str) -> tuple[str, str]:
        """How a workspace is watched, and why if it is not by inotify."""
        watched = self._watched.get(ns)
        if watched is None:
            return "waiting", ""
        if watched.polling:
            return "poll", watched.polling
        return ("inotify", "") if watched.watches else ("waiting", f"{watched.workspace.root} does not exist yet")

    # --- supervision --------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Look again every second: a folder that was removed and made again sends no events, and no error."""
        while not self._stopping.wait(TICK_SECONDS):
            with self._lock:
                for watched in self._watched.values():
                    if self._attend(watched):
                        self._rescan(watched.workspace.ns)

    def _attend(self, watched: _Watched) -> bool:
        """Watch the folders that there are now; True when the workspace should be scanned."""
        if watched.polling:
            return self._poll_due(watched)
        changed = False
        for folder, deep in watched_folders(watched.workspace):
            path = watched.workspace.root / folder
            now = _identity(path)
            before = watched.watches.get(folder)
            if (before[0] if before else None) == now and str(path) not in watched.lost:
                continue
            changed = True
            watched.lost.discard(str(path))
            if before:
                self._release(watched, folder)
            if now and not self._watch(watched, folder, deep, now):
                break
        return self._check_limit(watched) or changed

    def _check_limit(self, watched: _Watched) -> bool:
        """Poll where the limit is reached: watchdog does not say that it cannot watch a folder below a watched one."""
        if not (watched.grown and watched.watches):
            return False
        watched.grown = False
        error = no_watches_left(watched.workspace.root)
        if error is not None:
            self._fall_back(watched, error)
        return error is not None

    def _poll_due(self, watched: _Watched) -> bool:
        due = time.monotonic() - watched.polled >= self.settings.poll_seconds
        if due:
            watched.polled = time.monotonic()
        return due

    def _watch(self, watched: _Watched, folder: str, deep: bool, identity: tuple[int, int]) -> bool:
        handler, path = _EventHandler(watched, self._note, self._rescan), str(watched.workspace.root / folder)
        try:
            watch = self._observer.schedule(handler, path, recursive=deep, event_filter=EVENTS)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._fall_back(watched, error)
            return False
        watched.watches[folder] = (identity, watch)
        return True

    def _fall_back(self, watched: _Watched, error: OSError) -> None:
        limit = error.errno in (errno.ENOSPC, errno.EMFILE)
        watched.polling = f"{error.strerror}; {LIMIT_FIX}" if limit else str(error)
        for folder in list(watched.watches):
            self._release(watched, folder)
        log.warning("polling ns=%s: %s", watched.workspace.ns, watched.polling)

    def _release(self, watched: _Watched, folder: str) -> None:
        _, watch = watched.watches.pop(folder)
        try:
            self._observer.unschedule(watch)
        except (KeyError, OSError):
            # The emitter went with its folder.
            return

    def _overflowed(self) -> None:
        log.warning("file events were lost; every workspace is scanned")
        for ns in list(self._watched):
            self._rescan(ns)


class _EventHandler(FileSystemEventHandler):
    """Notes changed memory files; any event of a folder means: scan the workspace."""

    def __init__(self, watched: _Watched, note: Note, rescan: Rescan) -> None:
        self.watched = watched
        self.workspace = watched.workspace
        self.note = note
        self.rescan = rescan

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.is_directory:
            if event.event_type in (events.EVENT_TYPE_DELETED, events.EVENT_TYPE_MOVED):
                self.watched.lost.add(os.fsdecode(event.src_path))
            self.watched.grown = True
            self.rescan(self.workspace.ns)
            return
        for name in (event.src_path, event.dest_path):
            file = Path(os.fsdecode(name))
            if file.is_relative_to(self.workspace.root):
                path = file.relative_to(self.workspace.root).as_posix()
                if is_memory_path(self.workspace, path):
                    self.note(self.workspace.ns, path)


class _OverflowHandler(logging.Handler):
    """Notices an overflow of events, which watchdog reports only in its log."""

    def __init__(self, overflowed: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self.overflowed = overflowed

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage():
            self.overflowed()


def no_watches_left(folder: Path) -> OSError | None:
    """Try to watch one more folder, with an inotify of its own; the error when the limit is reached."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    if descriptor < 0:
        return None
    try:
        if libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_DELETE_SELF) >= 0:
            return None
        code = ctypes.get_errno()
        return OSError(code, "inotify watch limit reached") if code == errno.ENOSPC else None
    finally:
        os.close(descriptor)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no folder."""
    try:
        stat = folder.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
