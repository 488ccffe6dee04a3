"""Paths that changed and wait until they have been quiet for a while."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from typing import NamedTuple

LONGEST_SETTLE = 2.0
"""A file that never comes to rest is read all the same after this many seconds."""


BURST = 8
"""More paths than this at once are one event: a checkout, a sync, an unpacked archive."""


class DuePaths(NamedTuple):
    """Paths of one workspace that are to be read; those that memd wrote itself are known to be whole."""

    ns: str
    paths: tuple[str, ...]
    own: frozenset[str]


class Hints:
    """What the watcher saw, by workspace and path. Not locked: the worker guards it."""

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._noted: dict[tuple[str, str], tuple[float, float]] = {}
        self._begun: dict[tuple[str, str], float] = {}
        """When a path was first noted since it was last read at rest."""
        self._own: dict[str, set[str]] = {}
        """What memd wrote itself, by workspace; the workspace that was written to first comes first."""
        self.seen = 0
        """How often something was noted."""
        self._since: dict[tuple[str, str], int] = {}
        """As the how manieth each was first noted since it was last taken."""
        self._in_hand: dict[tuple[str, str], int] = {}
        self._waiters: list[tuple[int, Future[None]]] = []

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, ns: str, path: str) -> None:
        now = time.monotonic()
        self.seen += 1
        self._since.setdefault((ns, path), self.seen)
        self._noted[ns, path] = (self._begun.setdefault((ns, path), now), now)

    def own(self, ns: str, path: str) -> None:
        """A path that memd wrote itself: it is at rest, and its turn on the clock is promised."""
        self.note(ns, path)
        self._own.setdefault(ns, set()).add(path)

    def turn(self, ns: str) -> int:
        """How many changes of the index it takes until memd's own writes to a workspace are in it; 0 when they are."""
        return list(self._own).index(ns) + 1 if ns in self._own else 0

    @property
    def owes(self) -> bool:
        return bool(self._own)

    @property
    def overdue(self) -> bool:
        """Whether memd's own writes have waited for as long as anything may."""
        firsts = [self._noted[ns, path][0] for ns, paths in self._own.items() for path in paths]
        return bool(firsts) and time.monotonic() - min(firsts) > LONGEST_SETTLE

    def restless(self, ns: str, path: str) -> bool:
        """Whether a path that is being written should wait; one that never rests should not wait for ever."""
        return time.monotonic() - self._begun.get((ns, path), time.monotonic()) < LONGEST_SETTLE

    def read(self, ns: str, paths: Iterable[str], restless: Iterable[str] = ()) -> None:
        """These were read at rest, but for some that must be read again."""
        unread = set(restless)
        for path in unread:
            self.note(ns, path)
            self._still_due(ns, path)
        for path in set(paths) - unread:
            self._begun.pop((ns, path), None)

    def later(self, ns: str, paths: Iterable[str], seconds: float) -> None:
        """Come back to these in a while."""
        again = time.monotonic() + seconds
        for path in paths:
            self._noted[ns, path] = (again, again)
            self._since.setdefault((ns, path), self.seen)
            self._still_due(ns, path)

    def _still_due(self, ns: str, path: str) -> None:
        self._since[ns, path] = min(self._since[ns, path], self._in_hand.get((ns, path), self.seen))

    @property
    def oldest(self) -> float | None:
        """When the longest waiting one was first seen."""
        return min((first for first, _ in self._noted.values()), default=None)

    def wait(self) -> float:
        """Seconds until one has settled; infinite when there is none."""
        ends = self._ends()
        return max(0.0, min(ends.values()) - time.monotonic()) if ends else float("inf")

    def take(self, hurry: bool = False) -> DuePaths | None:
        """The settled paths of one workspace, which are noted no longer; memd's own need not settle in a hurry."""
        now = time.monotonic()
        ready = [key for key, end in self._ends().items() if end <= now]
        own: set[str] = set()
        if self._own and (ready or hurry):
            # Before everything else, for the clock's next ticks are theirs.
            first = next(iter(self._own))
            own = self._own.pop(first)
            ready = [key for key in ready if key[0] == first] + [(first, path) for path in own]
        if not ready:
            return None
        ns = ready[0][0]
        paths = tuple(dict.fromkeys(path for name, path in ready if name == ns))
        for path in paths:
            del self._noted[ns, path]
            self._in_hand[ns, path] = self._since.pop((ns, path))
        return DuePaths(ns, paths, frozenset(own))

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

    # --- who waits for them ---------------------------------------------------------------------------------

    @property
    def _done(self) -> int:
        """Everything that was noted up to this number has been dealt with."""
        return min((*self._since.values(), *self._in_hand.values()), default=self.seen + 1) - 1

    @property
    def awaited(self) -> bool:
        return bool(self._waiters)

    def promise(self, future: Future[None]) -> bool:
        """Keep a future until all that is noted by now has been dealt with; False when it has been."""
        due = self._done < self.seen
        if due:
            self._waiters.append((self.seen, future))
        return due

    def put_down(self) -> list[Future[None]]:
        """What was taken has been dealt with; answers who need not wait any longer."""
        self._in_hand.clear()
        done = self._done
        ready = [future for target, future in self._waiters if target <= done]
        self._waiters = [(target, future) for target, future in self._waiters if target > done]
        return ready
