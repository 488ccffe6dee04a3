"""Finds the times that a question or a note names, as spans of days, and says how near a note is to them. Pure.

The expressions are in `times.toml`, by hand, since no library fits: those that know "last week" answer with a moment
rather than with its days, take "may" and "sat" for dates and are slow (dateparser: 270 ms to import, 3 ms a question;
parsedatetime: 40 ms and 0.15 ms, unmaintained); datefinder and fast-parse-time know neither "last week" nor "in June".
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from memd.indexer.language import dates
from memd.indexer.language.dates import ENGLISH, Period, days_on, years_on

SATURDAY, SUNDAY = 5, 6


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The days that an expression means, and its place in the text.

    An open end is `date.min` ("before June") or `now` ("since June").
    """

    first: date
    last: date
    text: str
    start: int
    end: int
    any_year: bool = False
    """The expression names no year; `first` and `last` are those of the latest year that has begun."""

    def meets(self, first: date, last: date | None = None) -> bool:
        """Whether a day or a range of days overlaps the span."""
        last = last or first
        return any(own_first <= last and first <= own_last for own_first, own_last in self.around(first, last))

    def around(self, first: date, last: date) -> Iterator[Period]:
        """The span, in the years around these days if it names none: notes of January tell of New Year's Eve."""
        long = self.first < self.last
        for years in range(first.year - self.last.year - 1, last.year - self.first.year + 2) if self.any_year else (0,):
            yield years_on(self.first, years), years_on(self.last, years, end=long)


def spans(text: str, now: date, language: str | None = None) -> list[TimeSpan]:
    """Every time that a text names, in order; `now` is the day that it was written or asked on."""
    low = text.lower()
    if len(low) != len(text):  # "İ" grows when lowered, and places must stay.
        low = "".join(char.lower() if char.isascii() else char for char in text)
    atoms: list[TimeSpan] = []
    for cues, read, pattern in dates.rules_for(text, low, language):
        if not cues or any(cue in low for cue in cues):
            atoms += _read(pattern, read, text, low, now, atoms)
    atoms.sort(key=lambda span: span.start)
    return _joined(_with_weekdays(atoms, text, low, now), text, low, now) if atoms else []


def single(text: str, now: date) -> TimeSpan | None:
    """The span of a text that is one expression and nothing else; it needs no preposition."""
    text = text.strip()
    article = len(text) - len(ALONE.sub("", text))
    for lead in ("", "in ", "on "):
        found = spans(lead + text, now)
        if len(found) == 1 and found[0].start <= len(lead) + article and found[0].end == len(lead + text):
            return found[0]
    return None


# --- questions about time ------------------------------------------------------------------------------------------

ASKS_WHEN, NEWEST, LATELY, ASKS_NEWEST = (
    re.compile(str(dates.TABLES["questions"][name])) for name in ("when", "newest", "lately", "recent")
)


@dataclass(frozen=True, slots=True)
class QuestionTimes:
    """The times that a question names, and whether it asks about time or for the newest state of things."""

    spans: tuple[TimeSpan, ...] = ()
    temporal: bool = False
    recent: bool = False
    newest: bool = False
    """Whether it says so with a word that asks for nothing else: "latest"."""
    relative: tuple[TimeSpan, ...] = ()
    """Those of the spans that are counted from today: "yesterday", "on Monday", "last week"."""


def question_times(text: str, today: date) -> QuestionTimes:
    low = text.lower()
    newest = bool(NEWEST.search(low))
    recent = newest or bool(ASKS_NEWEST.search(low))
    named = tuple(spans(text, today))
    relative = tuple(span for span in named if _is_relative(span, today))
    return QuestionTimes(named, recent or bool(ASKS_WHEN.search(low)), recent, newest, relative)


def _is_relative(span: TimeSpan, today: date) -> bool:
    """Whether it would mean other days if it were asked a week and a day ago."""
    before = single(span.text, days_on(today, -8))
    return not span.any_year and before is not None and (before.first, before.last) != (span.first, span.last)


POSSESSIVE = re.compile(r"^['’]s\b")


def without_times(text: str, times: QuestionTimes) -> str:
    """A question without the words that name its times."""
    for span in sorted(times.spans, key=lambda span: -span.start):
        text = f"{text[: span.start]} {POSSESSIVE.sub('', text[span.end :])}"
    return text


# --- finding ------------------------------------------------------------------------------------------------


def _read(
    pattern: re.Pattern[str], read: dates.Reader, text: str, low: str, now: date, taken: list[TimeSpan]
) -> list[TimeSpan]:
    atoms = []
    for match in pattern.finditer(low):
        start, end = match.span()
        if any(start < span.end and span.start < end for span in taken):
            continue
        try:
            reading = read(match, text, now)
        except (ValueError, OverflowError):
            continue  # The calendar has no such day.
        if reading:
            (first, last), any_year = reading
            atoms.append(TimeSpan(min(first, last), max(first, last), text[start:end], start, end, any_year))
    return atoms


BESIDE = re.compile(r"[\s,.(（]*(?:(?:the|den|der|dem|le|il|el)\s+)?")
"""What may stand between a weekday and its date."""
LEAD, NTH, JOINT, AND, ALONE = map(ENGLISH.pattern, ("lead", "nth", "joint", "and", "alone"))


def _joined(atoms: list[TimeSpan], text: str, low: str, now: date) -> list[TimeSpan]:
    """Expressions combined with the words around them: ranges, open ends, "the first week of"."""
    joined: list[TimeSpan] = []
    rest = iter(zip(atoms, [*atoms[1:], None], strict=True))
    for atom, other in rest:
        lead = LEAD.search(low, max(0, atom.start - 40), atom.start)
        nth = None if lead else NTH.search(low, max(0, atom.start - 40), atom.start)
        word = lead["word"] if lead else ""
        span = atom
        if other and (AND if word == "between" else JOINT).fullmatch(low, atom.end, other.start):
            span = _range(atom, other, text, lead.start("word") if lead and word in ("between", "from") else atom.start)
            next(rest)
        elif lead and word not in ("between", "from"):
            first, last = _open(lead, atom, now)
            span = TimeSpan(first, last, text[lead.start() : atom.end], lead.start(), atom.end)
        elif nth:
            first, last = _nth(nth, atom)
            span = TimeSpan(first, last, text[nth.start() : atom.end], nth.start(), atom.end, atom.any_year)
        # In "the Sunday before June 9" Sunday was read as an expression of its own first.
        joined = [earlier for earlier in joined if earlier.end <= span.start]
        joined.append(span)
    return joined


def _with_weekdays(atoms: list[TimeSpan], text: str, low: str, now: date) -> list[TimeSpan]:
    """The expressions, each date as one with its weekday beside it: "Monday, 6 October 2025", "2025-10-06 (Mon)"."""
    whole = list[TimeSpan]()
    for atom in atoms:
        if whole and BESIDE.fullmatch(low, whole[-1].end, atom.start):
            day, dated = sorted((whole[-1], atom), key=_has_digits)
            if not _has_digits(day) and _has_digits(dated) and _is_weekday_of(day, dated, now):
                start = whole.pop().start
                atom = replace(dated, text=text[start : atom.end], start=start, end=atom.end)
        whole.append(atom)
    return whole


def _is_weekday_of(day: TimeSpan, dated: TimeSpan, now: date) -> bool:
    """Whether an expression is the weekday of a date: it is the same one yesterday, which "yesterday" is not."""
    if day.first != day.last or dated.first != dated.last:
        return False
    before, weekday = single(day.text, days_on(now, -1)), day.first.weekday()
    same = before is not None and before.first.weekday() == weekday
    return same and (dated.any_year or dated.first.weekday() == weekday)


def _has_digits(span: TimeSpan) -> bool:
    return any(map(str.isdigit, span.text))


def _range(one: TimeSpan, other: TimeSpan, text: str, start: int) -> TimeSpan:
    """From one span to the other; a side without a year takes the year nearest to the other side."""
    first, last = one.first, other.last
    if one.any_year:
        first = years_on(first, other.first.year - first.year)
        first = first if first <= other.first else years_on(first, -1)
    elif other.any_year:
        last = years_on(last, one.first.year - last.year, end=True)
        last = last if last >= one.first else years_on(last, 1, end=True)
    any_year = one.any_year and other.any_year
    return TimeSpan(min(first, last), max(first, last), text[start : other.end], start, other.end, any_year)


def _open(lead: re.Match[str], atom: TimeSpan, now: date) -> Period:
    """The days before, until, since or after an expression, or only the week before it."""
    word = lead["word"]
    if word in ("before", "after"):
        way, edge = (-1, atom.first) if word == "before" else (1, atom.last)
        if lead["count"]:
            return dates.about(ENGLISH.counts(lead["count"]), lead["unit"], edge, way)
        edge = days_on(edge, way)
        if lead["beside"]:
            return _beside(lead["beside"], edge, way)
        return (date.min, edge) if word == "before" else _from(edge, now)
    return _from(atom.first, now) if word == "since" else (date.min, atom.last)


def _from(first: date, now: date) -> Period:
    return first, now if first <= now else date.max


def _beside(unit: str, edge: date, way: int) -> Period:
    """The day, weekday, week, weekend, month or year next to a day, before (-1) or after (1) it."""
    if unit == "weekend":
        day = _nearest(SUNDAY, edge, -1) if way < 0 else days_on(_nearest(SATURDAY, edge, 1), 1)
        return days_on(day, -1), day
    if weekday := ENGLISH.meaning("weekdays", unit):
        day = _nearest(int(weekday), edge, way)
        return day, day
    far = days_on(edge, way * (dates.UNIT_DAYS.get(unit, 1) - 1))
    return min(edge, far), max(edge, far)


def _nth(lead: re.Match[str], atom: TimeSpan) -> Period:
    """The first week, the last two days, the second half of a period."""
    nth, many, unit = lead["nth"], ENGLISH.counts(lead["count"] or "one")[1], lead["unit"]
    if unit == "weekend":
        nearest = _nearest(SUNDAY, atom.last, -1) if nth == "last" else _nearest(SATURDAY, atom.first, 1)
        saturday = days_on(nearest, -1 if nth == "last" else 7 * (ENGLISH.value("ordinals", nth) - 1))
        return saturday, days_on(saturday, 1)
    size = (atom.last.toordinal() - atom.first.toordinal() + 2) // 2 if unit == "half" else dates.UNIT_DAYS[unit]
    if nth == "last":
        return max(atom.first, days_on(atom.last, 1 - size * many)), atom.last
    first = min(atom.last, days_on(atom.first, size * (ENGLISH.value("ordinals", nth) - 1)))
    return first, min(atom.last, days_on(first, size * many - 1))


def _nearest(weekday: int, edge: date, way: int) -> date:
    """The nearest such weekday before (-1) or after (1) a day, or the day itself."""
    return days_on(edge, way * (way * (weekday - edge.weekday()) % 7))


# --- how near a note is ---------------------------------------------------------------------------------------

AFTERWARDS = 14
"""Days: notes often report what happened some days later."""

TOLD_LATER = 0.7
"""The worth of the day after; it fades to nothing within AFTERWARDS."""

DAY_BEFORE = 0.3
"""Plans, and clocks in other time zones."""

LONG_DAYS = 300
LONG_WORTH = 0.3
"""A year or more narrows little down."""

EXACT_DAYS = 62
"""Too many lines name a longer time to tell them apart by it."""

FADING_DAYS = 90.0
UNDATED = 0.3
"""A note without a date, and MEMORY.md, which never ages: as new as a note of a hundred days."""


def nearness(day: date | None, times: QuestionTimes) -> float:
    """How near a note's day is to the times that a question names: 1 is within, 0 far away or no time named."""
    return max((_near(day, span) for span in times.spans), default=0.0) if day is not None else 0.0


def _near(day: date, span: TimeSpan) -> float:
    worth = LONG_WORTH if (span.last - span.first).days > LONG_DAYS else 1.0
    if span.meets(day):
        return worth
    return worth * max(_worth_outside(day, first, last) for first, last in span.around(day, day))


def _worth_outside(day: date, first: date, last: date) -> float:
    """The worth of a day outside of a span: most the day after, something the day before."""
    if 0 < (day - last).days <= AFTERWARDS:
        return TOLD_LATER * (1 - (day - last).days / (AFTERWARDS + 1))
    return DAY_BEFORE if (first - day).days == 1 else 0.0


def names_asked_days(line: str, day: date | None, times: QuestionTimes) -> bool:
    """Whether a line of a note of this day names the days that a question asks about."""
    exact = [span for span in times.spans if (span.last - span.first).days <= EXACT_DAYS]
    if not exact or day is None:
        return False
    brief = [named for named in spans(line, day) if (named.last - named.first).days < EXACT_DAYS / 2]
    return any(span.meets(named.first, named.last) for named in brief for span in exact)


def newness(day: date | None, today: date) -> float:
    """1 today, less with every month."""
    return math.exp(-max(0, (today - day).days) / FADING_DAYS) if day is not None else UNDATED
