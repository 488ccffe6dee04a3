"""One inotify for any number of folders, on watchdog's bindings; and its observer for systems that have none.

watchdog's own emitters take one or two threads for each folder that is watched with what is below it.
"""

import ctypes
import errno
import logging
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch
from watchdog.utils import UnsupportedLibcError

try:
    from watchdog.observers.inotify_c import InotifyConstants as Flag, inotify_add_watch, inotify_init, inotify_rm_watch
except (UnsupportedLibcError, ImportError, OSError):
    # Another system than Linux: memd polls there.
    MISSING = True
else:
    MISSING = False
    CAME = Flag.IN_CREATE | Flag.IN_MOVED_TO
    WENT = Flag.IN_DELETE | Flag.IN_MOVED_FROM
    SELF = Flag.IN_DELETE_SELF | Flag.IN_MOVE_SELF
    LOST = SELF | Flag.IN_UNMOUNT | Flag.IN_IGNORED
    WATCHED = CAME | WENT | SELF | Flag.IN_MODIFY | Flag.IN_CLOSE_WRITE | Flag.IN_ONLYDIR
    """All but what reading a file causes."""
    TOLD = (Flag.IN_Q_OVERFLOW, Flag.IN_IGNORED, LOST, Flag.IN_ISDIR, CAME, WENT)
    """The meaning of an event's last fields, in their order."""

log = logging.getLogger("memd")

HEAD = struct.Struct("iIII")
BUFFER = 1 << 18
PAIR_SECONDS = 0.005


class FolderEvent(NamedTuple):
    """Something that happened in a watched folder, or to it."""

    watch: int
    name: str
    """The name of the file; empty for the folder itself."""
    overflow: bool
    """Whether events were lost."""
    ended: bool
    """Whether this is the last event of the watch."""
    lost: bool
    """Whether the watched folder is no longer where it was."""
    of_folder: bool
    came: bool
    went: bool


class Inotify:
    """Watches folders, each without what is below it. Any thread may watch and forget; one reads."""

    def __init__(self) -> None:
        if MISSING:
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._descriptor = inotify_init()
        if self._descriptor < 0:
            raise _error("inotify instance limit reached")
        os.set_inheritable(self._descriptor, False)
        os.set_blocking(self._descriptor, False)
        self._woken, self._waker = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def watch(self, folder: str) -> int:
        """The number of the watch; a folder that is watched already, by whatever path, has the same number again."""
        number = int(inotify_add_watch(self._descriptor, os.fsencode(folder), WATCHED))
        if number < 0:
            raise _error("inotify watch limit reached")
        return number

    def forget(self, watch: int) -> None:
        """End a watch; one that went with its folder has ended already."""
        # Cast: newer versions of watchdog have a type of their own for this number, which older ones lack.
        inotify_rm_watch(self._descriptor, cast(Any, watch))

    def read(self, seconds: float) -> list[FolderEvent]:
        """The next events, for which it waits at most so long."""
        events = self._waiting(seconds)
        # The other half of a rename is there a moment later: seen by itself, the first would be a loss.
        return [*events, *self._waiting(PAIR_SECONDS)] if events and events[-1].went else events

    def _waiting(self, seconds: float) -> list[FolderEvent]:
        ready = self._poll.poll(max(0, seconds) * 1000)
        if any(descriptor == self._descriptor for descriptor, _ in ready):
            with suppress(BlockingIOError):
                return list(_events(os.read(self._descriptor, BUFFER)))
        return []

    def wake(self) -> None:
        """Let whoever reads return at once."""
        os.write(self._waker, b".")

    def close(self) -> None:
        for descriptor in (self._descriptor, self._woken, self._waker):
            os.close(descriptor)


def _events(data: bytes) -> Iterator[FolderEvent]:
    at = 0
    while at < len(data):
        watch, mask, _, length = HEAD.unpack_from(data, at)
        at += HEAD.size + length
        name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
        yield FolderEvent(watch, name, *(bool(mask & flags) for flags in TOLD))


def _error(limit: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, limit if code in (errno.ENOSPC, errno.EMFILE) else os.strerror(code))


# --- where there is no inotify --------------------------------------------------------------------------------------


READING = frozenset({"opened", "closed_no_write"})
"""Events that a look at the files causes."""


class NativeWatch:
    """Hears from the system's own observer that something changed: FSEvents on macOS.

    What changed is found by comparing the files, as polling does; this only says when to look.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._observer = Observer()
        self._watches: dict[str, ObservedWatch] = {}
        self._observer.start()

    def add(self, ns: str, root: Path) -> None:
        """Watch a workspace; one that cannot be watched is polled all the same."""
        try:
            self._watches[ns] = self._observer.schedule(_Handler(ns, self._heard), str(root), recursive=True)
        except OSError as error:
            log.warning("only polling ns=%s: %s", ns, error)

    def remove(self, ns: str) -> None:
        if (watch := self._watches.pop(ns, None)) is not None:
            self._observer.unschedule(watch)

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join(5)


class _Handler(FileSystemEventHandler):
    def __init__(self, ns: str, heard: Callable[[str], None]) -> None:
        self._ns = ns
        self._heard = heard

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type not in READING:
            self._heard(self._ns)
