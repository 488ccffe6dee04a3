"""What waits to be sent to one connection: a bounded queue, so that nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Generic, TypeVar

from memd.daemon.serving.server import ClientConnection
from memd.errors import Busy
from memd.protocol import wire

PER_CONNECTION = 64
IN_ALL = 256
QUEUED = 2_000
QUEUED_CHARS = 1 << 21
"""Items and characters that wait for one slow reader, at most. A slice of an import fits, so a quick reader misses
nothing."""

numbers = itertools.count(1)
"""One sequence for every kind of outbox: a connection ends each by its number."""

T = TypeVar("T")


class Outbox(ABC, Generic[T]):
    """Notifications of one kind for one connection. Used on the loop only."""

    method = ""
    """The method of the notifications."""

    def __init__(self, connection: ClientConnection) -> None:
        self.number = next(numbers)
        self.connection = connection
        self._queue: deque[tuple[T, int] | int] = deque()
        """Items to be sent, with their sizes; a number stands for so many that were dropped there."""
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
    def params_of(self, item: T) -> dict[str, Any]:
        """The parameters of the notification that an item is sent as."""

    async def _send(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._wake.wait():
                while (params := self._next()) is not None:
                    message = wire.encode_notification(self.method, {"subscription": self.number, **params})
                    await self.connection.notify(message)
                self._wake.clear()

    def _next(self) -> dict[str, Any] | None:
        if not self._queue:
            dropped, self._dropped = self._dropped, 0
            return _dropped_params(dropped) if dropped else None
        first = self._queue.popleft()
        if isinstance(first, int):
            return _dropped_params(first)
        item, size = first
        self._chars -= size
        return self.params_of(item)


def _dropped_params(dropped: int) -> dict[str, Any]:
    return {"event": "dropped", "dropped": dropped}


O = TypeVar("O", bound=Outbox[Any])  # noqa: E741


class Outboxes(Generic[O]):
    """All outboxes of one kind; each ends with its connection."""

    def __init__(self) -> None:
        self.all: dict[int, O] = {}
        """Replaced, never changed: the writer reads it from its own thread."""

    def __len__(self) -> int:
        return len(self.all)

    def check_room(self, connection: ClientConnection) -> None:
        """Raise Busy when there are too many."""
        if len(self.all) >= IN_ALL:
            raise Busy(f"memd has {IN_ALL} subscriptions, and takes no more", "end one of them first")
        if sum(other.connection is connection for other in self.all.values()) >= PER_CONNECTION:
            raise Busy(f"a connection may have {PER_CONNECTION} subscriptions", "unsubscribe, or open another one")

    def add(self, outbox: O) -> int:
        """Add it; returns its number."""
        self.all = {**self.all, outbox.number: outbox}
        outbox.connection.subscriptions[outbox.number] = lambda: self._end(outbox)
        return outbox.number

    def end(self, connection: ClientConnection, number: int) -> bool:
        """End one of a connection's; says whether it was there."""
        outbox = self.all.get(number)
        if outbox is None or outbox.connection is not connection:
            return False
        self._end(outbox)
        return True

    def _end(self, outbox: O) -> None:
        outbox.connection.subscriptions.pop(outbox.number, None)
        self.all = {number: other for number, other in self.all.items() if other is not outbox}
        outbox.end()
