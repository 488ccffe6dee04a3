"""What was read last, by key, up to a size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key, up to a total size; the least recently used go first, but for the last one."""

    def __init__(self, most: int, size_of: Callable[[Value], int]) -> None:
        self.most, self.size_of = most, size_of
        self.total = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, read: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        # Not under the lock: two threads may read the same value, but nobody waits for another's disk.
        found = read()
        with self._lock:
            self._drop(key)
            self._values[key] = found
            self.total += self.size_of(found)
            while self.total > self.most and len(self._values) > 1:
                self._drop(next(iter(self._values)))
        return found

    def keep(self, wanted: Callable[[Key], bool]) -> None:
        """Drop every value whose key is not wanted."""
        with self._lock:
            for key in [key for key in self._values if not wanted(key)]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self.total -= self.size_of(self._values.pop(key))
