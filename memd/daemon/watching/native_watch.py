"""Hears from the system's own observer, where there is no inotify, that something changed: FSEvents on macOS.

What changed is found by comparing the files, as polling does; this only says when to look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

log = logging.getLogger("memd")

READING = frozenset({"opened", "closed_no_write"})
"""Events that a look at the files causes."""


class NativeWatch:
    """One observer for all workspaces."""

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
