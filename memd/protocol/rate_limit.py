"""How fast one caller may call: the daemon counts for each connection, the hub for each token."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """How fast one caller may call: an allowance that fills up by the second and is used up by calls."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._seen = clock()

    def allows(self) -> bool:
        """Whether one more call is within the pace; it counts as made then."""
        now = self._clock()
        self._left = min(self._per_second, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
