"""When a job is due: an interval or five cron fields, read from a text and computed without looking at a clock."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

OFF = "off"
INTERVAL = re.compile(r"(\d{1,6}) ?([smhdw])")
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MAX_SECONDS = 366 * 86_400
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
NUMBERS = {"month": {name: str(nth) for nth, name in enumerate(MONTHS, 1)},
           "weekday": {name: str(nth) for nth, name in enumerate(WEEKDAYS)}}  # fmt: skip
CRON_FIELD = re.compile(r"[0-9*,/-]+")
WEEKDAY_RANGE = re.compile(r"(?:\*|([0-7])(?:-([0-7]))?)(?:/([1-7]))?")
EVERY_HOUR = ("*", "*/1", "0-23")
MAX_SHIFT = timedelta(hours=2)
"""No zone puts its clocks back by more."""
TICK = timedelta(microseconds=1)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Every:
    """So many seconds after the last time."""

    seconds: int

    def after(self, moment: datetime, zone: tzinfo) -> datetime:
        return moment.astimezone(UTC) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Cron:
    """At local times, as cron understands its five fields; APScheduler finds the times."""

    lines: tuple[dict[str, str], ...]
    """The fields as APScheduler names them. Cron runs a line whose day and weekday are both given when either fits,
    APScheduler when both do: such a line is two here."""

    def after(self, moment: datetime, zone: tzinfo) -> datetime:
        """The first time later than a moment, in UTC.

        A time that the clocks skip in spring comes as much later as they are put forward; one that they show twice in
        autumn comes once, the first time, unless the schedule has every hour.
        """
        # Imported here: only a config file with a cron line needs it, and it takes long to load.
        from apscheduler.triggers.combining import OrTrigger
        from apscheduler.triggers.cron import CronTrigger

        # Asked for times of the wall clock, as if in UTC: when clocks change it skips the hour after the next midnight,
        # and with it a whole month of `0 0 1 * *`.
        trigger = OrTrigger([CronTrigger(**line, timezone=UTC) for line in self.lines])
        folds = (0, 1) if self.lines[0]["hour"] in EVERY_HOUR else (0,)
        time, later = moment.astimezone(zone).replace(tzinfo=UTC, fold=0) - MAX_SHIFT, list[datetime]()
        while time := trigger.get_next_fire_time(None, time + TICK):
            dues = [time.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in folds]
            later += [due for due in dues if due > moment]
            if dues[0] > moment:
                return min(later)
        raise ValueError("a cron line with a day that its months have")


Schedule = Every | Cron


def parse(text: str) -> Schedule | None:
    """The schedule that a text describes; None for `off`. ValueError says what is wrong with it."""
    text = " ".join(text.lower().split())
    if text == OFF:
        return None
    if interval := INTERVAL.fullmatch(text):
        seconds = int(interval[1]) * UNITS[interval[2]]
        if not 1 <= seconds <= MAX_SECONDS:
            raise ValueError('an interval from "1s" to "366d"')
        return Every(seconds)
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise ValueError('an interval such as "1h" or "90m", five cron fields such as "15 3 * * *", or "off"')
    return _cron(fields)


def problem(text: str) -> str:
    """The mistake in a schedule, in words that follow "must be"; empty when nothing is."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _cron(fields: list[str]) -> Cron:
    minute, hour, day, month, weekday = (_checked_field(text, *one) for text, one in zip(fields, FIELDS, strict=True))
    line = {"minute": minute, "hour": hour, "month": month}
    if day.startswith("*") or fields[4].startswith("*"):
        cron = Cron(({**line, "day": day, "day_of_week": weekday},))
    else:
        cron = Cron(({**line, "day": day}, {**line, "day": "*", "day_of_week": weekday}))
    cron.after(EPOCH, UTC)
    return cron


def _checked_field(text: str, name: str, low: int, high: int) -> str:
    """One field as APScheduler reads it: with numbers for names, which it would not check to their end."""
    from apscheduler.triggers.cron import CronTrigger

    field = re.sub("[a-z]+", lambda word: NUMBERS.get(name, {}).get(word[0], word[0]), text)
    try:
        if not CRON_FIELD.fullmatch(field):
            raise ValueError
        if name == "weekday":
            return _weekday_names(field)
        CronTrigger(**{name: field}, timezone=UTC)
    except ValueError:
        raise ValueError(f"a cron line whose {name} is from {low} to {high} (`{text}` is not)") from None
    return field


def _weekday_names(field: str) -> str:
    """Every weekday by its name: cron counts them from Sunday, APScheduler from Monday."""
    names: list[str] = []
    for part in field.split(","):
        if (found := WEEKDAY_RANGE.fullmatch(part)) is None:
            raise ValueError
        first, last, step = found.groups()
        begin, end = (first, last or ("7" if step else first)) if first else ("0", "6")
        days = range(int(begin), int(end) + 1, int(step or 1))
        if not days:
            raise ValueError
        names += [WEEKDAYS[day % 7] for day in days]
    return ",".join(names)


def first_run(schedule: Schedule, last: datetime | None, now: datetime, soon: datetime, zone: tzinfo) -> datetime:
    """When a job that last ran at `last` is due for the first time after a start.

    A job that never ran, or whose time passed while the daemon was down, runs once, soon. A `last` in the future means
    that the clock was put back since: a time that it had come to is not due again, further ones are.
    """
    if last is not None and last > now:
        due = schedule.after(now, zone)
        following = schedule.after(due, zone)
        return following if due <= last < following else due
    due = schedule.after(last, zone) if last is not None else now
    return due if due > now else min(soon, schedule.after(now, zone))


def max_jitter(schedule: Schedule, due: datetime, most: float, zone: tzinfo) -> float:
    """The most seconds by which a run is put off at random: at most a tenth of the time to the next run."""
    return min(most, (schedule.after(due, zone) - due).total_seconds() / 10)
