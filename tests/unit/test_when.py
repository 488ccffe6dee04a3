"""Times in questions and notes: what is one, what is none, and the days that each means."""

from __future__ import annotations

from calendar import monthrange
from datetime import date

import pytest
from hypothesis import given, strategies as st

from memd.indexer.language.times import TimeSpan, question_times, single, spans

NOW = date(2026, 2, 18)
"""A Wednesday."""


def days(text: str, now: date = NOW) -> list[str]:
    """The spans of a text as `first..last`, a day as itself, with `*` where any year would do."""
    return [
        (f"{span.first}" if span.first == span.last else f"{span.first}..{span.last}") + "*" * span.any_year
        for span in spans(text, now)
    ]


NAMED_DAYS = [
    ("what did I do today", "2026-02-18"),
    ("the call tonight", "2026-02-18"),
    ("the deploy this morning", "2026-02-18"),
    ("what broke yesterday?", "2026-02-17"),
    ("who called last night", "2026-02-17"),
    ("the day before yesterday", "2026-02-16"),
    ("what is due tomorrow", "2026-02-19"),
]
UNITS = [
    ("this week", "2026-02-16..2026-02-22"),
    ("what did we do last week", "2026-02-09..2026-02-15"),
    ("next week", "2026-02-23..2026-03-01"),
    ("over the past week", "2026-02-11..2026-02-18"),
    ("in the last week", "2026-02-11..2026-02-18"),
    ("this weekend", "2026-02-21..2026-02-22"),
    ("last weekend", "2026-02-14..2026-02-15"),
    ("this month", "2026-02-01..2026-02-28"),
    ("last month", "2026-01-01..2026-01-31"),
    ("the past month", "2026-01-18..2026-02-18"),
    ("this quarter", "2026-01-01..2026-03-31"),
    ("last quarter", "2025-10-01..2025-12-31"),
    ("this year", "2026-01-01..2026-12-31"),
    ("last year", "2025-01-01..2025-12-31"),
    ("the past year", "2025-02-18..2026-02-18"),
    ("late last month", "2026-01-21..2026-01-31"),
]
WEEKDAYS = [
    ("last Saturday", "2026-02-14"),
    ("what did we eat on Friday", "2026-02-13"),
    ("on wednesday", "2026-02-18"),
    ("last Wednesday", "2026-02-11"),
    ("next Wednesday", "2026-02-25"),
    ("this Friday", "2026-02-20"),
    ("Monday morning", "2026-02-16"),
    ("last Fri", "2026-02-13"),
]
AGO = [
    ("3 days ago", "2026-02-15"),
    ("ten days ago", "2026-02-08"),
    ("two hours ago", "2026-02-18"),
    ("a week ago", "2026-02-08..2026-02-14"),
    ("2 weeks back", "2026-02-01..2026-02-07"),
    ("a couple of weeks ago", "2026-01-25..2026-02-07"),
    ("few days ago", "2026-02-13..2026-02-16"),
    ("three months ago", "2025-11-03..2025-12-03"),
    ("a year ago", "2025-01-01..2025-12-31"),
    ("ten years ago", "2016-01-01..2016-12-31"),
    ("a few years ago", "2021-01-01..2024-12-31"),
    ("in the last 3 days", "2026-02-15..2026-02-18"),
    ("over the past two weeks", "2026-02-04..2026-02-18"),
    ("within the last couple of months", "2025-11-18..2026-02-18"),
    ("in the last 24 hours", "2026-02-17..2026-02-18"),
]
MONTHS = [
    ("in June", "2025-06-01..2025-06-30*"),
    ("in February", "2026-02-01..2026-02-28*"),
    ("the february budget", "2026-02-01..2026-02-28*"),
    ("in march", "2025-03-01..2025-03-31*"),
    ("last June", "2025-06-01..2025-06-30"),
    ("last February", "2025-02-01..2025-02-28"),
    ("next June", "2026-06-01..2026-06-30"),
    ("this April", "2026-04-01..2026-04-30"),
    ("June 2023", "2023-06-01..2023-06-30"),
    ("june of 2023", "2023-06-01..2023-06-30"),
    ("early June", "2025-06-01..2025-06-10*"),
    ("mid-June", "2025-06-11..2025-06-20*"),
    ("late June 2023", "2023-06-21..2023-06-30"),
    ("the end of May 2023", "2023-05-21..2023-05-31"),
    ("the second week of November 2025", "2025-11-08..2025-11-14"),
    ("the last two weeks of August", "2025-08-18..2025-08-31*"),
    ("the first weekend of October 2025", "2025-10-04..2025-10-05"),
]
DATES = [
    ("on 3 May 2023", "2023-05-03"),
    ("the 3rd of May 2023", "2023-05-03"),
    ("May 3rd, 2023", "2023-05-03"),
    ("May 3,2023", "2023-05-03"),
    ("on May 3", "2025-05-03*"),
    ("on Feb. 18", "2026-02-18*"),
    ("on Feb. 19", "2025-02-19*"),
    ("5-7 July 2023", "2023-07-05..2023-07-07"),
    ("July 5 to 7, 2023", "2023-07-05..2023-07-07"),
    ("2023-05-03", "2023-05-03"),
    ("at 2023-05-03T10:15", "2023-05-03"),
    ("memory/2023-05-03.md", "2023-05-03"),
    ("2023/05/03", "2023-05-03"),
    ("was geschah am 3.5.2023?", "2023-05-03"),
    ("13/05/2023", "2023-05-13"),
    ("05/13/2023", "2023-05-13"),
    ("2023-05", "2023-05-01..2023-05-31"),
    ("05/2023", "2023-05-01..2023-05-31"),
    ("2023", "2023-01-01..2023-12-31"),
    ("early 2023", "2023-01-01..2023-05-01"),
    ("born in 1987", "1987-01-01..1987-12-31"),
    ("the 1990s", "1990-01-01..1999-12-31"),
    ("summer 2023", "2023-06-01..2023-08-31"),
    ("last summer", "2025-06-01..2025-08-31"),
    ("in the fall", "2025-09-01..2025-11-30*"),
    ("winter of 2023", "2023-12-01..2024-02-29"),
    ("Q3 2025", "2025-07-01..2025-09-30"),
    ("2025-Q3", "2025-07-01..2025-09-30"),
    ("in Q4", "2025-10-01..2025-12-31*"),
    ("the first quarter of 2024", "2024-01-01..2024-03-31"),
]
RANGES = [
    ("between June 2023 and August 2023", "2023-06-01..2023-08-31"),
    ("between March and May", "2025-03-01..2025-05-31*"),
    ("from March to May 2023", "2023-03-01..2023-05-31"),
    ("from November to February 2024", "2023-11-01..2024-02-29"),
    ("from Nov 2023 to February", "2023-11-01..2024-02-29"),
    ("between May 3 and May 10, 2023", "2023-05-03..2023-05-10"),
    ("from 2023-05-03 until yesterday", "2023-05-03..2026-02-17"),
    ("from Monday to Wednesday", "2026-02-16..2026-02-18"),
    ("the years 2010-2012", "2010-01-01..2012-12-31"),
    ("the war of 1939-1945", "1939-01-01..1945-12-31"),
    ("since last week", "2026-02-09..2026-02-18"),
    ("since June", "2025-06-01..2026-02-18"),
    ("after June 2025", "2025-07-01..2026-02-18"),
    ("after tomorrow", "2026-02-20..9999-12-31"),
    ("before June 2025", "0001-01-01..2025-05-31"),
    ("until yesterday", "0001-01-01..2026-02-17"),
    ("the week before 9 June 2023", "2023-06-02..2023-06-08"),
    ("the weekend before 9 June 2023", "2023-06-03..2023-06-04"),
    ("the weekend after 9 June 2023", "2023-06-10..2023-06-11"),
    ("the Sunday before June 9, 2023", "2023-06-04"),
    ("the day after 2024-02-28", "2024-02-29"),
    ("two weeks before June 9, 2023", "2023-05-23..2023-05-29"),
]


@pytest.mark.parametrize(("text", "expected"), NAMED_DAYS + UNITS + WEEKDAYS + AGO + MONTHS + DATES + RANGES)
def test_an_expression_means_these_days(text: str, expected: str):
    assert days(text) == [expected]


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("yesterday", date(2024, 3, 1), "2024-02-29"),
        ("yesterday", date(2023, 3, 1), "2023-02-28"),
        ("a month ago", date(2024, 3, 31), "2024-02-14..2024-03-15"),
        ("last month", date(2023, 3, 31), "2023-02-01..2023-02-28"),
        ("in the past month", date(2023, 3, 31), "2023-02-28..2023-03-31"),
        ("in the past year", date(2024, 2, 29), "2023-02-28..2024-02-29"),
        ("February 29", date(2023, 6, 1), "2020-02-29*"),
        ("last week", date(2026, 1, 1), "2025-12-22..2025-12-28"),
        ("this week", date(2026, 1, 1), "2025-12-29..2026-01-04"),
        ("last month", date(2026, 1, 15), "2025-12-01..2025-12-31"),
        ("next month", date(2025, 12, 15), "2026-01-01..2026-01-31"),
        ("last quarter", date(2026, 1, 15), "2025-10-01..2025-12-31"),
        ("on Friday", date(2026, 1, 1), "2025-12-26"),
        ("in December", date(2026, 1, 1), "2025-12-01..2025-12-31*"),
        # English has the name, as Dutch has: its own rules read the day.
        ("on 8th December, 2023", date(2026, 1, 1), "2023-12-08"),
        ("in winter", date(2026, 1, 10), "2025-12-01..2026-02-28*"),
        # Weeks begin on Monday: seen from Sunday, last week is the one that ended seven days before.
        ("this week", date(2026, 2, 22), "2026-02-16..2026-02-22"),
        ("last weekend", date(2026, 2, 22), "2026-02-14..2026-02-15"),
        ("last weekend", date(2026, 2, 23), "2026-02-21..2026-02-22"),
        ("last Monday", date(2026, 2, 23), "2026-02-16"),
    ],
)
def test_borders_of_weeks_years_and_leap_years(text: str, now: date, expected: str):
    assert days(text, now) == [expected]


MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "ru": "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "zh": "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月",
    "ja": "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月",
    "ko": "1월 2월 3월 4월 5월 6월 7월 8월 9월 10월 11월 12월",
}
IN_RUSSIAN = "январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре"
OF_RUSSIAN = "января февраля марта апреля мая июня июля августа сентября октября ноября декабря"
WITH_YEAR = {"es": ("{} 2024", "{} de 2024"), "pt": ("{} 2024", "{} de 2024"), "ru": ("{} 2024", "{} 2024 года"),
             "zh": ("2024年{}",), "ja": ("2024年{}",), "ko": ("2024년 {}",)}  # fmt: skip
WITH_DAY = {
    "en": ("7 {} 2024", "{} 7, 2024"),
    "de": ("7. {} 2024", "am 7. {} 2024"),
    "fr": ("7 {} 2024", "le 7 {} 2024"),
    "es": ("7 de {} de 2024", "el 7 de {} de 2024"),
    "pt": ("7 de {} de 2024", "7 {} 2024"),
    "it": ("7 {} 2024", "il 7 {} 2024"),
    "nl": ("7 {} 2024", "op 7 {} 2024"),
    "ru": ("7 {} 2024", "7 {} 2024 года"),
    "zh": ("2024年{}7日",),
    "ja": ("2024年{}7日",),
    "ko": ("2024년 {} 7일",),
}
WITH_IN = {"en": ("in {}",), "de": ("im {}",), "fr": ("en {}",), "es": ("en {}",), "pt": ("em {}",),
           "it": ("a {}", "in {}"), "nl": ("in {}",), "ru": ("в {}",), "zh": ("{}",), "ja": ("{}に",),
           "ko": ("{}에",)}  # fmt: skip


@pytest.mark.parametrize("language", MONTHS)
@pytest.mark.parametrize("month", range(1, 13))
def test_every_month_is_one_in_every_language(language: str, month: int):
    def said(names: str) -> str:
        return names.split()[month - 1]

    name = said(MONTHS[language])
    in_name, of_name = (said(IN_RUSSIAN), said(OF_RUSSIAN)) if language == "ru" else (name, name)
    first = date(2024, month, 1)
    last = date(2024, month, monthrange(2024, month)[1])
    for said_so in WITH_YEAR.get(language, ("{} 2024",)):
        assert days(said_so.format(name)) == [f"{first}..{last}"], said_so
        assert single(said_so.format(name), NOW), said_so
    for said_so in WITH_DAY[language]:
        assert days(said_so.format(of_name)) == [f"{date(2024, month, 7)}"], said_so
        assert single(said_so.format(of_name), NOW), said_so
    for said_so in WITH_IN[language]:
        assert days(f"{said_so.format(in_name)} 2024" if language not in "zh ja ko" else f"2024年{name}") == [
            f"{first}..{last}"
        ]
        (span,) = spans(said_so.format(in_name), NOW)
        assert (span.first.month, span.first.day, span.any_year) == (month, 1, True), said_so


WEEKDAYS_IN = {
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
}
YEAR_BEFORE = {
    "de": ("letztes Jahr", "im letzten Jahr", "voriges Jahr", "vor einem Jahr"),
    "fr": ("l'année dernière", "l’an dernier", "l'an passé", "il y a un an"),
    "es": ("el año pasado", "hace un año"),
    "pt": ("o ano passado", "ano passado", "há um ano"),
    "it": ("l'anno scorso", "un anno fa"),
    "nl": ("vorig jaar", "afgelopen jaar", "een jaar geleden"),
}
THIS_MONTH = {
    "de": "diesen Monat",
    "fr": "ce mois",
    "es": "este mes",
    "pt": "este mês",
    "it": "questo mese",
    "nl": "deze maand",
}
ENGLISH_MONTHS = ("April", "August", "September", "November")


@pytest.mark.parametrize("language", WEEKDAYS_IN)
def test_a_time_that_is_all_of_a_question_is_read_in_every_language(language: str):
    for nth, weekday in enumerate(WEEKDAYS_IN[language].split()):
        assert days(weekday) == [f"{date(2026, 2, 16 + nth - (7 if nth > 2 else 0))}"], weekday
    for said in YEAR_BEFORE[language]:
        assert days(said) == ["2025-01-01..2025-12-31"] and single(said, NOW), said
    assert days(THIS_MONTH[language]) == ["2026-02-01..2026-02-28"]


@pytest.mark.parametrize("month", ENGLISH_MONTHS)
def test_a_german_day_is_one_in_a_month_that_english_has_too(month: str):
    (span,) = spans(f"Was war am 7. {month}?", NOW)
    assert (span.first, span.last) == (span.first.replace(day=7), span.first.replace(day=7))
    assert question_times(f"Was war am 7. {month}?", NOW).spans == (span,)


@pytest.mark.parametrize(
    "text",
    ["a mai tai", "the rover on mars", "a mars bar 2", "the march", "may 7 be enough", "point 1. April was dull",
     "Mayo Clinic", "Augusta 2 and 3", "sept frères"],
)  # fmt: skip
def test_what_only_looks_like_a_month_of_another_language_is_none(text: str):
    assert days(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Anfang April 2024", "2024-04-01..2024-04-10"),
        ("early April 2024", "2024-04-01..2024-04-10"),
        ("am 3. September 2024", "2024-09-03"),
        ("what did Ana do in septiembre de 2024", "2024-09-01..2024-09-30"),
        ("was war im August?", "2025-08-01..2025-08-31*"),
        ("Frida och Linus i mars 2024, och det var bra", "2024-03-01..2024-03-31"),
    ],
)
def test_a_month_of_another_language_is_read_in_any_text(text: str, expected: str):
    assert days(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "it may fail", "May I ask?", "you may 3 times", "what did May say to June", "this may be it",
        "Anna and May went", "march on Rome", "they march 5 miles", "an august assembly", "what did April paint",
        "painted by June", "the second list", "a fall from the ladder", "after the fall", "in the Spring framework",
        "a box spring", "they sat down", "in the sun", "on sat nav", "wed in white", "mar the surface",
        "every Friday night", "Fridays", "port 2049", "1985 items", "$2000", "2,000 notes", "v2023.1", "error 20231",
        "room #2023", "19:20", "31 June", "2023-02-30", "2023-13", "03/05/2023", "1-2-2023x", "will it last a week",
        "the last straw", "days before", "how many weeks", "two days", "since when", "Q3", "back to back", "monthly",
        "", "   ",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_time_is_none(text: str):
    assert days(text) == []


def test_a_span_says_where_it_stands():
    text = "İstanbul notes: what changed since last Friday, or in June 2023?"
    assert [(span.text, text[span.start : span.end]) for span in spans(text, NOW)] == [
        ("since last Friday", "since last Friday"),
        ("June 2023", "June 2023"),
    ]


def test_a_note_is_read_from_its_own_day():
    spoken = spans("We met last Saturday and will go again next month.", date(2023, 5, 8))
    assert [(span.first, span.last) for span in spoken] == [
        (date(2023, 5, 6), date(2023, 5, 6)),
        (date(2023, 6, 1), date(2023, 6, 30)),
    ]


@pytest.mark.parametrize(
    ("text", "first", "last", "met"),
    [
        ("in June 2023", "2023-06-30", None, True),
        ("in June 2023", "2022-06-30", None, False),
        ("in June 2023", "2023-05-01", "2023-06-01", True),
        ("in June", "2019-06-15", None, True),
        ("in June", "2019-07-01", None, False),
        ("in June", "2030-06-01", None, True),
        ("in February", "2024-02-29", None, True),
        ("on February 28", "2024-02-29", None, False),
        ("in winter", "2019-01-05", None, True),
        ("in winter", "2019-12-05", None, True),
        ("in winter", "2019-03-01", None, False),
        ("in winter", "0001-01-05", None, True),
        ("in June", "2018-07-01", "2019-05-31", False),
        ("in June", "2017-07-01", "2019-05-31", True),
        ("before June 2023", "1950-01-01", None, True),
    ],
)
def test_a_span_meets_the_days_within_it(text: str, first: str, last: str | None, met: bool):
    (span,) = spans(text, NOW)
    assert span.meets(date.fromisoformat(first), date.fromisoformat(last) if last else None) is met


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", "2026-02-17"),
        ("may", "2025-05-01"),
        ("June", "2025-06-01"),
        ("friday", "2026-02-13"),
        ("last week", "2026-02-09"),
        ("2026-02", "2026-02-01"),
        (" 1987 ", "1987-01-01"),
        ("la semaine dernière", "2026-02-09"),
        ("Die letzte Woche", "2026-02-09"),
        ("im Mai", "2025-05-01"),
        ("En marzo", "2025-03-01"),
    ],
)
def test_a_single_expression_needs_no_preposition(text: str, expected: str):
    span = single(text, NOW)
    assert span is not None
    assert span.first == date.fromisoformat(expected)


@pytest.mark.parametrize("text", ["", "lunch", "June report", "in", "2026-02-31", "yesterday and today", "click"])
def test_other_texts_are_no_single_expression(text: str):
    assert single(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "about_time", "about_newest"),
    [
        ("When did the backup fail?", True, False),
        ("tell me when was the last deploy", True, False),
        ("when's the review", True, False),
        ("What day was the party?", True, False),
        ("which year did we move", True, False),
        ("how long ago did we meet", True, False),
        ("what time did it start", True, False),
        ("What happened recently?", True, True),
        ("the latest plan", True, True),
        ("last time we spoke", True, True),
        ("newest release notes", True, True),
        ("the most recent invoice", True, True),
        ("what am I working on now", True, True),
        ("where does she currently live", True, True),
        ("what is our current address", True, True),
        ("Anna's current job", True, True),
        ("alternating current", True, False),
        ("what do I do when I am sad", False, False),
        ("When I press it, what happens", False, False),
        ("what time management method", False, False),
        ("how do I know what nowhere means", False, False),
        ("who likes tea", False, False),
        ("", False, False),
    ],
)
def test_whether_a_question_asks_about_time(text: str, about_time: bool, about_newest: bool):
    asked = question_times(text, NOW)
    assert (asked.temporal, asked.recent) == (about_time, about_newest)


PIECES = st.sampled_from(
    "last next this past in on since before after until between and from to of the early mid end first two 3 999 29 30 "
    "2024 1999 days weeks months years week weekend day ago back Friday sunday May march February june q3 2024-02-29 "
    "2023-13-40 31/12/2024 spring winter - – , . ? yesterday tomorrow tonight İ".split()
)


@given(st.lists(PIECES, max_size=14).map(" ".join) | st.text(max_size=60), st.dates())
def test_any_text_on_any_day_gives_ordered_spans_of_days(text: str, now: date):
    end = 0
    for span in spans(text, now):
        assert isinstance(span, TimeSpan)
        assert span.first <= span.last
        assert text[span.start : span.end] == span.text
        assert end <= span.start < span.end
        assert span.meets(span.first)
        assert span.meets(span.last)
        end = span.end
