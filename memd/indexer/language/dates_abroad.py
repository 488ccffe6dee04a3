"""Reads the names of days, weeks and months in other languages than English. Pure; the calendar is in `dates.py`.

Each language is a table of languages.toml; the patterns are made from it. Words that mean something else in another
language ("hier") are read only in a text that is in that language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memd.indexer.language import dates
from memd.indexer.language.dates import DAY, Period, Reader, Reading, month_of, on_weekday, period_of, week_of, year_of
from memd.indexer.language.tongues import TABLES, foreign_language

Rule = tuple[tuple[str, ...], Reader, re.Pattern[str]]
Patterns = tuple[re.Pattern[str], ...]

UNITS = ("day", "week", "weekend", "month", "year")


class Names(NamedTuple):
    """What a language calls times; alternatives are separated by blanks, or by bars where they are patterns."""

    days: str
    """`word=days from today`"""
    last: str
    this: str
    next: str
    units: Sequence[str]
    """Patterns for the day, the week, the weekend, the month and the year, in every number and case."""
    ago: str
    """The pattern of "three weeks ago"; {n} stands for the number and the unit."""
    months: str
    weekdays: str
    """From Monday on; alternatives of one day are joined by a bar."""
    numbers: str
    """From one on."""
    parts: Sequence[str]
    """Patterns for the beginning, the middle and the end, before a month."""
    before_month: str = r"\.?\s+"
    """Between the day and the month."""
    after: bool = False
    """Whether "last" may stand after its noun."""


LATIN = {language: Names(**names) for language, names in TABLES["times"].items()}
SIGN_DAYS: dict[int, str] = dict(TABLES["signs"]["days"])
SIGN_UNITS: dict[tuple[str, int], str] = {(unit, step): words for unit, step, words in TABLES["signs"]["units"]}
COUNTED = (
    r"(?P<count>[0-9]{1,3}|[〇零一二两兩三四五六七八九十]{1,3}|[한두세네]|하루|이틀|사흘|나흘)\s?"
    r"(?P<unit>天|日間?|일간?|[个個]?星期|[个個]?礼拜|周|週間?|주일?|[个個]月|[かヶケカ]月間?|개월|달|年間?|년|해)?"
)
COUNTED_UNITS = {
    sign: unit
    for unit, signs in {"day": "天日일", "week": "星礼周週주", "month": "月개달", "year": "年년해"}.items()
    for sign in signs
}
NUMBER = "(?:[0-9]{1,3}|[〇零一二两兩三四五六七八九十]{1,3})"
SIGN_PARTS = tuple(map(re.compile, ("[上初]旬?|초", "中旬?|중순", "下旬|[末底]|말")))
"""After a month: its beginning, its middle, its end."""
MONTH_DAY = (
    rf"(?P<month>{NUMBER})\s?[月월](?:\s?(?P<day>{NUMBER})\s?[日号號일]"
    r"|\s?(?P<part>[上中下]旬|[初底末](?![\u4e00-\u9fff])|초|중순|말))?"
)
OF_WEEK = (
    r"(?:(?:周|週|星期)?(?P<weekday>[一二三四五六日天](?![月年日天])|[月火水木金土日](?=曜)"
    r"|[월화수목금토일](?=요일)))?(?:曜日?|요일)?"
)
CHINESE = {digit: nth for nth, digit in enumerate("〇一二三四五六七八九十")} | {"两": 2, "兩": 2, "零": 0}
KOREAN = {"한": 1, "두": 2, "세": 3, "네": 4, "하루": 1, "이틀": 2, "사흘": 3, "나흘": 4}
WEEKDAY_SIGNS = {
    sign: nth
    for nth, signs in enumerate(("一月월", "二火화", "三水수", "四木목", "五金금", "六土토", "日天일"))
    for sign in signs
}


CUES = tuple(
    "gestern heut morgen tag woche monat jahr montag mittwoch hier demain aujourd semaine mois jour ann lundi ayer hoy"
    " seman hace lunes mes ontem hoje anos ieri oggi domani settiman giorn gister vandaag maand jaar vorig afgelopen"
    " geleden enero abril mai juni juli augustus agosto maggio giugno lugli janvier juin juillet octo otto oktober"
    " jueves viernes domingo jeudi vendredi dimanche freitag samstag sonntag vrijdag zondag marzo avril aprile"
    " novembr dezem dicembr decem janu janei gennaio febr febb fever septem setem setiem sexta quinta quarta"
    " segunda martes mars maart".split()
)
"""An ASCII text with none of these names no time in another language."""
NUMBERS_ONLY = tuple(rule for rule in dates.RULES if rule[0] == ("19", "20"))
"""What is written in digits is read in every language."""


def rules_for(text: str, low: str) -> tuple[Rule, ...]:
    """The expressions of the language that a text is in."""
    if text.isascii() and not any(cue in low for cue in CUES):
        return dates.RULES
    language = foreign_language(text)
    if not language:
        return dates.RULES
    own = _latin(language) if language in LATIN else _unspaced() if language in ("zh", "ja", "ko") else ()
    return own + NUMBERS_ONLY


# --- what the expressions mean ------------------------------------------------------------------------------


def _ago(count: int, unit: str, now: date) -> Reading:
    return dates.ago(str(count), "week" if unit == "weekend" else unit, now)


def _rolling(count: int, unit: str, now: date) -> Reading:
    return (dates.units_on(now, -count, "week" if unit == "weekend" else unit), now), False


def _on_date(year: str | None, month: int, day: str | None, now: date, part: int | None = None) -> Reading:
    """A day, a month, or the beginning (0), the middle or the end of one."""

    def make(of: int) -> Period:
        whole = month_of(of, month) if not day else (date(of, month, int(day)), date(of, month, int(day)))
        return dates.third(whole, part)

    return (make(int(year)), False) if year else dates.nearest(make, None, now)


# --- languages with spaces ----------------------------------------------------------------------------------


class _Spaced:
    """The expressions of one language, each a method that reads a match."""

    def __init__(self, names: Names) -> None:
        days = (day.partition("=") for day in names.days.split())
        self.names = names
        self.days = {word.replace("\\s", " "): int(away) for word, _, away in days}
        self.units = tuple(map(re.compile, names.units))
        self.months = tuple(map(re.compile, names.months.split()))
        self.weekdays = tuple(map(re.compile, names.weekdays.split()))
        self.parts = tuple(map(re.compile, names.parts))
        self.steps = tuple(map(re.compile, (names.last, names.this, names.next)))
        self.numbers = {word: nth for nth, same in enumerate(names.numbers.split(), 1) for word in same.split("|")}

    def rules(self) -> tuple[Rule, ...]:
        names, count = self.names, r"(?:[0-9]{1,3}|" + "|".join(self.numbers) + ")"
        # "Weekend" before "week", which it may begin with.
        unit, month = _any(names.units[2], *names.units), _any(*names.months.split())
        weekday = _any(*names.weekdays.split())
        noun, counted = _any(weekday, unit, month), rf"({count})\s+({unit})\b"
        last, steps = _any(names.last), _any(names.last, names.this, names.next)
        # Where it cannot stand after, the second half never matches.
        after = rf"|{'' if names.after else '(?!)'}\b(?P<name2>{noun})\s+(?P<step2>{names.last}|{names.next})\b"
        year = rf"(?:,?\s+(?:del?\s+|года?\s+)?(?P<year>{dates.YEAR}))?"
        part = rf"(?P<part>{'|'.join(names.parts)})(?:\s+(?:d[ei]\s+)?|-)"
        day = _any(*sorted(map(_flexible, self.days), key=len, reverse=True))
        return (
            _rule(self.ago, "|".join(rf"\b{way.replace('{n}', counted)}" for way in names.ago.split("|"))),
            _rule(self.rolling, rf"\b(?:{last}\s+({count})|({count})\s+{last})\s+(?P<unit>{unit})\b"),
            _rule(self.near, rf"\b(?P<step>{steps})\s+(?P<name>{noun})\b{after}"),
            _rule(self.on_date, rf"\b(?:(?P<day>[0-9]{{1,2}}){names.before_month}|{part})?(?P<month>{month})\b{year}"),
            _rule(self.day, rf"(?<!\w){day}\b"),
            _rule(self.on_weekday, rf"\b(?P<weekday>{weekday})\b"),
        )

    def day(self, match: re.Match[str], text: str, now: date) -> Reading:
        return period_of("day", self.days[" ".join(match.group().split())], now), False

    def ago(self, match: re.Match[str], text: str, now: date) -> Reading:
        number, unit = (part for part in match.groups() if part)
        return _ago(self._number(number), self._unit(unit), now)

    def rolling(self, match: re.Match[str], text: str, now: date) -> Reading:
        return _rolling(self._number(match[1] or match[2]), self._unit(match["unit"]), now)

    def near(self, match: re.Match[str], text: str, now: date) -> Reading:
        """Last, this or next Monday, May or month."""
        step, name = _which(self.steps, match["step"] or match["step2"]) - 1, match["name"] or match["name2"]
        if _knows(self.weekdays, name):
            return on_weekday(_which(self.weekdays, name), step, now)
        if _knows(self.months, name):
            month = _which(self.months, name) + 1
            return dates.nearest(lambda year: month_of(year, month), ("last", "this", "next")[step + 1], now)
        return period_of(self._unit(name), step, now), False

    def on_date(self, match: re.Match[str], text: str, now: date) -> Reading:
        part = _which(self.parts, match["part"]) if match["part"] else None
        return _on_date(match["year"], _which(self.months, match["month"]) + 1, match["day"], now, part)

    def on_weekday(self, match: re.Match[str], text: str, now: date) -> Reading:
        return on_weekday(_which(self.weekdays, match["weekday"]), None, now)

    def _unit(self, name: str) -> str:
        return UNITS[_which(self.units, name)]

    def _number(self, word: str) -> int:
        return int(word) if word.isdigit() else self.numbers[word]


@lru_cache
def _latin(language: str) -> tuple[Rule, ...]:
    return _Spaced(LATIN[language]).rules()


def _rule(read: Reader, pattern: str) -> Rule:
    return (), read, re.compile(pattern)


def _any(*patterns: str) -> str:
    return "(?:" + "|".join(patterns) + ")"


def _which(patterns: Patterns, word: str) -> int:
    return next(nth for nth, pattern in enumerate(patterns) if pattern.fullmatch(word))


def _knows(patterns: Patterns, word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in patterns)


def _flexible(words: str) -> str:
    return re.escape(words).replace(r"\ ", r"\s+")


# --- Chinese, Japanese and Korean ---------------------------------------------------------------------------


def _sign_number(text: str) -> int:
    """A number up to 99, in digits or signs."""
    if text.isdigit():
        return int(text)
    if text in KOREAN:
        return KOREAN[text]
    tens, ten, ones = text.partition("十")
    if not ten:
        return CHINESE[text]
    return 10 * (CHINESE[tens] if tens else 1) + (CHINESE[ones] if ones else 0)


@lru_cache
def _unspaced() -> tuple[Rule, ...]:
    days = {word: away for away, words in SIGN_DAYS.items() for word in words.split()}
    near = [(re.compile(words.replace(" ", "|")), unit, step) for (unit, step), words in SIGN_UNITS.items()]
    named = "|".join(words.pattern for words, _, _ in near)

    def day(match: re.Match[str], text: str, now: date) -> Reading:
        return period_of("day", days[match.group()], now), False

    def unit(match: re.Match[str], text: str, now: date) -> Reading:
        name, step = next((name, step) for words, name, step in near if words.fullmatch(match["named"]))
        if match["weekday"] and name == "week":
            on = week_of(now + 7 * DAY * step)[0] + DAY * WEEKDAY_SIGNS[match["weekday"]]
            return (on, on), False
        if match["month"] and name == "year":
            return _sign_date(str(now.year + step), match, now)
        return period_of(name, step, now), False

    return (
        _rule(_signs_ago, rf"{COUNTED}\s?(?:以?前|전|之前)"),
        _rule(_signs_rolling, rf"(?:最近的?|过去的?|過去の?|这|這|近|この|ここ|지난\s|최근\s){COUNTED}"),
        _rule(unit, rf"(?P<named>{named})(?:の|的|\s)?{OF_WEEK}(?:\s?{MONTH_DAY})?"),
        _rule(_signs_date, rf"(?P<year>{dates.YEAR})\s?[年년](?:\s?{MONTH_DAY})?"),
        _rule(_signs_date, rf"(?<![0-9])(?P<year>(?!))?{MONTH_DAY}"),
        _rule(day, "|".join(sorted(days, key=len, reverse=True))),
        _rule(_signs_weekday, r"(?:星期|周|週|礼拜|禮拜)(?P<sign>[一二三四五六日天])"
              r"|(?P<other>[月火水木金土日](?=曜)|[월화수목금토일](?=요일))(?:曜日?|요일)"),
    )  # fmt: skip


def _unit_of(name: str | None) -> str:
    return next((COUNTED_UNITS[char] for char in (name or "").lstrip("个個かヶケカ") if char in COUNTED_UNITS), "day")


def _signs_ago(match: re.Match[str], text: str, now: date) -> Reading:
    return _ago(_sign_number(match["count"]), _unit_of(match["unit"]), now)


def _signs_rolling(match: re.Match[str], text: str, now: date) -> Reading:
    return _rolling(_sign_number(match["count"]), _unit_of(match["unit"]), now)


def _signs_date(match: re.Match[str], text: str, now: date) -> Reading:
    return _sign_date(match["year"], match, now)


def _signs_weekday(match: re.Match[str], text: str, now: date) -> Reading:
    return on_weekday(WEEKDAY_SIGNS[match["sign"] or match["other"]], None, now)


def _sign_date(year: str | None, match: re.Match[str], now: date) -> Reading:
    if match["month"] is None:
        return year_of(int(year or now.year)), False
    day = str(_sign_number(match["day"])) if match["day"] else None
    part = _which(SIGN_PARTS, match["part"]) if match["part"] else None
    return _on_date(year, _sign_number(match["month"]), day, now, part)
