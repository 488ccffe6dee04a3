"""The expressions of time that memd knows: their patterns, and the days that they mean.

Weeks begin on Monday, seasons are those of the north and a winter is named after the year it begins in.
"Last week" is the calendar week before this one; "the past week" and "the last week" begin seven days ago and end now.
A day ago is a day; weeks and months ago reach half a unit to either side; years ago are calendar years. A month or day
without a year is the latest that has begun, and matches in any year. 03/05/2023 is ambiguous and is not read.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta

Period = tuple[date, date]
Reading = tuple[Period, bool] | None
"""What an expression means, and whether it matches in any year."""

DAY = timedelta(days=1)


def _numbered(names: str, first: int = 0) -> dict[str, int]:
    return {name: nth for nth, same in enumerate(names.split("|"), first) for name in same.split()}


MONTHS = _numbered(
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep|october oct"
    "|november nov|december dec",
    first=1,
)
SURE_MONTHS = frozenset(["january", "february", "july", "september", "october", "november", "december"])
"""The others are also verbs, names or abbreviations, and need a number or a preposition beside them."""
WEEKDAYS = _numbered(
    "monday mon|tuesday tues tue|wednesday wed|thursday thurs thur thu|friday fri|saturday sat|sunday sun"
)
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
NUMBERS = _numbered("a an one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve", first=1)
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
STEPS = {"this": 0, "current": 0, "next": 1, "coming": 1}
"""The others mean the one before."""
PARTS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}


# --- the calendar -------------------------------------------------------------------------------------------


def month_of(year: int, month: int, months: int = 1) -> Period:
    last = months_on(date(year, month, 1), months - 1)
    return date(year, month, 1), _month_end(last)


def year_of(year: int, years: int = 1) -> Period:
    return date(year, 1, 1), date(year + years - 1, 12, 31)


def week_of(day: date) -> Period:
    monday = day - DAY * day.weekday()
    return monday, monday + 6 * DAY


def period_of(unit: str, step: int, now: date) -> Period:
    """This (0), the last (-1) or the next (1) day, week, weekend, month, quarter or year."""
    if unit == "year":
        return year_of(now.year + step)
    if unit in ("month", "quarter"):
        size = 3 if unit == "quarter" else 1
        first = months_on(now.replace(day=1), -((now.month - 1) % size) + step * size)
        return month_of(first.year, first.month, size)
    if unit == "day":
        return now + DAY * step, now + DAY * step
    monday, sunday = week_of(now + 7 * DAY * step)
    return (sunday - DAY, sunday) if unit == "weekend" else (monday, sunday)


def on_weekday(weekday: int, step: int | None, now: date) -> Reading:
    """The last, this week's or the next such day; without a word for it the latest that has been."""
    ahead = (weekday - now.weekday()) % 7
    return period_of("day", {-1: ahead - 7, 0: ahead, 1: ahead or 7, None: ahead - 7 if ahead else 0}[step], now), False


def days_on(day: date, days: int) -> date:
    """The date some days later, within the limits of the calendar."""
    return date.fromordinal(max(1, min(day.toordinal() + days, date.max.toordinal())))


def months_on(day: date, months: int) -> date:
    """The same day some months later, or the last day of that month; within the limits of the calendar."""
    year, month = divmod(max(12, min(day.year * 12 + day.month - 1 + months, 12 * date.max.year + 11)), 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def years_on(day: date, years: int, *, end: bool = False) -> date:
    """The same day some years later; with `end`, the end of a month stays one, in leap years too."""
    moved = months_on(day, 12 * years)
    return _month_end(moved) if end and day == _month_end(day) else moved


def _month_end(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def third(period: Period, part: int | None) -> Period:
    """The early (0), middle or late third of a period; the whole for None."""
    if part is None:
        return period
    first, last = period
    days = DAY * (((last - first).days + 1) // 3)
    thirds = ((first, first + days - DAY), (first + days, first + 2 * days - DAY), (first + 2 * days, last))
    return thirds[part]


def nearest(make: Callable[[int], Period], which: str | None, now: date) -> Reading:
    """The period in the year that is meant: "last", "this" or "next" June, else the latest that has begun."""
    if which == "this":
        return make(now.year), False
    if which == "next":
        return next(period for year in (now.year, now.year + 1) if (period := make(year))[0] > now), False
    for year in range(now.year, now.year - 9, -1):  # Eight years back, for the 29th of February.
        try:
            period = make(year)
        except ValueError:
            continue
        if (period[1] if which else period[0]) < now + DAY * (not which):
            return period, not which
    return None


# --- words and numbers --------------------------------------------------------------------------------------

YEAR = r"(?:19|20)[0-9]{2}"
COUNT = rf"(?P<count>[0-9]{{1,3}}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several|{'|'.join(NUMBERS)})"
UNIT = r"(?P<unit>minute|hour|day|week|month|year)s?"
PART = (
    r"(?:(?P<part>early|mid|late|(?:beginning|start|middle|end)(?=\s+of\b))(?:\s+(?:in|of))?(?:\s+the)?"
    r"(?:\s+|(?<=mid)-))?"
)
WHICH = r"(?:(?P<which>last|past|previous|this|next)\s+)?"
TH = r"(?:st|nd|rd|th)?"
NO_MORE = rf"(?![0-9:%]|\.[0-9]|,(?!{YEAR})[0-9])"

IN = re.compile(
    r"\b(in|since|during|until|till|before|after|from|between|throughout|on|by|(?:day|week|weekend|half)s?\s+of)"
    r"\s+(?:the\s+)?$"
)
RANGE = re.compile(r"\b(?:between|from)\s+[a-z]+(?:\s+[0-9,]+)*\s+(?:and|to|until|till|through)\s+$")


def _before(match: re.Match[str]) -> str:
    """The preposition before an expression."""
    lead = IN.search(match.string, max(0, match.start() - 16), match.start())
    return lead[1].split()[-1] if lead else ""


def _in_range(match: re.Match[str]) -> bool:
    """Whether it is the second of "from March to May"."""
    return bool(RANGE.search(match.string, max(0, match.start() - 40), match.start()))


def count_of(words: str) -> tuple[int, int]:
    """The least and the most that a number in digits or words may mean."""
    if "couple" in words:
        return 2, 3
    if "few" in words:
        return 2, 5
    if words == "several":
        return 3, 8
    number = NUMBERS.get(words) or int(words)
    return number, number


def units_on(day: date, count: int, unit: str) -> date:
    """The day so many units later, or earlier for a negative count."""
    if unit in ("month", "year"):
        return months_on(day, count * (12 if unit == "year" else 1))
    if unit in ("minute", "hour"):
        return days_on(day, int(count / (1440 if unit == "minute" else 24)))
    return days_on(day, count * UNIT_DAYS[unit])


def away(words: str, unit: str, day: date, way: int) -> Period:
    """About "two weeks" before (-1) or after (1) a day."""
    near, far = (units_on(day, count * way, unit) for count in count_of(words))
    slack = {"week": 3, "month": 15, "year": 182}.get(unit, 0)
    return days_on(min(near, far), -slack), days_on(max(near, far), slack)


def ago(words: str, unit: str, now: date) -> Reading:
    """About "two weeks" before now; years ago are calendar years."""
    if unit == "year":
        least, most = count_of(words)
        return year_of(now.year - most, most - least + 1), False
    first, last = away(words, unit, now, -1)
    return (first, min(last, now)), False


# --- the readers: each takes a match in the lower-cased text, the text as it was, and now --------------------

Reader = Callable[[re.Match[str], str, date], Reading]


def _iso(match: re.Match[str], text: str, now: date) -> Reading:
    year = int(match["year"])
    if match["alone"]:
        return month_of(year, int(match["alone"])), False
    day = date(year, int(match["month"]), int(match["day"]))
    return (day, day), False


def _numeric(match: re.Match[str], text: str, now: date) -> Reading:
    year = int(match["year"])
    if match["month"]:
        return month_of(year, int(match["month"])), False
    one, two = int(match["one"]), int(match["two"])
    if match["mark"] != "." and one <= 12 and two <= 12 and one != two:
        return None
    day_first = match["mark"] == "." or one > 12
    day = date(year, two, one) if day_first else date(year, one, two)
    return (day, day), False


def _named_month(match: re.Match[str], text: str, now: date) -> Reading:
    if not _is_month(match, text):
        return None
    month, days = MONTHS[match["month"]], [int(match[name]) for name in ("d0", "d1", "d2", "d3") if match[name]]

    def make(year: int) -> Period:
        if days:
            return date(year, month, days[0]), date(year, month, days[-1])
        return third(month_of(year, month), PARTS.get(match["part"]))

    return (make(int(match["year"])), False) if match["year"] else nearest(make, match["which"], now)


def _is_month(match: re.Match[str], text: str) -> bool:
    """A month rather than a verb, a name or a syllable."""
    if match["month"] in SURE_MONTHS or match["year"]:
        return True
    capital = text[match.start("month")].isupper()
    if match["d1"] or match["d2"]:
        return capital
    if match["part"] or match["which"] == "last" or _in_range(match):
        return True
    before = _before(match)
    if capital:
        return bool(match["which"]) or before not in ("", "on", "by")
    return before in ("in", "since", "during", "until", "till", "between", "throughout", "of")


def _named_day(match: re.Match[str], text: str, now: date) -> Reading:
    word = match.group()
    past = 2 if "before" in word else int(word.startswith(("yesterday", "last")))
    return period_of("day", int(word.startswith("tomorrow")) - past, now), False


def _unit(match: re.Match[str], text: str, now: date) -> Reading:
    """This, last and next week, weekend, month, quarter and year."""
    which, unit, part = match["which"], match["unit"], match["part"]
    rolling = which == "past" or (which == "last" and match.string.endswith("the ", 0, match.start()))
    if rolling and unit in UNIT_DAYS:
        return (units_on(now, -1, unit), now), False
    period = period_of(unit, STEPS.get(which, -1), now)
    return third(period, PARTS.get(part) if unit != "weekend" else None), False


def _weekday(match: re.Match[str], text: str, now: date) -> Reading:
    name, which = match["weekday"], match["which"]
    if not (which or match["hour"] or _before(match) or _in_range(match)):
        return None
    if not name.endswith("day") and not text[match.start("weekday")].isupper():
        return None
    return on_weekday(WEEKDAYS[name], STEPS.get(which, -1) if which else None, now)


def _ago(match: re.Match[str], text: str, now: date) -> Reading:
    return ago(match["count"], match["unit"], now)


def _rolling(match: re.Match[str], text: str, now: date) -> Reading:
    if match["count"] in ("a", "an"):
        return None  # "Does it last a week?"
    far = units_on(now, count_of(match["count"])[1] * (1 if match["which"] == "next" else -1), match["unit"])
    return (min(now, far), max(now, far)), False


def _season(match: re.Match[str], text: str, now: date) -> Reading:
    def make(year: int) -> Period:
        return third(month_of(year, SEASONS[match["season"]], 3), PARTS.get(match["part"]))

    if match["year"]:
        return make(int(match["year"])), False
    # With a capital it may be a framework, and a fall may be one from a ladder.
    small = text[match.start("season")].islower()
    if match["which"] or (small and _before(match) in ("in", "during", "since")):
        return nearest(make, match["which"], now)
    return None


def _quarter(match: re.Match[str], text: str, now: date) -> Reading:
    nth = int(match["nth"] or match["nth2"] or ORDINALS[match["word"]])
    if year := match["year"] or match["year2"] or match["year3"]:
        return month_of(int(year), 3 * nth - 2, 3), False
    if match["which"] or _before(match):
        return nearest(lambda year: month_of(year, 3 * nth - 2, 3), match["which"], now)
    return None


def _year(match: re.Match[str], text: str, now: date) -> Reading:
    year = int(match["year"])
    if match["decade"]:
        return (third(year_of(year, 10), PARTS.get(match["part"])), False) if year % 10 == 0 else None
    in_range = "-" in match.string[max(0, match.start() - 1) : match.end() + 1]
    # A number of this size that nothing marks as a year is more likely to be one when notes could be of it.
    if match["part"] or in_range or _before(match) or 1990 <= year <= now.year + 1:
        return third(year_of(year), PARTS.get(match["part"])), False
    return None


# --- the rules ----------------------------------------------------------------------------------------------


def _any(names: dict[str, int]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


def _rule(cues: str, read: Reader, pattern: str) -> tuple[tuple[str, ...], Reader, re.Pattern[str]]:
    return tuple(cues.split()), read, re.compile(pattern)


DAYS_BEFORE = rf"(?:(?:(?P<d0>[0-9]{{1,2}}){TH}\s*(?:-|–|to|and)\s*)?(?P<d1>[0-9]{{1,2}}){TH}\s+(?:of\s+)?)?"
DAYS_AFTER = rf"(?:\s+(?P<d2>[0-9]{{1,2}}){TH}{NO_MORE}(?:\s*(?:-|–|to)\s*(?P<d3>[0-9]{{1,2}}){TH}{NO_MORE})?)?"
RULES = (
    _rule("19 20", _iso, rf"(?<![0-9])(?<![0-9][-./])(?P<year>{YEAR})(?:(?P<mark>[-/.])(?P<month>[0-9]{{2}})(?P=mark)"
          r"(?P<day>[0-9]{2})(?![0-9])|[-/](?P<alone>[0-9]{2})(?!\w|[-/.][0-9]))"),
    _rule("19 20", _numeric, r"(?<![\w./-])(?:(?P<one>[0-9]{1,2})(?P<mark>[./-])(?P<two>[0-9]{1,2})(?P=mark)"
          rf"|(?P<month>[0-9]{{1,2}})/)(?P<year>{YEAR})(?![\w/])"),
    _rule("jan feb mar apr may jun jul aug sep oct nov dec", _named_month,
          rf"\b{PART}{WHICH}{DAYS_BEFORE}(?P<month>{_any(MONTHS)})\b(?:\.(?=\s*[0-9]))?{DAYS_AFTER}"
          rf"(?:(?:,\s*|\s+)(?:of\s+)?(?P<year>{YEAR})(?!\w))?"),
    _rule("day night tomorrow this", _named_day, r"\b(?:(?:the\s+)?day\s+before\s+yesterday|yesterday|today|tonight"
          r"|tomorrow|last\s+night|this\s+(?:morning|afternoon|evening))\b"),
    _rule("last past previous next", _rolling, rf"\b(?P<which>last|past|previous|next)\s+{COUNT}\s+{UNIT}\b"),
    _rule("ago back", _ago, rf"\b{COUNT}\s+{UNIT}\s+(?:ago|back(?!\s+to))\b"),
    _rule("q1 q2 q3 q4 quarter", _quarter, rf"\b{WHICH}(?:q(?P<nth>[1-4])(?:[\s/-]*(?:of\s+)?(?P<year>{YEAR}))?"
          rf"|(?P<year2>{YEAR})[\s/-]*q(?P<nth2>[1-4])"
          rf"|(?P<word>first|second|third|fourth|last)\s+quarter\s+of\s+(?P<year3>{YEAR}))\b"),
    _rule("spring summer autumn fall winter", _season,
          rf"\b{PART}{WHICH}(?P<season>{_any(SEASONS)})(?:\s+(?:of\s+)?(?P<year>{YEAR}))?\b"),
    _rule("week month quarter year", _unit, rf"\b{PART}(?P<which>last|past|previous|this|current|next|coming)\s+"
          r"(?P<unit>weekend|week|month|quarter|year)\b(?!\s+of\b)"),
    _rule("mon tue wed thu fri sat sun", _weekday, r"\b(?<!every )(?<!each )(?:(?P<which>last|past|previous|this|next"
          rf"|coming)\s+)?(?P<weekday>{_any(WEEKDAYS)})\b(?:\s+(?P<hour>morning|afternoon|evening|night)\b)?"),
    _rule("19 20", _year, rf"(?:(?<![\w.,:/$#€£+=-])|(?<=(?:19|20)[0-9]{{2}}-)){PART}(?P<year>{YEAR})(?P<decade>s)?"
          rf"(?![\w%]|[.,:/][0-9]|-(?!{YEAR}))"),
)  # fmt: skip
"""Cues of which one must occur, the reader of a match, and the pattern; a later rule does not match there again."""
