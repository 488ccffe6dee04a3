"""Paths that changed and wait until they have been quiet for a while."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

LONGEST_SETTLE = 2.0
"""A file that never comes to rest is read all the same after this many seconds."""


BURST = 8
"""More paths than this at once are one event: a checkout, a sync, an unpacked archive."""


class Hints:
    """What the watcher saw, by workspace and path. Not locked: the worker guards it."""

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._noted: dict[tuple[str, str], tuple[float, float]] = {}
        self._begun: dict[tuple[str, str], float] = {}
        """When a path was first noted since it was last read at rest."""

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, ns: str, path: str) -> None:
        now = time.monotonic()
        self._noted[ns, path] = (self._begun.setdefault((ns, path), now), now)

    def now(self, ns: str, path: str) -> None:
        """A path that has settled already."""
        self._noted[ns, path] = (0.0, 0.0)

    def restless(self, ns: str, path: str) -> bool:
        """Whether a path that is being written should wait; one that never rests should not wait for ever."""
        return time.monotonic() - self._begun.get((ns, path), time.monotonic()) < LONGEST_SETTLE

    def read(self, ns: str, paths: Iterable[str]) -> None:
        """These were read at rest."""
        for path in paths:
            self._begun.pop((ns, path), None)

    def later(self, ns: str, paths: Iterable[str], seconds: float) -> None:
        """Come back to these in a while."""
        again = time.monotonic() + seconds
        self._noted.update({(ns, path): (again, again) for path in paths})

    @property
    def oldest(self) -> float | None:
        """When the longest waiting one was first seen."""
        return min((first for first, _ in self._noted.values()), default=None)

    def wait(self) -> float:
        """Seconds until one has settled; infinite when there is none."""
        ends = self._ends()
        return max(0.0, min(ends.values()) - time.monotonic()) if ends else float("inf")

    def take(self) -> tuple[str, tuple[str, ...]] | None:
        """The settled paths of one workspace, which are noted no longer."""
        now = time.monotonic()
        ready = [key for key, end in self._ends().items() if end <= now]
        if not ready:
            return None
        ns = ready[0][0]
        paths = tuple(path for name, path in ready if name == ns)
        for path in paths:
            del self._noted[ns, path]
        return ns, paths

    def _ends(self) -> dict[tuple[str, str], float]:
        """When each has settled. In a burst they settle together: a checkout of a thousand files is one batch."""
        ends = {key: self._end(first, last) for key, (first, last) in self._noted.items()}
        for ns, count in Counter(ns for ns, _ in self._noted).items():
            if count > BURST:
                mine = [times for (name, _), times in self._noted.items() if name == ns]
                together = self._end(min(first for first, _ in mine), max(last for _, last in mine))
                ends.update({key: together for key in ends if key[0] == ns})
        return ends

    def _end(self, first: float, last: float) -> float:
        return min(last + self._settle, first + LONGEST_SETTLE)
