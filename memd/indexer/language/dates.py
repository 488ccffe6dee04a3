"""The expressions of time that memd knows, in any language: what times.toml says of them, and the days that they mean.

Weeks begin on Monday, seasons are those of the north and a winter is named after the year it begins in.
"Last week" is the calendar week before this one; "the past week" and "the last week" begin seven days ago and end now.
A day ago is a day; weeks and months ago reach half a unit to either side; years ago are calendar years. A month or day
without a year is the latest that has begun, and matches in any year. 03/05/2023 is ambiguous and is not read.
Words that mean something else in another language ("hier") are read only in a text that is in that language; months
with a year, or behind that language's "in", in any text, and what is "last" or "ago" in any question.
"""

import re
import tomllib
from calendar import monthrange
from collections import ChainMap
from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from memd.indexer.language.languages import foreign_language

Period = tuple[date, date]
Reading = tuple[Period, bool] | None
"""The days that an expression means, and whether it matches in any year."""
Reader = Callable[[re.Match[str], str, date], Reading]
"""Takes a match in the lower-cased text, the text as it was, and now."""
Rule = tuple[tuple[str, ...], Reader, re.Pattern[str]]
"""Cues of which one must occur (none for always), the reader of a match, and the pattern."""

DAY = timedelta(days=1)
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("times.toml").read_text(encoding="utf-8"))
ORDERED = {"months": 1, "weekdays": 0, "numbers": 1, "ordinals": 1, "parts": 0}
"""Tables of words in order, and the meaning of the first."""
PLACE = re.compile(r"\{([a-z_]+)\}")
DAYS = ("d0", "d1", "d2", "d3")
"""The groups of a date that may have a day, in their order."""


# --- the calendar -------------------------------------------------------------------------------------------


def month_of(year: int, month: int, months: int = 1) -> Period:
    return date(year, month, 1), _month_end(months_on(date(year, month, 1), months - 1))


def year_of(year: int, years: int = 1) -> Period:
    return date(year, 1, 1), date(year + years - 1, 12, 31)


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
    monday = now + DAY * (7 * step - now.weekday())
    return monday + DAY * (5 if unit == "weekend" else 0), monday + DAY * 6


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
    return first + part * days, last if part == 2 else first + (part + 1) * days - DAY


def nearest(make: Callable[[int], Period], step: int | None, now: date) -> Reading:
    """The period in the year that is meant: the last (-1), this or the next June, else the latest that has begun."""
    if step == 0:
        return make(now.year), False
    if step == 1:
        return next(period for year in (now.year, now.year + 1) if (period := make(year))[0] > now), False
    for year in range(now.year, now.year - 9, -1):  # Eight years back, for the 29th of February.
        try:
            period = make(year)
        except ValueError:
            continue
        if (period[1] < now) if step else (period[0] <= now):
            return period, not step
    return None


def units_on(day: date, count: int, unit: str) -> date:
    """The day so many units later, or earlier for a negative count."""
    if unit in ("month", "year"):
        return months_on(day, count * (12 if unit == "year" else 1))
    if unit in ("minute", "hour"):
        return days_on(day, int(count / (1440 if unit == "minute" else 24)))
    return days_on(day, count * UNIT_DAYS[unit])


def about(counts: tuple[int, int], unit: str, day: date, way: int) -> Period:
    """About so many units before (-1) or after (1) a day."""
    near, far = (units_on(day, count * way, unit) for count in counts)
    slack = {"week": 3, "month": 15, "year": 182}.get(unit, 0)
    return days_on(min(near, far), -slack), days_on(max(near, far), slack)


# --- the grammar of a language ------------------------------------------------------------------------------


class Grammar:
    """The words of a language for times, and its rules, of which each names a method that reads a match."""

    def __init__(self, *names: str) -> None:
        """`names` are tables of times.toml; what the first does not have is in the next."""
        self._tables = ChainMap(*(TABLES[name] for name in names))
        self._words: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        self.english = names == ("en",)
        self.rules: tuple[Rule, ...] = tuple(
            (tuple(cues.split()), getattr(self, read), re.compile(self._expanded(pattern)))
            for read, cues, pattern in self._tables["rules"]
        )

    def pattern(self, name: str) -> re.Pattern[str]:
        return re.compile(self._source(name))

    def _source(self, name: str) -> str:
        """A pattern, or one for any word of a table."""
        if name in ORDERED or isinstance(self._tables[name], dict):
            return "(?:" + "|".join(pattern.pattern for _, pattern in self._table(name)) + ")"
        return self._expanded(self._tables[name])

    def _expanded(self, pattern: str) -> str:
        return PLACE.sub(lambda place: self._source(place[1]), pattern)

    def _table(self, name: str) -> list[tuple[str, re.Pattern[str]]]:
        """The words of a table: what each means, and its pattern."""
        if name not in self._words:
            entries = self._tables.get(name, {})
            if isinstance(entries, str):
                entries = {str(nth): pattern for nth, pattern in enumerate(entries.split(), ORDERED[name])}
            self._words[name] = [(meaning, re.compile(self._expanded(said))) for meaning, said in entries.items()]
        return self._words[name]

    # --- words and numbers ----------------------------------------------------------------------------------

    def meaning(self, table: str, word: str) -> str:
        """The meaning of a word; empty if the table does not have it."""
        return next((meaning for meaning, pattern in self._table(table) if pattern.fullmatch(word)), "")

    def value(self, table: str, word: str) -> int:
        return int(self.meaning(table, word))

    def number(self, word: str) -> int:
        """A number in digits, words or signs; ValueError for what is none."""
        if word.isdigit():
            return int(word)
        tens, ten, ones = word.partition("十")
        if not ten:
            return self.value("numbers", word)
        return 10 * (self.number(tens) if tens else 1) + (self.number(ones) if ones else 0)

    def counts(self, words: str) -> tuple[int, int]:
        """The least and the most that a number may mean: "a few" are two to five."""
        if vague := self.meaning("counts", words):
            least, most = vague.split()
            return int(least), int(most)
        number = self.number(words)
        return number, number

    def _unit(self, word: str) -> str:
        unit = self.meaning("units", word)
        return "week" if unit == "weekend" else unit

    def _step(self, said: dict[str, str | None]) -> int | None:
        """The last (-1), this (0) or the next (1) one; None without a word for it."""
        word = said.get("step") or said.get("step2")
        return self.value("steps", word) if word else None

    def _part(self, said: dict[str, str | None]) -> int | None:
        return self.value("parts", part) if (part := said.get("part")) else None

    # --- readers: expressions of every language -------------------------------------------------------------

    def day(self, match: re.Match[str], text: str, now: date) -> Reading:
        return period_of("day", self.value("days", match.group()), now), False

    def ago(self, match: re.Match[str], text: str, now: date) -> Reading:
        """About "two weeks" before now; years ago are calendar years."""
        count, word = (group for group in match.groups() if group is not None)
        counts, unit = self.counts(count), self._unit(word)
        if unit == "year":
            return year_of(now.year - counts[1], counts[1] - counts[0] + 1), False
        first, last = about(counts, unit, now, -1)
        return (first, min(last, now)), False

    def rolling(self, match: re.Match[str], text: str, now: date) -> Reading:
        *ahead, count, unit = (group for group in match.groups() if group is not None)
        far = units_on(now, self.counts(count)[1] * (1 if ahead else -1), self._unit(unit))
        return (min(now, far), max(now, far)), False

    def near(self, match: re.Match[str], text: str, now: date) -> Reading:
        """Last, this or next Monday, May or month."""
        said = match.groupdict()
        step, noun = self._step(said) or 0, said["noun"] or said["noun2"]
        if weekday := self.meaning("weekdays", noun):
            return on_weekday(int(weekday), step, now)
        if month := self.meaning("months", noun):
            return nearest(lambda year: month_of(year, int(month)), step, now)
        return period_of(self.meaning("units", noun), step, now), False

    def near_sign(self, match: re.Match[str], text: str, now: date) -> Reading:
        """Last, this or next week, month or year, and the Monday or May in it."""
        unit, step = self.meaning("near", match["near"]).split()
        if match["weekday"] and unit == "week":
            monday, _ = period_of("week", int(step), now)
            return period_of("day", self.value("weekdays", match["weekday"]), monday), False
        if match["month"] and unit == "year":
            return self._date(match.groupdict(), now.year + int(step), now)
        return period_of(unit, int(step), now), False

    def on_date(self, match: re.Match[str], text: str, now: date) -> Reading:
        said = match.groupdict()
        if self.english and not self._is_month(match, text):
            return None
        return self._date(said, int(said["year"]) if said.get("year") else None, now)

    def _date(self, said: dict[str, str | None], year: int | None, now: date) -> Reading:
        """A year, a month, the beginning, the middle or the end of one, a day, or several."""
        if said["month"] is None:
            return year_of(year or now.year), False
        month = int(self.meaning("months", said["month"]) or self.number(said["month"]))
        days, part = [self.number(day) for name in DAYS if (day := said.get(name))], self._part(said)

        def make(of: int) -> Period:
            if days:
                return date(of, month, days[0]), date(of, month, days[-1])
            return third(month_of(of, month), part)

        return (make(year), False) if year else nearest(make, self._step(said), now)

    def weekday(self, match: re.Match[str], text: str, now: date) -> Reading:
        said = match.groupdict()
        if self.english and not self._is_weekday(match, text):
            return None
        return on_weekday(self.value("weekdays", said["weekday"] or said["weekday2"]), self._step(said), now)

    # --- readers: years and English -------------------------------------------------------------------------

    def in_year(self, match: re.Match[str], text: str, now: date) -> Reading:
        year, part = int(match["year"]), self._part(match.groupdict())
        if match["decade"]:
            return (third(year_of(year, 10), part), False) if year % 10 == 0 else None
        in_range = "-" in match.string[max(0, match.start() - 1) : match.end() + 1]
        # A number of this size that nothing marks as a year is more likely to be one when notes could be of it.
        if match["part"] or in_range or self._before(match) or 1990 <= year <= now.year + 1:
            return third(year_of(year), part), False
        return None

    def unit(self, match: re.Match[str], text: str, now: date) -> Reading:
        """This, last and next week, weekend, month, quarter and year."""
        said, unit = match.groupdict(), match["unit"]
        the_last = said["step"] == "last" and match.string.endswith("the ", 0, match.start())
        if (the_last or said["step"] == "past") and unit in UNIT_DAYS:
            return (units_on(now, -1, unit), now), False
        period = period_of(unit, self._step(said) or 0, now)
        return third(period, self._part(said) if unit != "weekend" else None), False

    def season(self, match: re.Match[str], text: str, now: date) -> Reading:
        said = match.groupdict()
        first, part = self.value("seasons", match["season"]), self._part(said)

        def make(year: int) -> Period:
            return third(month_of(year, first, 3), part)

        if match["year"]:
            return make(int(match["year"])), False
        # With a capital it may be a framework, and a fall may be one from a ladder.
        small = text[match.start("season")].islower()
        if match["step"] or (small and self._before(match) in ("in", "during", "since")):
            return nearest(make, self._step(said), now)
        return None

    def quarter(self, match: re.Match[str], text: str, now: date) -> Reading:
        nth = int(match["nth"] or match["nth2"] or self.value("ordinals", match["word"]))
        if year := match["year"] or match["year2"] or match["year3"]:
            return month_of(int(year), 3 * nth - 2, 3), False
        if match["step"] or self._before(match):
            return nearest(lambda year: month_of(year, 3 * nth - 2, 3), self._step(match.groupdict()), now)
        return None

    def _is_month(self, match: re.Match[str], text: str) -> bool:
        """A month rather than a verb, a name or a syllable."""
        if SURE_MONTH.fullmatch(match["month"]) or match["year"]:
            return True
        capital = text[match.start("month")].isupper()
        if match["d1"] or match["d2"]:
            return capital
        if match["part"] or match["step"] == "last" or self._in_range(match):
            return True
        before = self._before(match)
        if capital:
            return bool(match["step"]) or before not in ("", "on", "by")
        return before in ("in", "since", "during", "until", "till", "between", "throughout", "of")

    def _is_weekday(self, match: re.Match[str], text: str) -> bool:
        """A day rather than a verb or a syllable."""
        if not (match["step"] or match["hour"] or self._before(match) or self._in_range(match)):
            return False
        return match["weekday"].endswith("day") or text[match.start("weekday")].isupper()

    def _before(self, match: re.Match[str]) -> str:
        """The preposition before an expression."""
        lead = PREPOSITION.search(match.string, max(0, match.start() - 16), match.start())
        return lead[1].split()[-1] if lead else ""

    def _in_range(self, match: re.Match[str]) -> bool:
        """Whether it is the second of "from March to May"."""
        return bool(RANGE.search(match.string, max(0, match.start() - 40), match.start()))


ENGLISH = Grammar("en")
SURE_MONTH, PREPOSITION, RANGE = map(ENGLISH.pattern, ("sure_month", "preposition", "range"))
IN_DIGITS = tuple(rule for rule in ENGLISH.rules if rule[0] == ("19", "20"))
"""Rules for every language."""
CUES = tuple(cue.replace("_", " ") for cue in TABLES["spaced"]["cues"].split())


@lru_cache
def _rules_of(language: str) -> tuple[Rule, ...]:
    if language in ("zh", "ja", "ko"):
        return Grammar("signs", "en").rules + IN_DIGITS
    own = Grammar(language, "spaced", "en").rules if language in TABLES else ()
    others = IN_DIGITS if language else ENGLISH.rules + _rules_anywhere("short")
    return own + _rules_anywhere("anywhere") + others


@lru_cache
def _rules_anywhere(table: str) -> tuple[Rule, ...]:
    """The rules of a table in every language: what stands beside a time shows that it is one."""
    languages = TABLES["anywhere"]["languages"].split()
    return tuple(rule for language in languages for rule in Grammar(table, language, "spaced", "en").rules)


def rules_for(text: str, low: str, language: str | None) -> tuple[Rule, ...]:
    """The expressions of the language that a text is in; where nobody knows it, None, the text shows it."""
    if language is None and (not text.isascii() or any(cue in low for cue in CUES)):
        return _rules_of(foreign_language(text))
    return _rules_of(language) if language else ENGLISH.rules
