"""Days as they are written; times and spans in words, for people: on the command line, on the page, in reasons."""

import time
from datetime import date, datetime

MINUTE, HOUR, DAY = 60, 3_600, 86_400
CALENDAR = (("year", 365 * DAY), ("month", 30 * DAY), ("day", DAY), ("hour", HOUR), ("minute", MINUTE))


def as_day(text: str) -> date | None:
    """The day that a text such as `2026-02-15` is; None if it is none."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def local_time(iso: str | None, form: str = "%Y-%m-%d %H:%M", otherwise: str = "") -> str:
    """A time in the reader's own zone; a text that is no time as it is, and another where there is none."""
    if not iso:
        return otherwise
    try:
        return datetime.fromisoformat(iso).astimezone().strftime(form)
    except ValueError:
        return iso


def seconds_until(iso: str) -> float:
    """From now to a time; less than none for one that has passed."""
    return datetime.fromisoformat(iso).astimezone().timestamp() - time.time()


def in_unit(seconds: float) -> str:
    """`3 hours`, rounded down: in the first unit that it fills."""
    for unit, size in CALENDAR:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1)}"
    return f"{int(seconds)} s"


def duration(seconds: float) -> str:
    """`7.0 s`, `12 min`, `3 h 5 min`, `4 days`, rounded."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / MINUTE)
    if minutes < 120:
        return f"{minutes} min"
    if minutes >= 48 * 60:
        return f"{minutes // 1440} days"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def age(seconds: float) -> str:
    """`90 min`, `30 h`, `14 days`, rounded down."""
    minutes = int(seconds // MINUTE)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 14 * 24 * 60 else f"{minutes // (24 * 60)} days"
