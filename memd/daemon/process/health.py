"""What is degraded, why, and how to repair it."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from memd.errors import MemdError

log = logging.getLogger("memd.health")


class Stopping(MemdError):
    """memd is stopping; what was asked for is not begun any more."""

    def __init__(self) -> None:
        super().__init__("memd is stopping")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is degraded."""

    what: str
    why: str
    fix: str


class Health:
    """Everything that is degraded; empty when all is well."""

    def __init__(self) -> None:
        self._troubles: dict[str, Trouble] = {}
        self._lock = threading.Lock()

    def set(self, what: str, why: str, fix: str) -> bool:
        """Note a trouble; returns whether it is new."""
        with self._lock:
            new = what not in self._troubles
            self._troubles[what] = Trouble(what, why, fix)
            return new

    def clear(self, what: str) -> bool:
        with self._lock:
            return self._troubles.pop(what, None) is not None

    def watch_threads(self) -> None:
        """From now on a thread that dies of an error is a trouble with its name."""
        threading.excepthook = self._thread_died

    def _thread_died(self, death: threading.ExceptHookArgs) -> None:
        if death.exc_type is SystemExit or death.exc_value is None:
            return
        name = death.thread.name if death.thread else "of unknown name"
        log.critical("the thread %s died", name, exc_info=death.exc_value)
        why = f"the thread {name} died: {death.exc_type.__name__}: {death.exc_value}"
        self.set(f"thread:{name}", why, "memd restart starts it again; memd logs tells more")

    @property
    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._troubles)

    @property
    def troubles(self) -> list[Trouble]:
        with self._lock:
            return [self._troubles[name] for name in sorted(self._troubles)]


def log_failure(work: Future[Any]) -> None:
    """The end of something that nobody waits for: an error in it must not go unnoticed."""
    error = None if work.cancelled() else work.exception()
    if isinstance(error, Stopping):
        return
    if isinstance(error, MemdError):
        log.error("%s", error)
    elif error is not None:
        log.error("work that nobody waits for failed", exc_info=error)
