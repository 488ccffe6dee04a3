"""The tasks that wait for the writer, and whose turn it is."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from memd.daemon.hints import Hints

T = TypeVar("T")


class WriteTask:
    """A task that changes files and leaves the index to the hints, so that it need not wait for the one before it."""

    __slots__ = ()


class BackgroundTask:
    """A task that no person waits for: it comes after a burst of writes."""

    __slots__ = ()


class TaskQueue(Generic[T]):
    """Tasks in the order in which they came, as far as what memd wrote lets them. Not locked: the worker guards it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[T, Future[Any]]] = deque()

    def add(self, task: T, future: Future[Any]) -> None:
        self._waiting.append((task, future))

    @property
    def pressing(self) -> bool:
        """Whether somebody waits for one of them."""
        return any(not isinstance(task, BackgroundTask) for task, _ in self._waiting)

    def take(self, hints: Hints) -> tuple[T, Future[Any]] | None:
        """The next one; None when it is not yet its turn.

        What memd wrote is indexed before anything else moves the clock; but further writes may come first, so that
        a burst of them is indexed in one go.
        """
        if not hints.owes:
            return self._waiting.popleft() if self._waiting else None
        nth = next((nth for nth, (task, _) in enumerate(self._waiting) if not isinstance(task, BackgroundTask)), None)
        if nth is None or not isinstance(self._waiting[nth][0], WriteTask) or hints.overdue:
            return None
        taken = self._waiting[nth]
        del self._waiting[nth]
        return taken
