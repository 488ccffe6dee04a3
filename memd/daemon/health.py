"""What is degraded, why, and how to repair it."""

from __future__ import annotations

import threading
from dataclasses import dataclass


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

    @property
    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._troubles)

    @property
    def troubles(self) -> list[Trouble]:
        with self._lock:
            return [self._troubles[name] for name in sorted(self._troubles)]
