"""Watches many single folders with one inotify: a tree of sources has more folders than matter.

Events are hints, as everywhere: whoever is called looks at the files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from memd.daemon.inotify import Inotify

TURN_SECONDS = 3600.0


class FolderWatch:
    """Calls a function when something changed in a folder, on a thread of its own; without inotify, never."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._watches: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._inotify: Inotify | None = None
        self._thread: threading.Thread | None = None
        try:
            self._inotify = Inotify()
        except OSError:
            pass
        else:
            self._thread = threading.Thread(
                target=self._listen, args=(self._inotify,), name="memd-folders", daemon=True
            )
            self._thread.start()
        self.blind = self._inotify is None
        """Whether changes may go unnoticed: the limit of watches is reached, or there is no inotify."""

    def watch(self, root: Path, folders: Iterable[str]) -> None:
        """Watch these folders and no others."""
        paths = {os.fspath(root / folder) for folder in folders}
        with self._lock:
            if self._inotify is None:
                return
            for gone in self._watches.keys() - paths:
                self._inotify.forget(self._watches.pop(gone))
            self.blind = False
            for path in paths:
                # Added again each time: a folder that was made anew under its old name is another one.
                try:
                    self._watches[path] = self._inotify.watch(path)
                except OSError:
                    self.blind = self.blind or Path(path).is_dir()

    def stop(self) -> None:
        """End the thread and give the watches back."""
        with self._lock:
            self._stopping, inotify, self._inotify = True, self._inotify, None
        if inotify is not None and self._thread is not None:
            inotify.wake()
            self._thread.join(2)
            inotify.close()

    def _listen(self, inotify: Inotify) -> None:
        while not self._stopping:
            events = inotify.read(TURN_SECONDS)
            if any(not event.ended for event in events):
                self._changed()
