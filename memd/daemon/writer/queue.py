"""What waits for the writer: tasks, imports, and paths that changed, until they have been quiet for a while; whose turn
it is, and who waits for it."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from memd.indexer.indexing.ingest import SETTLED, IndexingOptions, IngestReport
from memd.models import FileStat

T = TypeVar("T")

# --- tasks ------------------------------------------------------------------------------------------------------


class Turn(Enum):
    """When a task runs while something that memd wrote waits to be indexed."""

    PLAIN = "after it"
    WRITES = "before it: it changes files and leaves indexing them to the hints; it must not move the clock itself"
    BACKGROUND = "after it, and after a burst of writes: nobody waits for it"


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A function that the writer's thread calls. An IndexingJob as its result: the real one comes with that import."""

    do: "Callable[..., T | IndexingJob]"
    args: tuple[Any, ...]
    turn: Turn
    future: Future[T] = field(default_factory=Future, compare=False)


class TaskQueue(deque[Task[Any]]):
    """The waiting tasks, first come first served but for a burst of writes. Not locked: the worker guards it."""

    @property
    def urgent(self) -> list[Task[Any]]:
        """Those that somebody waits for."""
        return [task for task in self if task.turn is not Turn.BACKGROUND]

    def take(self, own_waits: bool, own_overdue: bool) -> Task[Any] | None:
        """The next one; None when it is not yet its turn.

        What memd wrote is indexed before anything else moves the clock, since the answer promised its tick. Only
        further writes may go first, so that a burst of them is indexed in one go.
        """
        if not own_waits:
            return self.popleft() if self else None
        task = next(iter(self.urgent), None)
        if task is None or task.turn is not Turn.WRITES or own_overdue:
            return None
        self.remove(task)
        return task


# --- imports ----------------------------------------------------------------------------------------------------

SLICE_BYTES = 1_000_000
SLICE_FILES = 500
"""A slice is a commit or two of each store; whoever waits gets in between the pieces of it."""


@dataclass(slots=True)
class IndexingJob:
    """An import under way: who waits for it and how far it is."""

    total: int = 0
    future: Future[IngestReport] = field(default_factory=Future)
    report: IngestReport = field(default_factory=IngestReport)
    done: int = 0
    error: Exception | None = None
    started: float = field(default_factory=time.monotonic)

    def progress(self, files: int) -> None:
        """Some files more are done."""
        self.done += files
        if self.done < self.total:
            return
        self.report.took_ms = (time.monotonic() - self.started) * 1000
        if self.error is None:
            self.future.set_result(self.report)
        else:
            self.future.set_exception(self.error)


@dataclass(slots=True, eq=False)
class Batch:
    """Paths of one workspace that are read together: they were seen to change, or are a slice of an import."""

    ns: str
    paths: tuple[str, ...]
    options: IndexingOptions = SETTLED
    own: frozenset[str] = frozenset()
    """Those that memd wrote itself, which are known to be whole."""
    jobs: list[IndexingJob] = field(default_factory=list)
    """The imports that it is a slice of: the same files are not queued twice."""
    work: Iterator[IngestReport] | None = None
    """The rest of it, once it has begun."""

    def share(self, ns: str, paths: set[str], job: IndexingJob, options: IndexingOptions) -> set[str]:
        """Have another import wait for this slice of an earlier one; returns the paths that it need not queue."""
        # Files that are being written need not be left alone by one that does not.
        alike = self.ns == ns and self.options in (options, replace(options, settle=False))
        shared = paths.intersection(self.paths) if alike and self.work is None else set()
        if shared:
            self.jobs.append(job)
            job.total += len(self.paths)
        return shared


def slices(paths: list[str], files: Mapping[str, FileStat]) -> Iterable[tuple[str, ...]]:
    part: list[str] = []
    size = 0
    for path in paths:
        part.append(path)
        size += files[path].size if path in files else 0
        if size >= SLICE_BYTES or len(part) >= SLICE_FILES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


# --- changed paths --------------------------------------------------------------------------------------------

LONGEST_SETTLE = 2.0
"""A file that never comes to rest is read all the same after this many seconds."""
BURST = 8
"""More paths than this at once are one event: a checkout, a sync, an unpacked archive."""

Key = tuple[str, str]
"""Workspace and path."""


@dataclass(slots=True)
class _Change:
    """A path that is to be read."""

    event: int
    """Sequence number of its first event since it was last taken."""
    first: float
    last: float

    def settled(self, settle: float) -> float:
        """When it has been quiet for long enough."""
        return min(self.last + settle, self.first + LONGEST_SETTLE)


class Hints:
    """Changed paths, by workspace. Not locked: the worker guards it."""

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self.changes: dict[Key, _Change] = {}
        self._restless_since: dict[Key, float] = {}
        """Time of each path's first event since it was last read at rest."""
        self._own: dict[str, set[str]] = {}
        """The paths that memd wrote itself, by workspace, the one that was written to first at the front."""
        self._events = 0
        self._in_progress: dict[Key, int] = {}
        """Sequence numbers of the paths that were taken and are being read."""
        self.waiters: list[tuple[int, Future[None]]] = []
        """Who waits until every event up to a number has been dealt with."""

    def mark_changed(self, ns: str, path: str) -> None:
        """A path changed."""
        now = time.monotonic()
        self._events += 1
        self._put((ns, path), self._restless_since.setdefault((ns, path), now), now)

    def mark_written(self, ns: str, path: str) -> None:
        """A path that memd wrote itself: it is at rest, and its tick of the clock is promised."""
        self.mark_changed(ns, path)
        self._own.setdefault(ns, set()).add(path)

    def _put(self, key: Key, first: float, last: float) -> None:
        known = self.changes.get(key)
        self.changes[key] = _Change(known.event if known else self._events, first, last)

    @property
    def has_own(self) -> bool:
        """Whether something that memd wrote itself waits."""
        return bool(self._own)

    @property
    def own_overdue(self) -> bool:
        """Whether memd's own writes have waited for as long as anything may."""
        firsts = [self.changes[ns, path].first for ns, paths in self._own.items() for path in paths]
        return bool(firsts) and time.monotonic() - min(firsts) > LONGEST_SETTLE

    def may_wait(self, ns: str, path: str) -> bool:
        """Whether a path that is still being written should be read later; one that never rests should not."""
        return time.monotonic() - self._restless_since.get((ns, path), time.monotonic()) < LONGEST_SETTLE

    def mark_read(self, ns: str, paths: Iterable[str], restless: Iterable[str] = ()) -> None:
        """These were read; the restless ones of them must be read again."""
        unread = set(restless)
        for path in unread:
            self.mark_changed(ns, path)
            self._keep_due((ns, path))
        for path in set(paths) - unread:
            self._restless_since.pop((ns, path), None)

    def retry_later(self, ns: str, paths: Iterable[str], seconds: float) -> None:
        again = time.monotonic() + seconds
        for path in paths:
            self._put((ns, path), again, again)
            self._keep_due((ns, path))

    def _keep_due(self, key: Key) -> None:
        """The events that led to this read have not been dealt with: who waits for them waits on."""
        change = self.changes[key]
        change.event = min(change.event, self._in_progress.get(key, self._events))

    @property
    def oldest(self) -> float:
        """When the longest waiting one was first seen; infinite when there is none."""
        return min((change.first for change in self.changes.values()), default=float("inf"))

    def seconds_until_due(self) -> float:
        """Seconds until a path has settled; infinite when there is none."""
        return max(0.0, min(self._settled().values(), default=float("inf")) - time.monotonic())

    def take(self, hurry: bool = False, only_own: bool = False) -> Batch | None:
        """The settled paths of one workspace, which wait no longer; in a hurry memd's own writes need not settle."""
        now = time.monotonic()
        ready = [key for key, settled in self._settled().items() if settled <= now and not only_own]
        own: set[str] = set()
        if self._own and (ready or hurry):
            # Before everything else: the clock's next ticks were promised to them.
            first = next(iter(self._own))
            own = self._own.pop(first)
            others = [key for key in ready if key[0] == first]
            # Many others can wait: those of memd's own go in one piece.
            ready = (others if len(others) <= BURST else []) + [(first, path) for path in own]
        if not ready:
            return None
        ns = ready[0][0]
        paths = tuple(dict.fromkeys(path for name, path in ready if name == ns))
        for path in paths:
            self._in_progress[ns, path] = self.changes.pop((ns, path)).event
        return Batch(ns, paths, own=frozenset(own))

    def _settled(self) -> dict[Key, float]:
        """When each path has settled. In a burst they settle together: a checkout of a thousand files is one batch."""
        times = {key: change.settled(self._settle) for key, change in self.changes.items()}
        for ns, count in Counter(ns for ns, _ in self.changes).items():
            if count > BURST:
                burst = [change for (name, _), change in self.changes.items() if name == ns]
                whole = _Change(0, min(one.first for one in burst), max(one.last for one in burst))
                times.update({key: whole.settled(self._settle) for key in times if key[0] == ns})
        return times

    # --- who waits for them ---------------------------------------------------------------------------------

    @property
    def _done(self) -> int:
        """Every event up to this number has been dealt with."""
        open_events = (*(change.event for change in self.changes.values()), *self._in_progress.values())
        return min(open_events, default=self._events + 1) - 1

    def wait_for_all(self, future: Future[None]) -> bool:
        """Keep a future until every event so far has been dealt with; False when there is nothing to wait for."""
        if waits := self._done < self._events:
            self.waiters.append((self._events, future))
        return waits

    def finish(self, due: Batch) -> list[Future[None]]:
        """The paths that were taken are done; returns the futures that need not wait any longer."""
        for path in due.paths:
            self._in_progress.pop((due.ns, path), None)
        done = self._done
        ready = [future for event, future in self.waiters if event <= done]
        self.waiters = [(event, future) for event, future in self.waiters if event > done]
        return ready
