"""Turns file events into hints for the writer, and notices when events stop coming.

Events are hints, the scan is the truth: whatever is lost here is found by the next scan.
"""

import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memd.config.ignore_rules import rule_files
from memd.config.schema import WatchSettings
from memd.daemon.watching.inotify import FolderEvent, Inotify, NativeWatch
from memd.indexer.indexing.scan import is_memory_path, may_hold_memories, watched_folders
from memd.models import Workspace

log = logging.getLogger("memd.watcher")

TICK_SECONDS = 1.0
EACH_TICK, TURN_TICKS = 20, 30
"""So many workspaces are looked at each second, or a thirtieth of all: what the kernel tells nobody, such as a
folder above a workspace that is moved, is found within half a minute."""
LIMIT_FIX = "raise the limit: sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024"

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

MarkChanged = Callable[[Sequence[tuple[str, str]]], None]
"""Takes a workspace and the path of a file in it."""
Rescan = Callable[[tuple[str, ...]], None]
Identity = tuple[int, int]
"""Device and inode."""


@dataclass(slots=True, eq=False)
class _Watched:
    """A workspace and its watched folders, by absolute path."""

    workspace: Workspace
    wanted: dict[str, bool]
    """The folders to watch where they exist, outer ones first, and whether what is below them is watched too."""
    found: dict[str, Identity] = field(default_factory=dict)
    """Which of these were there, and which folder it was."""
    watches: dict[str, int] = field(default_factory=dict)
    """The number of each watch."""
    polling: str = ""
    """Why it is polled; empty where inotify watches it."""
    polled: float = 0.0

    def deep(self, folder: str) -> bool:
        """Whether folders in this one are watched too."""
        return self.wanted.get(folder, True)

    def below(self, folder: str) -> list[str]:
        """The watched folders from this one down."""
        return [path for path in self.watches if path == folder or path.startswith(f"{folder}/")]


class Watcher:
    """Watches every workspace, by one inotify and on one thread, and by polling where that cannot be."""

    def __init__(self, settings: WatchSettings, mark_changed: MarkChanged, rescan: Rescan) -> None:
        self.settings = settings
        self._mark_changed = mark_changed
        self._changed: list[tuple[str, str]] = []
        """Workspaces and paths of the events that are being looked at."""
        self._rescan = rescan
        self._inotify: Inotify | None = None
        self._native: NativeWatch | None = None
        """Says when to look, where there is no inotify."""
        self._nudged = threading.Event()
        self._watched: dict[str, _Watched] = {}
        self._users: dict[int, list[tuple[_Watched, str]]] = {}
        """Who uses each watch, and by which path: workspaces may share folders."""
        self._turn: Iterator[_Watched] = iter(())
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memd-watcher", daemon=True)
        self._unusable = 'watch.mode = "poll"' if settings.mode == "poll" else ""
        # Not at the start: a client may add a workspace before that, and what changes until then is heard after it.
        if not self._unusable:
            try:
                self._inotify = Inotify()
            except OSError as error:
                self._do_without(error)

    def start(self) -> None:
        self._thread.start()

    def _do_without(self, error: OSError) -> None:
        """Poll; and where the system has no inotify at all, let its own observer say when."""
        log.warning("inotify cannot be used, polling instead: %s", error)
        if error.errno != errno.ENOSYS:
            self._unusable = f"{error.strerror}; {LIMIT_FIX}"
            return
        self._unusable = f"{error.strerror}; the system's own observer reports changes"
        self._native = NativeWatch(self._nudge)

    def _nudge(self, ns: str) -> None:
        with self._lock:
            if (watched := self._watched.get(ns)) is not None:
                watched.polled = -self.settings.poll_seconds
        self._nudged.set()

    def stop(self) -> None:
        self._stopping.set()
        self._nudged.set()
        if self._native is not None:
            self._native.stop()
        if self._inotify is not None:
            self._inotify.wake()
        self._thread.join(5)
        with self._lock:
            if self._inotify is not None and not self._thread.is_alive():
                self._inotify.close()
                self._inotify, self._unusable = None, "memd is stopping"

    def add(self, workspace: Workspace) -> None:
        with self._lock:
            if workspace.ns not in self._watched:
                watched = _Watched(workspace, _wanted(workspace), polling=self._unusable)
                self._watched[workspace.ns] = watched
                self._attend(watched)
                if self._native is not None:
                    self._native.add(workspace.ns, workspace.root)

    def remove(self, ns: str) -> None:
        with self._lock:
            if (watched := self._watched.pop(ns, None)) is not None:
                self._release(watched, list(watched.watches))
                if self._native is not None:
                    self._native.remove(ns)

    def mode(self, ns: str) -> tuple[str, str]:
        """How a workspace is watched, and why if it is not by inotify."""
        if (watched := self._watched.get(ns)) is None:
            return "waiting", ""
        if watched.polling:
            return "poll", watched.polling
        return ("inotify", "") if watched.watches else ("waiting", f"{watched.workspace.root} does not exist yet")

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        tick = time.monotonic() + TICK_SECONDS
        while not self._stopping.is_set():
            for event in self._events(tick - time.monotonic()):
                self._hear(event)
            if self._changed:
                # All at once: what is read together is indexed together, however slowly it is looked at here.
                self._mark_changed(self._changed)
                self._changed = []
            if time.monotonic() >= tick or self._nudged.is_set():
                self._nudged.clear()
                tick = time.monotonic() + TICK_SECONDS
                self._look()

    def _events(self, seconds: float) -> list[FolderEvent]:
        if self._inotify is None:
            self._nudged.wait(max(0.0, seconds))
            return []
        return self._inotify.read(seconds)

    def _hear(self, event: FolderEvent) -> None:
        with self._lock:
            if event.overflow:
                self._begin_again()
                return
            users = list(self._users.get(event.watch, ()))
            changed = {watched.workspace.ns: watched for watched, path in users if self._concerns(watched, path, event)}
            if event.ended:
                for watched, path in self._users.pop(event.watch, ()):
                    watched.watches.pop(path, None)
            for watched in changed.values():
                self._attend(watched)
        if changed:
            self._rescan(tuple(changed))

    def _concerns(self, watched: _Watched, folder: str, event: FolderEvent) -> bool:
        """Note a changed file; True when a folder or rules came or went, and the workspace should be looked at."""
        path = f"{folder}/{event.name}"
        if event.lost:
            self._release(watched, watched.below(folder) if not event.ended else ())
            return True
        if event.name in rule_files(watched.workspace):
            self._release(watched, list(watched.watches))
            return True
        if not event.of_folder and not self._is_linked_folder(watched, path, event):
            if is_memory_path(watched.workspace, _relative(watched, path)):
                self._changed.append((watched.workspace.ns, _relative(watched, path)))
            return False
        if event.went:
            self._release(watched, watched.below(path))
        elif event.came and watched.deep(folder) and may_hold_memories(watched.workspace, _relative(watched, path)):
            self._watch(watched, path)
        return True

    def _is_linked_folder(self, watched: _Watched, path: str, event: FolderEvent) -> bool:
        """Whether this link is, or was, taken for a folder: the kernel does not say so of links."""
        known = path in watched.wanted or path in watched.watches
        return known or (event.came and watched.workspace.follow and Path(path).is_dir())

    def _begin_again(self) -> None:
        """Watch everything anew: what came or went while events were lost is not known."""
        log.warning("file events were lost; every workspace is scanned")
        for watched in self._watched.values():
            self._release(watched, list(watched.watches))
            self._attend(watched)
        self._rescan(tuple(self._watched))

    # --- supervision --------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at what is polled, at what is not there yet, and in turn at all others."""
        with self._lock:
            due = [one for one in self._watched.values() if (self._poll_due(one) if one.polling else not one.watches)]
            look_at = dict.fromkeys([*due, *self._next_in_turn()])
            changed = tuple(one.workspace.ns for one in look_at if one.polling or self._attend(one))
        if changed:
            self._rescan(changed)

    def _next_in_turn(self) -> Iterator[_Watched]:
        for _ in range(max(EACH_TICK, len(self._watched) // TURN_TICKS)):
            if (watched := next(self._turn, None)) is None:
                self._turn = iter(list(self._watched.values()))
                return
            if not watched.polling and self._watched.get(watched.workspace.ns) is watched:
                yield watched

    def _poll_due(self, watched: _Watched) -> bool:
        due = time.monotonic() - watched.polled >= self.settings.poll_seconds
        if due:
            watched.polled = time.monotonic()
        return due

    def _attend(self, watched: _Watched) -> bool:
        """Watch the folders that there are now; True when the workspace should be scanned."""
        changed = False
        for folder in watched.wanted if not watched.polling else ():
            now, before = _identity(folder), watched.found.get(folder)
            if now == before and (now is None or folder in watched.watches):
                continue
            changed = True
            self._release(watched, watched.below(folder) if watched.deep(folder) else [folder])
            if now is None:
                del watched.found[folder]
                continue
            watched.found[folder] = now
            self._watch(watched, folder)
            if watched.polling:
                break
        return changed

    # --- watches ------------------------------------------------------------------------------------------

    def _watch(self, watched: _Watched, top: str) -> None:
        """Watch a folder, and those in it where they matter; where the limit is reached, poll."""
        assert self._inotify is not None
        folders, seen = [top], set[int]()
        while folders:
            folder = folders.pop()
            try:
                number = self._inotify.watch(folder)
            except OSError as error:
                if error.errno in GONE or (error.errno == errno.EACCES and folder not in watched.wanted):
                    continue
                self._fall_back(watched, error)
                return
            # A link may lead back to where the walk has been.
            if number not in seen:
                seen.add(number)
                self._use(watched, folder, number)
                folders += _inner_folders(watched.workspace, folder) if watched.deep(folder) else ()

    def _use(self, watched: _Watched, folder: str, number: int) -> None:
        if watched.watches.get(folder) != number:
            self._release(watched, [folder])
            watched.watches[folder] = number
            self._users.setdefault(number, []).append((watched, folder))

    def _release(self, watched: _Watched, folders: Iterable[str]) -> None:
        for folder in folders:
            if (number := watched.watches.pop(folder, None)) is None:
                continue
            if users := [user for user in self._users.pop(number, ()) if user != (watched, folder)]:
                self._users[number] = users
            elif self._inotify is not None:
                self._inotify.forget(number)

    def _fall_back(self, watched: _Watched, error: OSError) -> None:
        limit = error.errno in (errno.ENOSPC, errno.EMFILE)
        watched.polling = f"{error.strerror}; {LIMIT_FIX}" if limit else str(error)
        self._release(watched, list(watched.watches))
        log.warning("polling ns=%s: %s", watched.workspace.ns, watched.polling)


def _wanted(workspace: Workspace) -> dict[str, bool]:
    root = str(workspace.root)
    return {f"{root}/{folder}" if folder else root: deep for folder, deep in watched_folders(workspace.globs)}


def _inner_folders(workspace: Workspace, folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=workspace.follow)]
    except OSError:
        return iter(())
    start = len(str(workspace.root)) + 1
    return (path for path in inner if may_hold_memories(workspace, path[start:]))


def _relative(watched: _Watched, path: str) -> str:
    return path[len(str(watched.workspace.root)) + 1 :]


def _identity(folder: str) -> Identity | None:
    """Which folder there is; None where there is none."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - many a second, and a Path for each costs more than the look
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
