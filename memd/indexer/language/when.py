"""Finds the times that a question or a note speaks of, as spans of days.

The expressions are in `dates.py`, by hand, since no library fits: those that know "last week" answer with a moment
rather than with its days, take "may" and "sat" for dates and are slow (dateparser: 270 ms to import, 3 ms a question;
parsedatetime: 40 ms and 0.15 ms, unmaintained); datefinder and fast-parse-time know neither "last week" nor "in June".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from memd.indexer.language.dates import (
    COUNT,
    ORDINALS,
    RULES,
    UNIT,
    UNIT_DAYS,
    WEEKDAYS,
    Period,
    Reader,
    away,
    count_of,
    days_on,
    years_on,
)

SATURDAY, SUNDAY = WEEKDAYS["saturday"], WEEKDAYS["sunday"]


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The days that an expression means and where it stands.

    An end that is left open is `date.min` before ("before June") and `now` after ("since June").
    """

    first: date
    last: date
    text: str
    start: int
    end: int
    any_year: bool = False
    """Whether the expression names no year; `first` and `last` are then its latest days that have begun."""

    def meets(self, first: date, last: date | None = None) -> bool:
        """Whether a day, or a stretch of days, lies at least partly within."""
        last = last or first
        if not self.any_year:
            return self.first <= last and first <= self.last
        if (last - first).days >= 366:
            return True
        years = range(first.year - self.last.year, last.year - self.first.year + 1)
        long = self.first < self.last
        return any(years_on(self.first, n) <= last and first <= years_on(self.last, n, end=long) for n in years)


def spans(text: str, now: date) -> list[TimeSpan]:
    """Every time that a question speaks of, in order."""
    low = text.lower()
    if len(low) != len(text):  # "İ" grows when lowered, and places must stay.
        low = "".join(char.lower() if char.isascii() else char for char in text)
    atoms: list[TimeSpan] = []
    for cues, read, pattern in RULES:
        if any(cue in low for cue in cues):
            atoms += _read(pattern, read, text, low, now, atoms)
    return _joined(sorted(atoms, key=lambda span: span.start), text, low, now) if atoms else []


def resolve(text: str, note_date: date) -> list[TimeSpan]:
    """Every time that a note speaks of, seen from the day that it was written."""
    return spans(text, note_date)


def single(text: str, now: date) -> TimeSpan | None:
    """What a text means that is one expression and nothing else; it needs no preposition."""
    text = text.strip()
    for lead in ("", "in ", "on "):
        found = spans(lead + text, now)
        if len(found) == 1 and found[0].start <= len(lead) and found[0].end == len(lead + text):
            return found[0]
    return None


# --- what is asked ------------------------------------------------------------------------------------------

ASKS_WHEN = re.compile(
    r"\bwhen(?:['’]s|\s+(?:exactly|did|do|does|is|are|was|were|will|would|has|have|had|can|should))\b"
    r"|^\W*when\b(?!\s+(?:i|we|you|he|she|it|they)\b)|\b(?:since|until)\s+when\b"
    r"|\bhow\s+(?:long\s+ago|recent)\b|\bcurrent\b|\bwhat\s+time\s+(?:did|do|does|is|was|will)\b"
    r"|\b(?:what|which)\s+(?:exact\s+)?(?:day|date|week|weekend|month|year)\b"
)
ASKS_NEWEST = re.compile(
    r"\b(?:latest|newest|recent|recently|lately|currently|now|nowadays|last\s+time)\b"
    r"|(?:\b(?:the|my|our|your|his|her|their|its)|['’]s)\s+current\s+(?!in\b|of\b|through\b|flow)[a-z]"
)


def temporal(text: str) -> bool:
    """Whether a question asks about time."""
    low = text.lower()
    return bool(ASKS_WHEN.search(low) or ASKS_NEWEST.search(low))


def recent(text: str) -> bool:
    """Whether a question asks for the newest state of things."""
    return bool(ASKS_NEWEST.search(text.lower()))


# --- finding ------------------------------------------------------------------------------------------------


def _read(
    pattern: re.Pattern[str], read: Reader, text: str, low: str, now: date, taken: list[TimeSpan]
) -> list[TimeSpan]:
    made = []
    for found in pattern.finditer(low):
        start, end = found.span()
        if any(start < span.end and span.start < end for span in taken):
            continue
        try:
            reading = read(found, text, now)
        except (ValueError, OverflowError):
            continue  # The calendar has no such day.
        if reading:
            (first, last), any_year = reading
            made.append(TimeSpan(min(first, last), max(first, last), text[start:end], start, end, any_year))
    return made


LEAD = re.compile(
    rf"(?:\b(?:{COUNT}\s+{UNIT}|(?P<beside>weekend|week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)?day))\s+)?"
    r"\b(?P<word>since|before|after|until|till|from|between)\s+(?:the\s+)?$"
)
NTH = re.compile(
    rf"\b(?P<nth>first|second|third|fourth|last)\s+(?:{COUNT}\s+)?(?P<unit>day|weekend|week|half)s?\s+of\s+(?:the\s+)?$"
)
JOINT = re.compile(r",?\s+(?:to|through|until|till)\s+(?:the\s+)?|\s*[-–—]\s*")
AND = re.compile(r",?\s+(?:and|to)\s+(?:the\s+)?|\s*[-–—]\s*")


def _joined(atoms: list[TimeSpan], text: str, low: str, now: date) -> list[TimeSpan]:
    """The expressions with what stands before and between them: ranges, open ends, "the first week of"."""
    made: list[TimeSpan] = []
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
        # In "the Sunday before June 9" Sunday was an expression of its own, but is not one any more.
        made = [earlier for earlier in made if earlier.end <= span.start]
        made.append(span)
    return made


def _range(one: TimeSpan, other: TimeSpan, text: str, start: int) -> TimeSpan:
    """From the one to the other; a side without a year takes the year that brings it nearest to the other side."""
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
    """The days before, until, since or after an expression, or just the week before it."""
    word = lead["word"]
    if word in ("before", "after"):
        way, edge = (-1, atom.first) if word == "before" else (1, atom.last)
        if lead["count"]:
            return away(lead["count"], lead["unit"], edge, way)
        edge = days_on(edge, way)
        if lead["beside"]:
            return _beside(lead["beside"], edge, way)
        return (date.min, edge) if word == "before" else _from(edge, now)
    return _from(atom.first, now) if word == "since" else (date.min, atom.last)


def _from(first: date, now: date) -> Period:
    return first, now if first <= now else date.max


def _beside(unit: str, edge: date, way: int) -> Period:
    """The day, Sunday, week, weekend, month or year that ends (-1) or begins (1) at a day or is the nearest to it."""
    if unit == "weekend":
        day = _nearest(SUNDAY, edge, -1) if way < 0 else days_on(_nearest(SATURDAY, edge, 1), 1)
        return days_on(day, -1), day
    if unit in WEEKDAYS:
        day = _nearest(WEEKDAYS[unit], edge, way)
        return day, day
    far = days_on(edge, way * (UNIT_DAYS.get(unit, 1) - 1))
    return min(edge, far), max(edge, far)


def _nth(lead: re.Match[str], atom: TimeSpan) -> Period:
    """The first week, the last two days, the second half of a period."""
    nth, many, unit = lead["nth"], count_of(lead["count"] or "one")[1], lead["unit"]
    if unit == "weekend":
        nearest = _nearest(SUNDAY, atom.last, -1) if nth == "last" else _nearest(SATURDAY, atom.first, 1)
        saturday = days_on(nearest, -1 if nth == "last" else 7 * (ORDINALS[nth] - 1))
        return saturday, days_on(saturday, 1)
    size = (atom.last.toordinal() - atom.first.toordinal() + 2) // 2 if unit == "half" else UNIT_DAYS[unit]
    if nth == "last":
        return max(atom.first, days_on(atom.last, 1 - size * many)), atom.last
    first = min(atom.last, days_on(atom.first, size * (ORDINALS[nth] - 1)))
    return first, min(atom.last, days_on(first, size * many - 1))


def _nearest(weekday: int, edge: date, way: int) -> date:
    """The Saturday, say, that is nearest before (-1) or after (1) a day, or is that day."""
    return days_on(edge, way * (way * (weekday - edge.weekday()) % 7))
