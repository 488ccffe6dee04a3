"""What waits for the writer beside hints: tasks, and imports in slices; whose turn it is, and who waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from memd.daemon.writer.hints import Hints
from memd.indexer.indexing.ingest import IndexingOptions, IngestReport

T = TypeVar("T")


class Turn(Enum):
    """When a task runs while something that memd wrote waits to be indexed."""

    PLAIN = "after it"
    WRITES = "before it: it changes files and leaves indexing them to the hints; it must not move the clock itself"
    BACKGROUND = "after it, and after a burst of writes: nobody waits for it"


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A function that the writer's thread calls. An IndexingJob as its result: the real one comes with that import."""

    do: Callable[..., T | IndexingJob]
    args: tuple[Any, ...]
    turn: Turn


class TaskQueue:
    """The waiting tasks, first come first served but for a burst of writes. Not locked: the worker guards it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Task[Any], Future[Any]]] = deque()

    def __contains__(self, task: Task[Any]) -> bool:
        return any(waiting == task for waiting, _ in self._waiting)

    def add(self, task: Task[Any], future: Future[Any]) -> None:
        self._waiting.append((task, future))

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for one of them."""
        return any(task.turn is not Turn.BACKGROUND for task, _ in self._waiting)

    def take(self, hints: Hints) -> tuple[Task[Any], Future[Any]] | None:
        """The next one; None when it is not yet its turn.

        What memd wrote is indexed before anything else moves the clock, since the answer promised its tick. Only
        further writes may go first, so that a burst of them is indexed in one go.
        """
        if not hints.has_own:
            return self._waiting.popleft() if self._waiting else None
        nth = next((nth for nth, (task, _) in enumerate(self._waiting) if task.turn is not Turn.BACKGROUND), None)
        if nth is None or self._waiting[nth][0].turn is not Turn.WRITES or hints.own_overdue:
            return None
        taken = self._waiting[nth]
        del self._waiting[nth]
        return taken


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
class IndexingSlice:
    """A part of an import."""

    own: ClassVar[frozenset[str]] = frozenset()
    """None of it was written by memd."""
    ns: str
    paths: tuple[str, ...]
    jobs: list[IndexingJob]
    """Those that it is a part of: the same files are not queued twice."""
    options: IndexingOptions
    work: Iterator[IngestReport] | None = None
    """What is left of it, once it has begun."""

    def share(self, ns: str, paths: set[str], job: IndexingJob, options: IndexingOptions) -> set[str]:
        """Have another import wait for this part of an earlier one; returns the paths that it need not queue."""
        # Files that are being written need not be left alone by one that does not.
        alike = self.options in (options, replace(options, settle=False))
        shared = paths.intersection(self.paths) if alike and self.ns == ns else set()
        if shared and self.work is None:
            self.jobs.append(job)
            job.total += len(self.paths)
            return shared
        return set()


def slices(paths: list[str], sizes: dict[str, int]) -> Iterable[tuple[str, ...]]:
    part: list[str] = []
    size = 0
    for path in paths:
        part.append(path)
        size += sizes.get(path, 0)
        if size >= SLICE_BYTES or len(part) >= SLICE_FILES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)
