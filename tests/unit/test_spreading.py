"""What a memory is worth to a task, and what its edges bring: every number of the model, just under, at and over."""

from __future__ import annotations

import math
from datetime import date, timedelta

import pytest

from memd.config.schema import ContextSettings
from memd.lifecycle import lives, spreading
from memd.lifecycle.lives import Edge
from memd.lifecycle.spreading import (
    PER_SEED,
    MemoryStanding,
    SpreadPool,
    about_the_task,
    contradict,
    contradictions,
    crowd,
    lift_parents,
    parents_of,
    recency,
    score,
    scores_of,
    spread,
    suppress,
    use,
)

TODAY = date(2028, 3, 1)  # after a leap day


def standing(memory: int = 1, relevance: float = 0.5, **given: object) -> MemoryStanding:
    plain: dict[str, object] = {"kind": "semantic", "tier": "ltm", "importance": 0.5, "accesses": 0, "day": None}
    return MemoryStanding(memory, relevance, **{**plain, **given})  # type: ignore[arg-type]


def edge(one: int, other: int, rel: str = "relates_to", weight: float = 0.5, origin: str = "similar") -> Edge:
    return Edge(0, one, other, rel, weight, origin)


# --- the score ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "weights"),
    [("semantic", (0.45, 0.10, 0.30, 0.15)), ("episodic", (0.30, 0.40, 0.15, 0.15)),
     ("procedural", (0.35, 0.05, 0.15, 0.45))],
)  # fmt: skip
def test_each_factor_weighs_what_the_table_says(kind: str, weights: tuple[float, ...]) -> None:
    long_ago = date(1900, 1, 1)
    nothing = {"relevance": 0.0, "importance": 0.0, "accesses": 0, "day": long_ago, "kind": kind}
    for factor, weight in zip(
        ({"relevance": 1.0}, {"day": TODAY}, {"importance": 1.0}, {"accesses": 50}), weights, strict=True
    ):
        assert score(standing(**{**nothing, **factor}), TODAY) == pytest.approx(weight)
    assert sum(weights) == pytest.approx(1.0)


@pytest.mark.parametrize(("tier", "times"), [("ltm", 1.0), ("stm", 0.8), ("dormant", 0.15), ("sensory", 0.1)])
def test_a_tier_multiplies_and_what_is_pinned_counts_as_long_term(tier: str, times: float) -> None:
    whole = score(standing(), TODAY)
    assert score(standing(tier=tier), TODAY) == pytest.approx(times * whole)
    assert score(standing(tier=tier, pinned=True), TODAY) == pytest.approx(whole)


def test_recency_halves_every_thirty_days_over_leap_days_too() -> None:
    assert recency(TODAY, TODAY) == 1.0
    assert recency(TODAY + timedelta(days=3), TODAY) == 1.0
    assert recency(date(2028, 1, 31), TODAY) == pytest.approx(0.5)  # thirty days, one of them the 29th
    assert recency(TODAY - timedelta(days=60), TODAY) == pytest.approx(0.25)
    assert recency(None, TODAY) == 0.5
    falling = [recency(TODAY - timedelta(days=days), TODAY) for days in range(400)]
    assert falling == sorted(falling, reverse=True) and len(set(falling)) == 400


def test_use_grows_ever_slower_up_to_fifty() -> None:
    assert use(0) == 0.0 and use(50) == 1.0 and use(51) == 1.0 and use(10**6) == 1.0
    assert use(49) < 1.0
    assert use(7) == pytest.approx(math.log(8) / math.log(51))
    assert use(5) - use(0) > use(45) - use(40)


# --- what of a search is weighed ----------------------------------------------------------------------------


def test_what_rests_is_left_out_while_something_awake_is_as_relevant() -> None:
    for tier in ("dormant", "sensory"):
        assert set(scores_of([standing(1, 0.5), standing(2, 0.5, tier=tier, kind="episodic")], TODAY)) == {1}


def test_a_resting_memory_that_answers_best_stays_at_the_weight_of_its_tier() -> None:
    one, other = standing(1, 0.5), standing(2, 0.51, tier="dormant", kind="episodic")
    found = scores_of([one, other], TODAY)
    assert set(found) == {1, 2}
    assert found[2] == pytest.approx(0.15 * score(standing(2, 0.51, kind="episodic"), TODAY))


def test_what_is_known_for_good_is_left_out_only_beside_the_point() -> None:
    asked = [(0.39, "dormant"), (0.4, "dormant"), (0.5, "dormant"), (0.5, "sensory")]
    found = [scores_of([standing(1, 0.5), standing(2, relevance, tier=tier)], TODAY) for relevance, tier in asked]
    assert [2 in one for one in found] == [False, True, True, False]
    assert found[2][2] == pytest.approx(0.8 * score(standing(2, 0.5), TODAY))


def test_having_faded_holds_back_what_is_beside_the_point() -> None:
    fresh, faded = standing(1, 0.5), standing(1, 0.5, importance=0.1)
    assert score(faded, TODAY, best=0.5) == score(fresh, TODAY, best=0.5)
    assert score(faded, TODAY, best=1.0) == pytest.approx(score(fresh, TODAY, best=1.0) - 0.30 * 0.4 / 2)
    assert score(faded, TODAY) == pytest.approx(score(fresh, TODAY) - 0.30 * 0.4)


@pytest.mark.parametrize(("relevance", "weight"), [(0.74, 0.15), (0.75, 0.8), (0.9, 0.8)])
def test_one_that_answers_best_by_far_is_weighed_as_short_term(relevance: float, weight: float) -> None:
    found = scores_of([standing(1, 0.5), standing(2, relevance, tier="dormant", kind="episodic")], TODAY)
    assert found[2] == pytest.approx(weight * score(standing(2, relevance, kind="episodic"), TODAY))


def test_a_pinned_memory_never_rests() -> None:
    assert set(scores_of([standing(1, 0.9), standing(2, 0.5, tier="dormant", pinned=True)], TODAY)) == {1, 2}


def test_what_is_far_from_the_task_is_left_out() -> None:
    for relevance, stays in ((0.64, False), (0.65, True), (0.66, True)):
        close = {1: 1.0, 3: 0.83}
        assert about_the_task({**close, 2: relevance}) == ({**close, 2: relevance} if stays else close)
    assert about_the_task({1: 1.0, 2: 0.79, 3: 0.7}) == {1: 1.0}, "relevance drops there"
    for least, doubtful in ((0.18, False), (0.33, True)):
        assert about_the_task({1: least - 0.001}, doubtful) == {}, "nothing is about the task"
        assert about_the_task({1: least}, doubtful) == {1: least}
    assert about_the_task({}) == {} and scores_of([], TODAY) == {}


# --- edges --------------------------------------------------------------------------------------------------


def test_a_neighbour_gets_the_seeds_score_times_weight_times_damping_from_either_end() -> None:
    for link in (edge(1, 2, weight=0.8), edge(2, 1, weight=0.8)):
        pool = spread({1: 0.5}, [link], {2})
        assert pool.scores == {1: 0.5, 2: pytest.approx(0.5 * 0.8 * 0.3)}
        assert (pool.expanded, pool.boosted) == (1, 0)


@pytest.mark.parametrize(("weight", "comes"), [(0.099, False), (0.1, True), (0.11, True)])
def test_a_light_edge_is_not_followed(weight: float, comes: bool) -> None:
    assert (2 in spread({1: 0.5}, [edge(1, 2, weight=weight)], {2}).scores) == comes


@pytest.mark.parametrize("rel", ["contains", "merged_into"])
def test_edges_that_are_not_followed(rel: str) -> None:
    assert spread({1: 0.5}, [edge(1, 2, rel, 0.9)], {2}).scores == {1: 0.5}


def test_only_what_may_enter_comes_in() -> None:
    assert spread({1: 0.5}, [edge(1, 2)], set()).scores == {1: 0.5}


def test_five_edges_of_a_seed_are_followed_the_heaviest() -> None:
    links = [edge(1, number, weight=number / 100) for number in range(20, 30)]
    assert spread({1: 0.5}, links, set(range(20, 30))).scores.keys() == {1, 25, 26, 27, 28, 29}
    assert PER_SEED == 5


def test_fifty_come_in_at_most_the_best() -> None:
    links = [edge(seed, 1000 + 5 * seed + nth) for seed in range(1, 12) for nth in range(5)]
    pool = spread({seed: seed / 10 for seed in range(1, 12)}, links, range(1000, 2000))
    assert pool.expanded == ContextSettings().max_from_edges == 50
    assert not {1005, 1006, 1007, 1008, 1009} & pool.scores.keys(), "those of the weakest seed"


def test_a_memory_found_both_ways_gains_at_most_half_of_its_own_score() -> None:
    assert spread({1: 0.5, 2: 0.4}, [edge(1, 2)], set()).scores == {
        1: pytest.approx(0.5 + 0.4 * 0.5 * 0.3), 2: pytest.approx(0.4 + 0.5 * 0.5 * 0.3)
    }  # fmt: skip
    pool = spread({1: 0.9, 2: 0.1}, [edge(1, 2, weight=1.0)], set())
    assert pool.scores[2] == pytest.approx(0.15) and pool.boosted == 2


def test_a_contradiction_is_worth_four_fifths_of_what_it_contradicts_whatever_its_weight() -> None:
    for link in (edge(1, 2, "contradicts", 0.01), edge(2, 1, "contradicts", 0.01)):
        against = contradictions([link], {1, 2})
        pool = spread({1: 0.5}, [link], set())
        contradict(pool, against)
        assert pool.scores == {1: 0.5, 2: pytest.approx(0.4)} and pool.contradictions == 1
    high = SpreadPool({1: 0.5, 2: 0.45})
    contradict(high, against)
    assert high.scores == {1: 0.5, 2: 0.45} and high.contradictions == 0
    assert contradictions([link], {1}) == {2: [1]}, "what is gone is not known"


# --- summaries ----------------------------------------------------------------------------------------------


def test_a_summary_is_worth_at_least_what_it_contains_and_stands_for_it() -> None:
    parents = parents_of([edge(9, 1, "contains"), edge(9, 2, "contains")])
    pool = SpreadPool({1: 0.5, 2: 0.3, 3: 0.2})
    lift_parents(pool, parents, {9})
    assert pool.scores[9] == 0.5 and pool.parents == 1
    suppress(pool, parents)
    assert pool.scores == {3: 0.2, 9: 0.5} and pool.suppressed == 2


def test_a_summary_that_may_not_enter_stands_for_nothing() -> None:
    parents = parents_of([edge(9, 1, "contains")])
    pool = SpreadPool({1: 0.5})
    lift_parents(pool, parents, set())
    suppress(pool, parents)
    assert pool.scores == {1: 0.5}


def test_summaries_of_summaries_lift_and_suppress_all_the_way() -> None:
    parents = parents_of([edge(9, 1, "contains"), edge(10, 9, "contains")])
    pool = SpreadPool({1: 0.5})
    lift_parents(pool, parents, {9, 10})
    suppress(pool, parents)
    assert pool.scores == {10: 0.5}


def test_summaries_that_contain_each_other_do_not_vanish_together() -> None:
    parents = parents_of([edge(1, 2, "contains"), edge(2, 1, "contains"), edge(2, 3, "contains")])
    pool = SpreadPool({1: 0.5, 2: 0.6, 3: 0.4})
    suppress(pool, parents)
    assert pool.scores == {2: 0.6}


def test_what_a_shown_summary_contains_is_suppressed_and_the_summary_itself_is_not() -> None:
    pool = SpreadPool({1: 0.5, 9: 0.1})
    suppress(pool, parents_of([edge(9, 1, "contains")]), shown={9})
    assert pool.scores == {9: 0.1}


# --- clusters -----------------------------------------------------------------------------------------------


def test_three_alike_that_nobody_summed_up_are_a_crowd() -> None:
    links = [edge(1, 2), edge(2, 3)]
    assert crowd({1, 2, 3}, links, {}) == (1, 2, 3)
    assert crowd({1, 2, 4}, links, {}) == (), "two of them"
    assert crowd({1, 2, 3}, links, {2: {9}}) == (), "one is summed up already"
    assert crowd({1, 2, 3}, links, {7: {2}}) == (), "one is a summary itself"
    assert crowd({1, 2, 3}, [edge(1, 2, origin="tag"), edge(2, 3, origin="tag")], {}) == (), "only a tag in common"


# --- a person's word ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "tier", "home", "after"),
    [
        ("promote", "sensory", "", "stm"), ("promote", "stm", "", "ltm"), ("promote", "ltm", "stm", "ltm"),
        ("promote", "dormant", "", "stm"), ("promote", "dormant", "ltm", "ltm"),
        ("promote", "dormant", "sensory", "stm"),
        ("demote", "ltm", "", "stm"), ("demote", "stm", "", "dormant"), ("demote", "sensory", "", "dormant"),
        ("demote", "dormant", "ltm", "dormant"),
        ("archive", "ltm", "", "dormant"), ("delete", "stm", "", "dormant"), ("archive", "dormant", "", "dormant"),
    ],
)  # fmt: skip
def test_where_a_memory_goes(verb: str, tier: str, home: str, after: str) -> None:
    assert lives.tier_after(verb, tier, home) == after


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [("boost", 0.5, 0.6), ("boost", 0.95, 1.0), ("boost", 1.0, 1.0), ("diminish", 0.5, 0.4), ("diminish", 0.05, 0.0),
     ("diminish", 0.0, 0.0), ("pin", False, True), ("pin", True, True), ("unpin", True, False)],
)  # fmt: skip
def test_what_a_fact_becomes(verb: str, before: float, after: float) -> None:
    assert lives.fact_after(verb, before) == after
    assert lives.fact_of(verb) == ("pinned" if "pin" in verb else "importance")


def test_a_contradiction_keeps_most_of_the_score() -> None:
    assert spreading.CONTRADICTION == 0.8
