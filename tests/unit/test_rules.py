"""The rules as a table: every rule, every number just under, at and just over it, with a hand-set clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from memd.lifecycle.lives import Life
from memd.lifecycle.rule_book import BUILT_IN as SHIPPED, parse
from memd.lifecycle.rules import Rule, RuleMatch, applies_to_pair, evaluate, pair_rules
from memd.models import TIERS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY, TICK = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
BUILT_IN = tuple(replace(rule, enabled=True) for rule in SHIPPED)
"""Every rule that there is, also those that a user must switch on."""
NAMES = {rule.name: rule for rule in BUILT_IN}


def life(tier: str = "stm", *, age: timedelta = 2 * HOUR, **known: Any) -> Life:
    """A daily note of this tier and age; `idle`, `moved_ago` are how long ago it was accessed and moved.

    Whenever it was accessed, someone said what was useful.
    """
    known.setdefault("told", known.get("accesses", 0))
    if (idle := known.pop("idle", None)) is not None:
        known["accessed"] = NOW - idle
    if (ago := known.pop("moved_ago", None)) is not None:
        known = {"moved": NOW - ago, "moved_by": "rule:demote-stale-ltm", "home": "ltm", **known}
    return Life(1, tier, "episodic", known.pop("role", "daily"), NOW - age, **known)


def judged(
    one: Life, rules: tuple[Rule, ...] = BUILT_IN, now: datetime = NOW, feedback: bool = False
) -> RuleMatch | None:
    return evaluate(one, rules, now, feedback)


def target(one: Life, rules: tuple[Rule, ...] = BUILT_IN, feedback: bool = False) -> str | None:
    """The tier that a memory goes to."""
    match = judged(one, rules, feedback=feedback)
    return match.tier if match else None


def importance(one: Life, rules: tuple[Rule, ...], now: datetime, feedback: bool = False) -> float:
    """What fading leaves of a memory's importance; all that it declares where nothing makes it fade."""
    match = evaluate(one, rules, now, feedback)
    return match.importance if match else one.base


def after(one: Life, match: RuleMatch | None, now: datetime) -> Life:
    """The life as a reflection leaves it."""
    if match is None:
        return replace(one, importance=one.base)
    moved = {
        "tier": match.tier,
        "home": one.tier,
        "moved": now,
        "moved_by": f"rule:{match.rule.name}",
        "deleted": match.deletes,
    }
    return replace(one, importance=match.importance, **(moved if match.tier else {}))  # type: ignore[arg-type]


# --- every number of every rule ---------------------------------------------------------------------------------

STAYS = None
TABLE: list[tuple[str, Life, str | None]] = [
    # promote-sensory: over 1 h, over 1 access
    ("promote-sensory", life("sensory", age=HOUR - TICK, accesses=2), STAYS),
    ("promote-sensory", life("sensory", age=HOUR, accesses=2), STAYS),
    ("promote-sensory", life("sensory", age=HOUR + TICK, accesses=2), "stm"),
    ("promote-sensory", life("sensory", age=2 * HOUR, accesses=0), STAYS),
    ("promote-sensory", life("sensory", age=2 * HOUR, accesses=1), STAYS),
    ("promote-sensory", life("sensory", age=400 * DAY, accesses=2), "stm"),
    # decay-sensory: over 4 h
    ("decay-sensory", life("sensory", age=4 * HOUR - TICK), STAYS),
    ("decay-sensory", life("sensory", age=4 * HOUR), STAYS),
    ("decay-sensory", life("sensory", age=4 * HOUR + TICK), "dormant"),
    ("decay-sensory", life("sensory", age=4 * HOUR + TICK, accesses=1), "dormant"),
    # wake: asked for after a rule laid it aside
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=DAY + TICK), STAYS),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=DAY), STAYS),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=DAY - TICK), "ltm"),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, home="stm"), "stm"),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, home="sensory"), "stm"),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, home=""), "stm"),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, moved_by="cli"), STAYS),
    ("wake", life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, merged=True), STAYS),
    # promote-to-ltm: over 72 h, over 50 accesses
    ("promote-to-ltm", life(age=72 * HOUR - TICK, accesses=51), STAYS),
    ("promote-to-ltm", life(age=72 * HOUR, accesses=51), STAYS),
    ("promote-to-ltm", life(age=72 * HOUR + TICK, accesses=51), "ltm"),
    ("promote-to-ltm", life(age=73 * HOUR, accesses=49), STAYS),
    ("promote-to-ltm", life(age=73 * HOUR, accesses=50), STAYS),
    # demote-stale-ltm: unused for over 168 h
    ("demote-stale-ltm", life("ltm", age=90 * DAY, idle=168 * HOUR - TICK), STAYS),
    ("demote-stale-ltm", life("ltm", age=90 * DAY, idle=168 * HOUR), STAYS),
    ("demote-stale-ltm", life("ltm", age=90 * DAY, idle=168 * HOUR + TICK), "dormant"),
    ("demote-stale-ltm", life("ltm", age=168 * HOUR), STAYS),
    ("demote-stale-ltm", life("ltm", age=168 * HOUR + TICK), "dormant"),
    ("demote-stale-ltm", life("ltm", age=90 * DAY, moved_ago=60 * DAY, home="stm", idle=8 * DAY), "dormant"),
    ("demote-stale-ltm", life("stm", age=168 * HOUR + TICK, accesses=20), STAYS),
    # decay-unaccessed moves nothing
    ("decay-unaccessed", life(age=90 * DAY, accesses=0), STAYS),
]


@pytest.mark.parametrize(("name", "one", "goes"), TABLE)
def test_every_border_of_every_rule_that_moves(name: str, one: Life, goes: str | None) -> None:
    match = judged(one)
    assert (match.tier if match else None) == goes
    if goes is not None:
        assert match is not None and match.rule is NAMES[name]
    # The rule alone says the same: no other one helped.
    assert target(one, (NAMES[name],)) == goes


@pytest.mark.parametrize(
    ("accesses", "useful", "goes"),
    [
        (19, 0, None), (20, 0, None), (21, 0, "dormant"),
        (100, 4, "dormant"), (100, 5, None), (100, 6, None), (40, 2, None), (41, 2, "dormant"),
    ],
)  # fmt: skip
def test_what_is_found_often_and_never_useful_is_pruned_where_someone_says_what_is(
    accesses: int, useful: int, goes: str | None
) -> None:
    """Over 20 accesses, under 5 in 100 of them useful."""
    for tier in ("stm", "ltm"):
        one = life(tier, age=30 * HOUR, accesses=accesses, useful=useful)
        assert target(one, feedback=True) == goes
        assert judged(one, feedback=False) is None
        assert target(replace(one, told=20), feedback=True) is None, (
            "of what nobody spoke, nobody knows whether it helps"
        )


def test_what_helped_whenever_someone_spoke_is_not_pruned_however_often_it_was_shown() -> None:
    assert target(life(age=30 * HOUR, accesses=1_000, useful=21, told=21), feedback=True) is None


def test_what_tells_a_fact_anew_is_asked_for_as_much_as_before() -> None:
    renewing = life(age=90 * DAY, accesses=1, inherited=10)
    assert importance(renewing, BUILT_IN, NOW) == 0.5
    assert importance(replace(renewing, inherited=9), BUILT_IN, NOW) == 0.1


def test_delete_takes_a_memory_out_of_all_answers_also_a_dormant_one() -> None:
    raw = judged(life("sensory", age=5 * HOUR))
    assert raw is not None and (raw.tier, raw.deletes) == ("dormant", True)
    forget, lay_aside = parse("forget", "idle>365d → delete"), parse("lay-aside", "idle>30d → archive")
    old = life("dormant", age=400 * DAY, moved_ago=30 * DAY)
    match = judged(old, (forget,))
    assert match is not None and (match.tier, match.deletes) == ("dormant", True)
    again = judged(replace(old, deleted=True), (forget, lay_aside))
    assert again is not None and again.tier is None
    aside = judged(life(age=40 * DAY), (lay_aside,))
    assert aside is not None and (aside.tier, aside.deletes) == ("dormant", False)


@pytest.mark.parametrize(
    ("age", "accesses", "left"),
    [
        (48 * HOUR - TICK, 0, 0.5), (48 * HOUR, 0, 0.5), (48 * HOUR + TICK, 0, 0.5),
        (72 * HOUR - TICK, 0, 0.5), (72 * HOUR, 0, 0.5 * 0.95), (96 * HOUR - TICK, 9, 0.5 * 0.95),
        (96 * HOUR, 9, 0.5 * 0.95**2), (96 * HOUR, 10, 0.5), (96 * HOUR, 11, 0.5), (96 * HOUR, 8, 0.5 * 0.95**2),
        (33 * DAY, 0, 0.5 * 0.95**31), (34 * DAY, 0, 0.1), (400 * DAY, 0, 0.1),
    ],
)  # fmt: skip
def test_importance_fades_by_whole_days_past_the_limit(age: timedelta, accesses: int, left: float) -> None:
    """Over 48 h, under 10 accesses: × 0.95 a day, and 0.1 at least."""
    one = life(age=age, accesses=accesses)
    assert importance(one, BUILT_IN, NOW) == pytest.approx(left, abs=1e-12)
    assert importance(replace(one, importance=0.123), BUILT_IN, NOW) == importance(one, BUILT_IN, NOW)


@pytest.mark.parametrize(("base", "left"), [(1.0, 1.0 * 0.95**10), (0.12, 0.1), (0.1, 0.1), (0.05, 0.05), (0.0, 0.0)])
def test_fading_begins_at_what_is_declared_and_never_lifts_it(base: float, left: float) -> None:
    assert importance(life(age=12 * DAY, base=base), BUILT_IN, NOW) == pytest.approx(left)


def test_only_the_short_term_fades() -> None:
    for tier in ("sensory", "ltm", "dormant"):
        assert importance(life(tier, age=30 * HOUR), BUILT_IN, NOW) == 0.5
    match = judged(life(age=12 * DAY))
    assert match is not None and match.tier is None
    assert (match.rule.name, match.rule.action.factor, match.rule.action.floor) == ("decay-unaccessed", 0.95, 0.1)


# --- who is exempt ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exempt", [{"pinned": True}, {"role": "memory"}])
@pytest.mark.parametrize("one", [row[1] for row in TABLE if row[2]] + [life(age=90 * DAY)])
def test_pinned_memories_and_the_long_term_file_never_age(one: Life, exempt: dict[str, Any]) -> None:
    assert judged(one, feedback=True) is not None
    spared = replace(one, **exempt)
    assert judged(spared, feedback=True) is None
    assert importance(spared, BUILT_IN, NOW, feedback=True) == spared.base


def test_a_rule_that_is_switched_off_does_nothing() -> None:
    off = tuple(replace(rule, enabled=False) for rule in BUILT_IN)
    for _, one, goes in TABLE:
        assert not goes or judged(one, off) is None
    assert importance(life(age=90 * DAY), off, NOW) == 0.5
    assert pair_rules(off) == ()


# --- order ------------------------------------------------------------------------------------------------------


def test_attention_comes_before_neglect() -> None:
    match = judged(life("sensory", age=5 * HOUR, accesses=2))
    assert match is not None and match.rule.name == "promote-sensory"


def test_what_was_pruned_is_not_woken_before_it_was_useful() -> None:
    pruned = life("dormant", age=90 * DAY, moved_ago=DAY, idle=HOUR, accesses=100, useful=4)
    match = judged(pruned, feedback=True)
    assert match is not None and match.tier is None and match.rule.name == "prune-low-utility"
    helped = judged(replace(pruned, useful=5), feedback=True)
    assert helped is not None and helped.tier == "ltm" and helped.rule.name == "wake"


def test_being_found_often_is_no_merit_in_what_never_helped() -> None:
    one = life(age=73 * HOUR, accesses=51)
    assert target(one, feedback=True) == "dormant"
    assert target(one, feedback=False) == "ltm"


def test_rising_is_not_shadowed_by_fading_whatever_its_numbers() -> None:
    wide = tuple(
        parse(rule.name, "tier=stm age>48h access<100 → decay 0.5") if rule.name == "decay-unaccessed" else rule
        for rule in BUILT_IN
    )
    match = judged(life(age=73 * HOUR, accesses=51), wide)
    assert match is not None and match.tier == "ltm" and match.importance == 0.5


def test_the_first_match_wins_and_ends_the_search_even_when_it_moves_nothing() -> None:
    keep, leave = parse("keep", "tag=recipe tier=ltm → promote ltm"), parse("leave", "tier=ltm → archive")
    recipe = life("ltm", tags=("Recipe",))
    match = judged(recipe, (keep, leave))
    assert match is not None and match.tier is None and match.rule is keep
    assert target(recipe, (leave, keep)) == "dormant"
    assert target(life("ltm"), (keep, leave)) == "dormant"


def test_the_similarity_pass_is_one_of_its_own() -> None:
    assert [rule.name for rule in pair_rules(BUILT_IN)] == ["dedup-all", "renew", "merge-similar"]
    assert [rule.action.verb for rule in pair_rules(BUILT_IN)] == ["dedup", "refine", "link"]
    assert judged(life(), pair_rules(BUILT_IN)) is None
    for name, border in (("dedup-all", 0.92), ("merge-similar", 0.9)):
        for step, enough in ((-1e-9, False), (0, False), (1e-9, True)):
            assert applies_to_pair(NAMES[name], border + step, [], NOW) is enough
    for tier, merges in (("stm", True), ("ltm", False)):
        assert applies_to_pair(NAMES["merge-similar"], 1.0, [life("stm"), life(tier)], NOW) is merges
    assert all(applies_to_pair(NAMES["dedup-all"], 1.0, [life("stm"), life(tier)], NOW) for tier in TIERS)


# --- once is enough ---------------------------------------------------------------------------------------------


def test_a_move_is_followed_to_its_end() -> None:
    """Raised and found to be stale already: one run says what two would."""
    match = judged(life(age=90 * DAY, accesses=51, idle=8 * DAY))
    assert match is not None and (match.tier, match.rule.name) == ("dormant", "demote-stale-ltm")
    assert match.why == "stm, 90 days old, 51 accesses; then ltm, unused for 192 h"
    raised = judged(life("sensory", age=12 * DAY, accesses=2))
    assert raised is not None and raised.tier == "stm" and raised.importance == pytest.approx(0.5 * 0.95**10)


def test_rules_that_contradict_each_other_move_nothing() -> None:
    up, down = parse("up", "tier=stm → promote ltm"), parse("down", "tier=ltm → demote stm")
    for tier in ("stm", "ltm"):
        match = judged(life(tier), (up, down))
        assert match is not None and match.tier is None and "up" in match.why and "down" in match.why
    too_late = life("dormant", age=90 * DAY, moved_ago=10 * DAY, idle=8 * DAY)
    assert target(too_late) is None


lives = st.builds(
    life,
    st.sampled_from(TIERS),
    age=st.integers(0, 2_000).map(lambda hours: hours * HOUR),
    idle=st.none() | st.integers(0, 2_000).map(lambda hours: hours * HOUR),
    moved_ago=st.none() | st.integers(0, 2_000).map(lambda hours: hours * HOUR),
    accesses=st.integers(0, 60), useful=st.integers(0, 4), base=st.floats(0, 1), home=st.sampled_from(["", *TIERS]),
    tags=st.sampled_from([(), ("x",)]),
)  # fmt: skip
OWN = (
    "tier=stm → promote ltm", "tier=ltm idle>3d → demote sensory", "importance<0.3 → archive", "age>9d → promote home",
    "tier=dormant access>5 → promote stm", "tag=x idle>2d → decay 0.5 floor 0", "useful>2 → promote ltm",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(lives, st.lists(st.sampled_from(OWN), unique=True, max_size=4), st.booleans())
def test_run_twice_is_run_once_whatever_the_rules(one: Life, own: list[str], feedback: bool) -> None:
    rules = (*(parse(f"own-{nth}", text) for nth, text in enumerate(own)), *BUILT_IN)
    once = after(one, judged(one, rules, feedback=feedback), NOW)
    again = judged(once, rules, feedback=feedback)
    assert again is None or again.tier is None
    assert after(once, again, NOW) == once


@pytest.mark.parametrize("one", [life("sensory", age=0 * DAY), life(age=0 * DAY, accesses=3), life("ltm", age=0 * DAY)])
def test_looking_every_day_or_once_at_the_end_is_the_same(one: Life) -> None:
    daily = one
    for day in range(1, 60):
        now = NOW + day * DAY
        daily = after(daily, judged(daily, now=now), now)
        at_once = after(one, judged(one, now=now), now)
        assert (daily.tier, daily.importance) == (at_once.tier, at_once.importance), day


# --- clocks and calendars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "now"),
    [
        # The night of 29 March 2026 has 23 hours in Berlin, that of 25 October 25: wall clocks are off by one.
        ("2026-03-28T12:00", "2026-03-30T13:00"),
        ("2026-10-24T12:00", "2026-10-26T11:00"),
        ("2026-02-27T12:00", "2026-03-01T12:00"),
    ],
)
def test_ages_are_hours_that_passed_and_not_what_clocks_show(seen: str, now: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    begin, end = (datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC) for text in (seen, now))
    assert end - begin == 48 * HOUR
    one = replace(life(), first_seen=begin)
    assert judged(one, now=end) is None
    assert judged(one, now=end + TICK) is not None
    assert importance(one, BUILT_IN, end + DAY) == 0.5 * 0.95
    assert importance(one, BUILT_IN, end + DAY - TICK) == 0.5


@pytest.mark.parametrize(("year", "days"), [(2024, 366), (2026, 365), (2028, 366)])
def test_the_29th_of_february_is_a_day_like_any_other(year: int, days: int) -> None:
    one = replace(life(), first_seen=datetime(year, 2, 27, tzinfo=UTC), base=1.0)
    assert importance(one, BUILT_IN, datetime(year, 3, 3, tzinfo=UTC)) == 0.95 ** (days - 365 + 2)
    stale = replace(life("ltm"), first_seen=datetime(year, 2, 23, tzinfo=UTC))
    end = datetime(year, 3, 1 if days == 366 else 2, tzinfo=UTC)
    assert end - stale.first_seen == 168 * HOUR
    assert judged(stale, now=end) is None and judged(stale, now=end + TICK) is not None


def test_a_person_s_decision_begins_an_age_anew() -> None:
    decided = life("ltm", age=400 * DAY, moved=NOW - 168 * HOUR, moved_by="cli")
    assert judged(decided) is None
    assert judged(decided, now=NOW + TICK) is not None


# --- conditions and words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("kind=episodic", {}, {"kind": "semantic"}),
        ("kind!=episodic", {"kind": "semantic"}, {}),
        ("role=daily", {}, {"role": "topic"}),
        ("tag=#Chat", {"tags": ("chat",)}, {"tags": ("chatter",)}),
        ("tag!=chat", {"tags": ("chatter",)}, {"tags": ("a", "CHAT")}),
        ("days>=3", {"days": 3}, {"days": 2}),
        ("useful=2", {"useful": 2}, {"useful": 1}),
        ("utility>=0.5", {"told": 4, "useful": 2}, {"told": 5, "useful": 2}),
        ("access<=4", {"accesses": 4}, {"accesses": 5}),
        ("access!=4", {"accesses": 5}, {"accesses": 4}),
        ("importance<0.3", {"base": 0.29}, {"base": 0.3}),
        ("idle>=2h", {"accessed": NOW - 2 * HOUR}, {"accessed": NOW - 2 * HOUR + TICK}),
        ("age<=2h", {}, {"first_seen": NOW - 2 * HOUR - TICK}),
    ],
)
def test_what_conditions_ask(text: str, yes: dict[str, Any], no: dict[str, Any]) -> None:
    rule = (parse("r", f"{text} → archive"),)
    assert judged(replace(life(), **yes), rule, feedback=True) is not None
    assert judged(replace(life(), **no), rule, feedback=True) is None


def test_rules_that_ask_for_use_wait_until_someone_says_what_is_useful() -> None:
    for text in ("useful<1", "utility<0.5"):
        assert judged(life(), (parse("r", f"{text} → archive"),), feedback=False) is None


def test_conditions_ask_for_the_importance_that_fading_leaves_now() -> None:
    rules = (parse("forget", "importance<0.3 → archive"), *BUILT_IN)
    faint, fresh = life(age=13 * DAY), life(age=11 * DAY)
    assert target(faint, rules) == "dormant"
    assert target(fresh, rules) is None
    # What the ledger keeps is of the last reflection, and does not count.
    assert target(replace(fresh, importance=0.1), rules) is None


@pytest.mark.parametrize(
    ("text", "age", "idle", "days"),
    [
        ("tier=stm", 5, 1, 5),
        ("age>2d", 5, 1, 3),
        ("idle>=2d", 9, 5, 3),
        ("age>2d idle>1d", 9, 4, 3),
        ("age>8d idle>1d", 9, 4, 1),
        ("age<30d idle>1d", 9, 4, 3),
    ],
)
def test_fading_is_counted_from_the_last_limit_that_was_passed(text: str, age: int, idle: int, days: int) -> None:
    rule = (parse("r", f"{text} → decay 0.5 floor 0"),)
    assert importance(life(age=age * DAY, idle=idle * DAY), rule, NOW) == 0.5 * 0.5**days


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (life(age=73 * HOUR, accesses=51), "stm, 73 h old, 51 accesses"),
        (life("sensory", age=5 * HOUR), "delete: sensory, 5 h old"),
        (life("ltm", age=90 * DAY, idle=200 * HOUR), "ltm, unused for 200 h"),
        (life(age=4 * DAY, accesses=1), "stm, 96 h old, 1 access: importance 0.5 → 0.45"),
        (life(accesses=40, useful=1), "shown 40 times when someone said what was useful, useful in 2.5% of them"),
        (life("dormant", moved_ago=HOUR, idle=TICK), "dormant, asked for since it became dormant"),
    ],
)
def test_a_match_says_why_with_its_numbers(one: Life, words: str) -> None:
    match = judged(one, feedback=True) if one.useful else judged(one)
    assert match is not None and match.why == words
