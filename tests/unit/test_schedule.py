"""When jobs are due, with a hand-set clock: intervals, cron's fields, summer time, leap days, and what was missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memd.config import schedules
from memd.config.schedules import Every, first_run, max_jitter, parse, problem
from memd.daemon.jobs.scheduler import JitteredSchedule

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if "+" not in text else datetime.fromisoformat(text)


def after(text: str, moment: str, zone: ZoneInfo = BERLIN) -> datetime:
    schedule = parse(text)
    assert schedule is not None
    return schedule.after(at(moment), zone)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("90m", 5_400),
        ("1h", 3_600),
        ("1d", 86_400),
        (" 2W ", 1_209_600),
        ("15 m", 900),
        ("366d", 31_622_400),
    ],
)
def test_an_interval_is_read(text: str, seconds: int) -> None:
    assert parse(text) == Every(seconds)
    assert after(text, "2026-02-15T10:00") == at("2026-02-15T10:00") + timedelta(seconds=seconds)


def test_off_is_no_schedule() -> None:
    assert parse("off") is None and parse(" OFF ") is None


@pytest.mark.parametrize(
    ("text", "moment", "expected"),
    [
        # Just under, at, and just over: at its very minute it comes the next time.
        ("15 3 * * *", "2026-02-15T02:14:59", "2026-02-15T02:15"),
        ("15 3 * * *", "2026-02-15T02:15:00", "2026-02-16T02:15"),
        ("15 3 * * *", "2026-02-15T02:15:01", "2026-02-16T02:15"),
        ("*/15 * * * *", "2026-02-15T10:00", "2026-02-15T10:15"),
        ("5-20/5,59 * * * *", "2026-02-15T10:20", "2026-02-15T10:59"),
        ("50/5 * * * *", "2026-02-15T10:50", "2026-02-15T10:55"),
        # Sunday is 0 and 7, and a 15th of February that is one.
        ("0 5 * * 0", "2026-02-15T00:00", "2026-02-15T04:00"),
        ("0 5 * * 7", "2026-02-15T12:00", "2026-02-22T04:00"),
        ("0 5 * * mon-fri", "2026-02-14T12:00", "2026-02-16T04:00"),
        ("0 5 * * 0-2", "2026-02-14T12:00", "2026-02-15T04:00"),
        ("0 5 * * */3", "2026-02-15T12:00", "2026-02-18T04:00"),
        ("0 5 1 jan,jul *", "2026-02-15T12:00", "2026-07-01T03:00"),
        ("0 5 1 jan-jun/2 *", "2026-03-15T12:00", "2026-05-01T03:00"),
        # A day and a weekday: either is enough.
        ("0 0 20 * mon", "2026-02-16T12:00", "2026-02-19T23:00"),
        ("0 0 20 * mon", "2026-02-20T12:00", "2026-02-22T23:00"),
        # A leap day, over a year without one at the turn of the century too.
        ("0 0 29 2 *", "2026-02-15T12:00", "2028-02-28T23:00"),
        ("0 0 29 2 *", "2096-03-01T12:00", "2104-02-28T23:00"),
        ("59 23 31 12 *", "2026-12-31T22:59", "2027-12-31T22:59"),
    ],
)
def test_a_cron_line_is_in_local_time_and_means_what_cron_means(text: str, moment: str, expected: str) -> None:
    assert after(text, moment) == at(expected)


def test_a_time_that_spring_skips_comes_once_as_much_later() -> None:
    # On 2026-03-29 clocks go from 02:00 to 03:00.
    assert after("30 2 * * *", "2026-03-28T12:00") == at("2026-03-29T01:30")
    assert after("30 2 * * *", "2026-03-29T01:30") == at("2026-03-30T00:30")
    assert after("0 2,3 * * *", "2026-03-28T12:00") == at("2026-03-29T01:00")
    assert after("0 2,3 * * *", "2026-03-29T01:00") == at("2026-03-30T00:00")


def test_the_hour_after_midnight_comes_after_a_day_of_23_hours() -> None:
    assert after("20 0 * * *", "2026-03-28T23:20") == at("2026-03-29T22:20")
    assert after("20 0 * * mon", "2026-03-22T23:20") == at("2026-03-29T22:20")
    assert after("20 0 1 * *", "2026-02-28T23:20") == at("2026-03-31T22:20")


def test_a_time_that_autumn_shows_twice_comes_once() -> None:
    # On 2026-10-25 the hour from 02:00 to 03:00 is there twice.
    assert after("30 2 * * *", "2026-10-24T12:00") == at("2026-10-25T00:30")
    for moment in ("2026-10-25T00:30", "2026-10-25T01:10", "2026-10-25T01:30"):
        assert after("30 2 * * *", moment) == at("2026-10-26T01:30")


@pytest.mark.parametrize("night", ["2026-03-29T00:00", "2026-10-25T00:00"])
def test_what_runs_every_hour_runs_every_hour_whatever_the_clocks_do(night: str) -> None:
    moment = at(night)
    for _ in range(16):
        following = after("*/15 * * * *", moment.isoformat())
        assert following - moment == timedelta(minutes=15)
        moment = following


def test_another_zone_has_its_own_half_hours() -> None:
    assert after("0 3 * * *", "2026-02-15T00:00", KOLKATA) == at("2026-02-15T21:30")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 hour", "an interval such as"),
        ("", "an interval such as"),
        ("* * * *", "five cron fields such as"),
        ("0s", 'an interval from "1s"'),
        ("367d", 'to "366d"'),
        ("60 * * * *", "minute is from 0 to 59 (`60` is not)"),
        ("0 24 * * *", "hour is from 0 to 23"),
        ("0 0 0 * *", "day is from 1 to 31"),
        ("0 0 * 13 *", "month is from 1 to 12"),
        ("0 0 * * 8", "weekday is from 0 to 7"),
        ("5-1 * * * *", "(`5-1` is not)"),
        ("*/0 * * * *", "(`*/0` is not)"),
        ("*-3 * * * *", "(`*-3` is not)"),
        ("1,,2 * * * *", "minute"),
        ("0 0 * jan- *", "month"),
        ("0 0 last * *", "day is from 1 to 31 (`last` is not)"),
        ("0 0 * * 5-2", "weekday is from 0 to 7 (`5-2` is not)"),
        ("50/30 * * * *", "minute is from 0 to 59 (`50/30` is not)"),
        ("٣ * * * *", "minute"),
        ("0 0 31 2 *", "a day that its months have"),
        ("0 0 31 4,6 *", "a day that its months have"),
    ],
)
def test_what_is_no_schedule_is_told(text: str, wanted: str) -> None:
    assert wanted in problem(text)
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize("text", ["0 0 31 4 mon", "0 0 29 2 *", "0 0 30 1,2 *", "* * * * *"])
def test_what_comes_now_and_then_is_a_schedule(text: str) -> None:
    assert problem(text) == "" and after(text, "2026-02-15T00:00") > at("2026-02-15T00:00")


# --- after a start ----------------------------------------------------------------------------------------------

NOW, SOON = at("2026-02-15T12:00"), at("2026-02-15T12:03")


@pytest.mark.parametrize(
    ("text", "last", "expected"),
    [
        ("1h", None, "2026-02-15T12:03"),
        ("1s", None, "2026-02-15T12:00:01"),
        ("15 3 * * *", None, "2026-02-15T12:03"),
        # Not missed: as ever.
        ("1h", "2026-02-15T11:30", "2026-02-15T12:30"),
        ("15 3 * * *", "2026-02-15T02:15:07", "2026-02-16T02:15"),
        # Just missed, and missed for a week: once, soon.
        ("1h", "2026-02-15T11:00", "2026-02-15T12:03"),
        ("15 3 * * *", "2026-02-15T02:14", "2026-02-15T12:03"),
        ("15 3 * * *", "2026-02-08T02:15", "2026-02-15T12:03"),
        # It would come anyway before that.
        ("1 13 * * *", "2026-02-01T12:00", "2026-02-15T12:01"),
        # The clock was put back since.
        ("1h", "2027-01-01T00:00", "2026-02-15T13:00"),
        ("15 3 * * *", "2027-01-01T00:00", "2026-02-16T02:15"),
        # By so little that it has run at the time that comes again.
        ("30 13 * * *", "2026-02-15T12:30:07", "2026-02-16T12:30"),
    ],
)
def test_a_missed_run_is_caught_up_once(text: str, last: str | None, expected: str) -> None:
    schedule = parse(text)
    assert schedule is not None
    assert first_run(schedule, at(last) if last else None, NOW, SOON, BERLIN) == at(expected)


def test_a_run_is_put_off_by_a_tenth_of_the_way_at_most() -> None:
    hourly, nightly = parse("1h"), parse("15 3 * * *")
    assert hourly and nightly
    assert max_jitter(hourly, NOW, 60, BERLIN) == 60 and max_jitter(hourly, NOW, 3_600, BERLIN) == 360
    assert max_jitter(nightly, at("2026-02-15T02:15"), 3_600, BERLIN) == 3_600
    assert max_jitter(schedules.Every(1), NOW, 60, BERLIN) == 0.1


def test_the_trigger_comes_after_now_however_long_the_machine_slept() -> None:
    hourly = parse("1h")
    assert hourly
    week_ago = NOW - timedelta(days=7)
    due = {JitteredSchedule(hourly, BERLIN, 60).get_next_fire_time(week_ago, NOW) for _ in range(50)}
    assert all(NOW + timedelta(hours=1) <= moment <= NOW + timedelta(hours=1, seconds=60) for moment in due)
    assert len(due) > 1
    assert JitteredSchedule(hourly, BERLIN, 0).get_next_fire_time(None, NOW) == NOW + timedelta(hours=1)
