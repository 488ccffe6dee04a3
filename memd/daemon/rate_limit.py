"""How fast one connection may call: so many a second, and so many at once after a rest."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """An allowance that fills up by the second and is used up by calls."""

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
