"""What a task of the writer is, and whose turn it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, dataclass_transform

from memd.daemon.hints import Hints
from memd.daemon.indexing import IndexingJob

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
class Task(ABC, Generic[T]):
    """Something the writer is asked to do. Every subclass is a frozen dataclass; memd/daemon/tasks/ has them all."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)

    @abstractmethod
    def run(self, worker: Any) -> T | IndexingJob:
        """Do it, on the writer's thread. An IndexingJob says that the result comes when that import has ended."""


class WriteTask(Task[T]):
    """A task that changes files and leaves indexing them to the hints: it must not move the clock itself."""


class BackgroundTask(Task[T]):
    """A task that nobody waits for: it comes after a burst of writes."""


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
        return any(not isinstance(task, BackgroundTask) for task, _ in self._waiting)

    def take(self, hints: Hints) -> tuple[Task[Any], Future[Any]] | None:
        """The next one; None when it is not yet its turn.

        What memd wrote is indexed before anything else moves the clock, since the answer promised its tick. Only
        further writes may go first, so that a burst of them is indexed in one go.
        """
        if not hints.has_own:
            return self._waiting.popleft() if self._waiting else None
        nth = next((nth for nth, (task, _) in enumerate(self._waiting) if not isinstance(task, BackgroundTask)), None)
        if nth is None or not isinstance(self._waiting[nth][0], WriteTask) or hints.own_overdue:
            return None
        taken = self._waiting[nth]
        del self._waiting[nth]
        return taken
