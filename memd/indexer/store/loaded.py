"""A value that is loaded when it is first used and can be let go again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Loaded(Generic[T]):
    """Threads that want the value at once load it once. Whoever has got it can use it after it was let go."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._value: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        value = self._value
        if value is None:
            with self._lock:
                if self._value is None:
                    self._value = self._load()
                value = self._value
        return value

    def read(self) -> T:
        """The value as it would be loaded now; it is not kept."""
        return self._load()

    @property
    def loaded(self) -> bool:
        return self._value is not None

    @property
    def present(self) -> T | None:
        """The value if it is loaded."""
        return self._value

    def replace(self, make: Callable[[T | None], T]) -> None:
        """Make another value of the one that is loaded, if any; nobody loads one meanwhile."""
        with self._lock:
            self._value = make(self._value)

    def change(self, work: Callable[[T], None]) -> None:
        """Change the value if it is loaded; one that is being loaded is waited for, since it may lack the change."""
        with self._lock:
            if self._value is not None:
                work(self._value)

    def drop(self) -> T | None:
        """Let the value go; returns it."""
        with self._lock:
            value, self._value = self._value, None
            return value
