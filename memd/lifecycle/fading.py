"""How things fade: by the whole days past a limit and never by how often anyone looked, so that twice is once."""

from __future__ import annotations

from datetime import timedelta

DAY = timedelta(days=1)


def days_past(span: timedelta, limit: timedelta) -> int:
    """The whole days by which a span is over a limit."""
    return max(0, (span - limit) // DAY)


def faded(base: float, factor: float, days: int, floor: float) -> float:
    """What is left of a number after so many days; one that begins under the floor stays what it is."""
    return min(base, max(floor, base * factor**days))
