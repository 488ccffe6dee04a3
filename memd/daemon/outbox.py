"""What waits to be sent to one connection: a bounded queue, so that nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Generic, TypeVar

from memd.daemon.server import ClientWriter
from memd.errors import Busy
from memd.protocol import wire

PER_CONNECTION = 64
IN_ALL = 256
QUEUED = 2_000
QUEUED_CHARS = 1 << 21
"""What waits for one slow reader, at most. A slice of an import fits, so a quick one misses nothing."""

numbers = itertools.count(1)
"""Of a process: one connection may have outboxes of several kinds, and ends each by its number."""

T = TypeVar("T")


class Outbox(ABC, Generic[T]):
    """Notifications of one kind for one connection. Used on the loop only."""

    method = ""
    """The method of the notifications."""

    def __init__(self, line: ClientWriter) -> None:
        self.number = next(numbers)
        self.line = line
        self._queue: deque[tuple[T, int] | int] = deque()
        """What is to be sent, with its size; a number stands where so many were dropped."""
        self._chars = 0
        self._dropped = 0
        self._wake = asyncio.Event()
        self._sender = asyncio.create_task(self._send())

    def end(self) -> None:
        self._sender.cancel()

    def take(self, item: T, size: int) -> None:
        """Queue it, or count it where the queue is full."""
        if len(self._queue) >= QUEUED or (self._queue and self._chars + size > QUEUED_CHARS):
            self._dropped += 1
        else:
            if self._dropped:
                self._queue.append(self._dropped)
                self._dropped = 0
            self._queue.append((item, size))
            self._chars += size
        self._wake.set()

    @abstractmethod
    def told(self, item: T) -> dict[str, Any]:
        """How an item is sent."""

    async def _send(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._wake.wait():
                while (message := self._next()) is not None:
                    params = {"subscription": self.number, **message}
                    await self.line.notify(wire.encode_notification(self.method, params))
                self._wake.clear()

    def _next(self) -> dict[str, Any] | None:
        if not self._queue:
            dropped, self._dropped = self._dropped, 0
            return _lost(dropped) if dropped else None
        first = self._queue.popleft()
        if isinstance(first, int):
            return _lost(first)
        item, size = first
        self._chars -= size
        return self.told(item)


def _lost(dropped: int) -> dict[str, Any]:
    return {"event": "dropped", "dropped": dropped}


O = TypeVar("O", bound=Outbox[Any])  # noqa: E741


class Outboxes(Generic[O]):
    """All outboxes of one kind; each ends with its connection."""

    def __init__(self) -> None:
        self.all: dict[int, O] = {}
        """Replaced, never changed: the writer reads it from its own thread."""

    def __len__(self) -> int:
        return len(self.all)

    def room_for(self, line: ClientWriter) -> None:
        """Busy, when there are enough of them."""
        if len(self.all) >= IN_ALL:
            raise Busy(f"memd has {IN_ALL} subscriptions, and takes no more", "end one of them first")
        if sum(other.line is line for other in self.all.values()) >= PER_CONNECTION:
            raise Busy(f"a connection may have {PER_CONNECTION} subscriptions", "unsubscribe, or open another one")

    def add(self, made: O) -> int:
        self.all = {**self.all, made.number: made}
        made.line.closing[made.number] = lambda: self._end(made)
        return made.number

    def end(self, line: ClientWriter, number: int) -> bool:
        """End one of a connection's; says whether it was there."""
        known = self.all.get(number)
        if known is None or known.line is not line:
            return False
        self._end(known)
        return True

    def _end(self, ended: O) -> None:
        ended.line.closing.pop(ended.number, None)
        self.all = {number: other for number, other in self.all.items() if other is not ended}
        ended.end()
