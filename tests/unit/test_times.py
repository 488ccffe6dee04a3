"""How near a note's day is to the times that a question names."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, strategies as st

from memd.indexer.language import times
from memd.indexer.language.times import QuestionTimes, names_asked_days, nearness, newness, question_times

TODAY = date(2026, 2, 18)
"""A Wednesday."""


def near(question: str, day: str) -> float:
    return nearness(date.fromisoformat(day), question_times(question, TODAY))


@pytest.mark.parametrize(
    ("question", "day", "expected"),
    [
        ("what did we do on 3 May 2023", "2023-05-03", 1.0),
        ("what did we do on Wednesday, 3 May 2023", "2023-05-03", 1.0),
        ("what did we do on Wednesday, 3 May 2023", "2026-02-18", 0.0),
        ("notes of 2023-05-03, yesterday", "2026-02-17", 1.0),
        ("notes of Friday, 2023-05-03", "2023-05-03", 1.0),
        ("was war am Mittwoch, dem 3. Mai 2023", "2026-02-18", 0.0),
        ("what did we do on 2023-05-03 (Wednesday)", "2026-02-18", 0.0),
        ("what did we do on 3 May 2023", "2023-05-04", 0.7 * 14 / 15),
        ("what did we do on 3 May 2023", "2023-05-17", 0.7 * 1 / 15),
        ("what did we do on 3 May 2023", "2023-05-18", 0.0),
        ("what did we do on 3 May 2023", "2023-05-02", 0.3),
        ("what did we do on 3 May 2023", "2023-05-01", 0.0),
        ("what did we do on 3 May 2023", "2024-05-03", 0.0),
        ("what did we do last week", "2026-02-09", 1.0),
        ("what did we do last week", "2026-02-15", 1.0),
        ("what did we do last week", "2026-02-16", 0.7 * 14 / 15),
        ("what did we do last week", "2026-02-08", 0.3),
        ("what broke yesterday", "2026-02-17", 1.0),
        ("what happened in June 2023", "2023-06-30", 1.0),
        ("what happened in June", "2019-06-11", 1.0),
        ("what happened in 2023", "2023-08-08", 0.3),
        ("what happened in 2023", "2024-08-08", 0.0),
        ("what was said", "2026-02-17", 0.0),
    ],
)
def test_nearness(question: str, day: str, expected: float):
    assert near(question, day) == pytest.approx(expected)


def test_what_names_no_year_is_told_across_the_new_year():
    assert near("the party on December 31", "2026-01-01") == pytest.approx(0.7 * 14 / 15)
    assert near("the walk on January 1", "2025-12-31") == pytest.approx(0.3)


def test_of_several_times_the_nearest_counts():
    question = "from the call on 3 May 2023 or the one on 9 July 2023"
    assert near(question, "2023-07-09") == near(question, "2023-05-03") == 1
    assert nearness(None, question_times(question, TODAY)) == 0


TIMES = (
    "on December 31", "in February", "3 May 2023", "last week", "since 1999", "before 2001", "on February 29",
    "three months ago", "in 9999", "from Christmas to January 6",
)  # fmt: skip


@given(st.one_of(st.dates(), st.sampled_from([date.min, date.max])), st.dates(), st.sampled_from(TIMES))
def test_nearness_is_a_share_whatever_the_calendar(day: date, today: date, question: str):
    assert 0 <= nearness(day, question_times(question, today)) <= 1


def test_a_line_speaks_of_the_days_that_are_asked_for():
    what = question_times("what did we do on 3 May 2023", TODAY)
    assert names_asked_days("Yesterday we painted.", date(2023, 5, 4), what)
    assert names_asked_days("We painted on May 3.", date(2023, 5, 20), what)
    assert not names_asked_days("Today we painted.", date(2023, 5, 4), what)
    assert not names_asked_days("Yesterday we painted.", None, what)
    assert not names_asked_days("Yesterday we painted.", date(2023, 5, 4), QuestionTimes())


def test_a_long_time_is_told_by_too_many_lines():
    assert not names_asked_days(
        "We painted on May 3.", date(2023, 5, 20), question_times("what happened in 2023", TODAY)
    )
    assert not names_asked_days("We paint all of 2023.", date(2023, 5, 3), question_times("on 3 May 2023", TODAY))


def test_what_a_question_asks_of_time():
    assert question_times("when did we paint", TODAY) == QuestionTimes((), temporal=True, recent=False)
    assert question_times("the latest plan", TODAY) == QuestionTimes((), temporal=True, recent=True, newest=True)
    assert question_times("who painted", TODAY) == QuestionTimes()
    assert question_times("what did we do last week", TODAY).spans[0].first == date(2026, 2, 9)


def test_newness_fades_and_what_has_no_day_does_not():
    ages = [newness(TODAY - timedelta(days=days), TODAY) for days in (-5, 0, 1, 30, 365, 4000)]
    assert ages[0] == ages[1] == 1
    assert ages[1:] == sorted(ages[1:], reverse=True) and len(set(ages[1:])) == 5
    assert newness(None, TODAY) == times.UNDATED
