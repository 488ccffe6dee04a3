"""What a task of the writer is, and whose turn it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from memd.daemon.hints import Hints
from memd.daemon.indexing import IndexingJob

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
