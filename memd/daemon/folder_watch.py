"""Watches many single folders with one inotify: a tree of sources has more folders than matter.

Events are hints, as everywhere: whoever is called looks at the files.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger("memd.folders")

CHANGES = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF."""
ONLY_FOLDERS = 0x01000000
IGNORED = 0x8000
EVENT = struct.Struct("iIII")
BUFFER = 65_536


class FolderWatch:
    """Calls a function when something changed in a folder, on a thread of its own; without inotify, never."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._watches: dict[str, int] = {}
        self._lock = threading.Lock()
        self.blind = self._descriptor < 0
        """Whether changes may go unnoticed: the limit of watches is reached, or there is no inotify."""
        self._wake, self._woken = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="memd-folders", daemon=True)
        if not self.blind:
            self._thread.start()

    def watch(self, root: Path, folders: Iterable[str]) -> None:
        """Watch these folders and no others."""
        paths = {os.fspath(root / folder) for folder in folders}
        with self._lock:
            if self._descriptor < 0:
                return
            for gone in self._watches.keys() - paths:
                self._libc.inotify_rm_watch(self._descriptor, self._watches.pop(gone))
            self.blind = False
            for path in paths:
                # Added again each time: a folder that was made anew under its old name is another one.
                number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), CHANGES | ONLY_FOLDERS)
                if number >= 0:
                    self._watches[path] = number
                else:
                    self.blind = self.blind or Path(path).is_dir()

    def stop(self) -> None:
        """End the thread and give the watches back."""
        os.write(self._woken, b".")
        if self._thread.is_alive():
            self._thread.join(2)
        with self._lock:
            for descriptor in (self._descriptor, self._wake, self._woken):
                if descriptor >= 0:
                    os.close(descriptor)
            self._descriptor = -1

    def _listen(self) -> None:
        while True:
            ready, _, _ = select.select([self._descriptor, self._wake], [], [])
            if self._wake in ready:
                return
            try:
                data = os.read(self._descriptor, BUFFER)
            except BlockingIOError:
                continue
            if any(not mask & IGNORED for mask in _masks(data)):
                self._changed()


def _masks(data: bytes) -> Iterable[int]:
    at = 0
    while at < len(data):
        _, mask, _, length = EVENT.unpack_from(data, at)
        yield mask
        at += EVENT.size + length
