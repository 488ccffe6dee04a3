"""When a job is due: an interval or five cron fields, read from a text and reckoned without looking at any clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

OFF = "off"
INTERVAL = re.compile(r"(\d{1,6}) ?([smhdw])")
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
LONGEST = 366 * 86_400
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
LEAP_YEARS = 8 * 366 + 1
"""Days until a 29th of February comes, whatever the day: 1900 and 2100 have none."""
MOST_DAYS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again, so many seconds after the last time."""

    seconds: int

    def after(self, moment: datetime, zone: tzinfo) -> datetime:
        return moment.astimezone(UTC) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Cron:
    """At times of the day in a zone, as cron understands its five fields."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    either: bool
    """Both the day and the weekday are named: one of them is enough, as in every cron."""

    def after(self, moment: datetime, zone: tzinfo) -> datetime:
        """The first time later than a moment, in UTC.

        A time that the clocks skip in spring comes as much later as they are put on; one that they show twice in autumn
        comes once, the first time, unless the schedule has every hour.
        """
        first = moment.astimezone(zone).date()
        for nth in range(LEAP_YEARS):
            day = first + timedelta(days=nth)
            if self._has(day):
                later = [at for at in self._times(day, zone) if at > moment]
                if later:
                    return min(later)
        raise ValueError("it never comes")

    def _has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either else of_month and of_week

    def _times(self, day: date, zone: tzinfo) -> Iterator[datetime]:
        folds = (0, 1) if len(self.hours) == 24 else (0,)
        for hour in self.hours:
            for minute in self.minutes:
                for fold in folds:
                    yield datetime.combine(day, time(hour, minute, fold=fold), zone).astimezone(UTC)


Schedule = Every | Cron


def parse(text: str) -> Schedule | None:
    """What a text says; None for `off`. ValueError tells what is wrong with it."""
    text = " ".join(text.lower().split())
    if text == OFF:
        return None
    interval = INTERVAL.fullmatch(text)
    if interval:
        return _interval(int(interval[1]) * UNITS[interval[2]])
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise ValueError('an interval such as "1h" or "90m", five cron fields such as "15 3 * * *", or "off"')
    return _cron(fields)


def problem(text: str) -> str:
    """What is wrong with a schedule, in words that follow "must be"; empty when nothing is."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _interval(seconds: int) -> Every:
    if not 1 <= seconds <= LONGEST:
        raise ValueError('an interval from "1s" to "366d"')
    return Every(seconds)


def _cron(fields: list[str]) -> Cron:
    minutes, hours, days, months, weekdays = (
        frozenset(_field(text, *field)) for text, field in zip(fields, FIELDS, strict=True)
    )
    named = not fields[2].startswith("*"), not fields[4].startswith("*")
    if not all(named) and named[0] and not any(min(days) <= MOST_DAYS.get(month, 31) for month in months):
        raise ValueError("a cron line with a day that its months have")
    return Cron(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), all(named))


def _field(text: str, name: str, low: int, high: int) -> Iterator[int]:
    """The numbers that one field names: `*`, `5`, `1-5`, `*/15`, `mon-fri`, and lists of these."""
    for part in text.split(","):
        found = PART.fullmatch(part)
        if found is None:
            raise _wrong(name, low, high, part)
        first, last, step = found.groups()
        if first == "*":
            begin, end = low, high - (name == "weekday")
        else:
            begin = _number(first, name, low, high)
            end = _number(last, name, low, high) if last else high if step else begin
        if begin > end or step == "0" or (first == "*" and last):
            raise _wrong(name, low, high, part)
        yield from range(begin, end + 1, int(step or 1))


def _number(text: str, name: str, low: int, high: int) -> int:
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(name, [])
    number = names.index(text) + low if text in names else int(text) if re.fullmatch("[0-9]{1,2}", text) else -1
    if not low <= number <= high:
        raise _wrong(name, low, high, text)
    return number


def _wrong(name: str, low: int, high: int, part: str) -> ValueError:
    return ValueError(f"a cron line whose {name} is from {low} to {high} (`{part}` is not)")


def first(schedule: Schedule, last: datetime | None, now: datetime, soon: datetime, zone: tzinfo) -> datetime:
    """When a job is due for the first time after a start, if it last ran at `last`.

    Once soon, where it never ran or its time passed while nobody was there; a `last` in the future says nothing.
    """
    if last is not None and last > now:
        return schedule.after(now, zone)
    due = schedule.after(last, zone) if last is not None else now
    return due if due > now else min(soon, schedule.after(now, zone))


def spread(schedule: Schedule, due: datetime, most: float, zone: tzinfo) -> float:
    """By how many seconds a run may be put off at random: never by more than a tenth of the way to the next one."""
    return min(most, (schedule.after(due, zone) - due).total_seconds() / 10)
