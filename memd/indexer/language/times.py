"""What a question says of time, and how near a note is to it. Pure: days in, numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from memd.indexer.language import when
from memd.indexer.language.dates import days_on, years_on
from memd.indexer.language.when import TimeSpan

AFTERWARDS = 14
"""Days: what happened is often told some days later."""

TOLD_LATER = 0.7
"""What the day after is worth, fading to nothing."""

DAY_BEFORE = 0.3
"""Plans, and a clock in another time zone."""

LONG = 300
OF_A_YEAR = 0.3
"""A year or more narrows little down."""

EXACT = 62
"""Days: a longer time is named by too many lines to tell them apart."""

FADING = 90.0
UNDATED = 0.3
"""A note without a date, and MEMORY.md, which never ages: as new as one of a hundred days."""


@dataclass(frozen=True, slots=True)
class AskedTimes:
    """The times a question names, and whether it asks for one or for the newest."""

    spans: tuple[TimeSpan, ...] = ()
    temporal: bool = False
    recent: bool = False


def asked(text: str, today: date) -> AskedTimes:
    return AskedTimes(tuple(when.spans(text, today)), when.temporal(text), when.recent(text))


def without(text: str, times: AskedTimes) -> str:
    """A question without the words that name its times."""
    for span in sorted(times.spans, key=lambda span: -span.start):
        text = f"{text[: span.start]} {text[span.end :]}"
    return text


def nearness(day: date | None, times: AskedTimes) -> float:
    """How near a note's day is to the times that a question names: 1 is within, 0 far away or none named."""
    if day is None:
        return 0.0
    return max((_near(day, span) for span in times.spans), default=0.0)


def _near(day: date, span: TimeSpan) -> float:
    worth = OF_A_YEAR if (span.last - span.first).days > LONG else 1.0
    if span.meets(day):
        return worth
    return worth * max(_beside(day, first, last) for first, last in _in_years(span, day))


def _beside(day: date, first: date, last: date) -> float:
    """What a day is worth that is not within: most the day after, something the day before."""
    if 0 < (day - last).days <= AFTERWARDS:
        return TOLD_LATER * (1 - (day - last).days / (AFTERWARDS + 1))
    return DAY_BEFORE if (first - day).days == 1 else 0.0


def _in_years(span: TimeSpan, day: date) -> list[tuple[date, date]]:
    """The span's ends, in the years around `day` where it names none: New Year's Eve is told in January."""
    if not span.any_year:
        return [(span.first, span.last)]
    length = (span.last - span.first).days
    firsts = [years_on(span.first, day.year + step - span.first.year) for step in (-1, 0, 1)]
    return [(first, days_on(first, length)) for first in firsts]


def tells(text: str, day: date | None, times: AskedTimes) -> bool:
    """Whether a line speaks of the very days that a question names, seen from the day it was written."""
    exact = [span for span in times.spans if (span.last - span.first).days <= EXACT]
    if not exact or day is None:
        return False
    return any(span.meets(told.first, told.last) for told in told_in(text, day) for span in exact if _brief(told))


def _brief(told: TimeSpan) -> bool:
    return (told.last - told.first).days < EXACT / 2


@lru_cache(maxsize=20_000)
def told_in(text: str, day: date) -> tuple[TimeSpan, ...]:
    """The times that a line speaks of; kept, since a line is read again for the next question."""
    return tuple(when.resolve(text, day))


def newness(day: date | None, today: date, ageless: bool) -> float:
    """1 today, less with every month."""
    if day is None or ageless:
        return UNDATED
    return math.exp(-max(0, (today - day).days) / FADING)
