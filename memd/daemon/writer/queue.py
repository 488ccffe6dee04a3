"""The writer's queue: tasks, and batches of files that are to be indexed; whose turn it is, and who waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from memd.indexer.indexing.ingest import SETTLED, IndexingOptions, IngestReport
from memd.models import FileStat

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
        alike = self.options in (options, replace(options, settle=False))
        shared = paths.intersection(self.paths) if alike and self.ns == ns else set()
        if shared and self.work is None:
            self.jobs.append(job)
            job.total += len(self.paths)
            return shared
        return set()


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
