"""Rules as people write them: read, written back, and refused with a word on what is wrong and where."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from memd.errors import NotFound, UsageError
from memd.lifecycle.rule_book import (
    BUILT_IN,
    FIELDS,
    RANK,
    VERBS,
    body,
    choose,
    find,
    named,
    origin,
    parse,
    rule_book,
    text_for,
    written,
)
from memd.lifecycle.rules import KEEP, OBSERVED, Rule, RuleAction, RuleCondition
from memd.models import KINDS, TIERS


def test_a_rule_is_read() -> None:
    assert parse("x", "tier=stm age>48h access<10 → decay 0.95 floor 0.1") == Rule(
        "x",
        (
            RuleCondition("tier", "=", "stm"),
            RuleCondition("age", ">", timedelta(hours=48)),
            RuleCondition("access", "<", 10),
        ),
        RuleAction("decay", factor=0.95, floor=0.1),
    )


@pytest.mark.parametrize(
    "text",
    [
        "tier=stm age>48h access<10 -> decay 0.95",
        "tier=stm age>48h access<10 => decay 0.95 floor 0.1",
        "tier = stm and age > 2d, access < 10→decay 0.950",
        "on tier=stm age>2880m access<10 → decay .95",
    ],
)
def test_it_may_be_written_in_many_ways(text: str) -> None:
    assert parse("x", text) == parse("x", "tier=stm age>48h access<10 → decay 0.95 floor 0.1")


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)
def test_the_built_in_rules_can_be_written_and_read(rule: Rule) -> None:
    assert parse(rule.name, written(rule)) == replace(rule, built_in=False, doc="")
    assert rule.doc and rule.built_in


def test_the_built_in_rules_have_the_known_numbers() -> None:
    assert {rule.name: body(rule) for rule in BUILT_IN if not rule.of_pairs} == {
        "promote-sensory": "tier=sensory age>1h access>1 → promote stm",
        "decay-sensory": "tier=sensory age>4h → delete",
        "prune-low-utility": "told>20 utility<0.05 → demote dormant",
        "wake": "tier=dormant returned=yes → promote home",
        "promote-to-ltm": "tier=stm age>72h access>50 → promote ltm",
        "demote-stale-ltm": "tier=ltm idle>168h → demote dormant",
        "decay-unaccessed": "tier=stm age>48h access<10 → decay 0.95 floor 0.1",
    }


# --- the way there and back -------------------------------------------------------------------------------------

words = st.from_regex(r"[a-zA-Zäöü][\w/:-]{0,12}", fullmatch=True)
shares = st.floats(0.001, 0.999)
order = st.sampled_from([">", ">=", "<", "<="])
exact = st.sampled_from(["=", "!="])
spans = st.integers(1, 90_000).map(lambda minutes: timedelta(minutes=minutes))
CONDITIONS = {
    "tier": st.builds(RuleCondition, st.just("tier"), exact, st.sampled_from(TIERS)),
    "kind": st.builds(RuleCondition, st.just("kind"), exact, st.sampled_from(KINDS)),
    "role": st.builds(RuleCondition, st.just("role"), exact, words),
    "tag": st.builds(RuleCondition, st.just("tag"), exact, words),
    "age": st.builds(RuleCondition, st.just("age"), order, spans),
    "idle": st.builds(RuleCondition, st.just("idle"), order, spans),
    "access": st.builds(RuleCondition, st.just("access"), exact | order, st.integers(1, 10**6)),
    "days": st.builds(RuleCondition, st.just("days"), exact | order, st.integers(1, 10**6)),
    "useful": st.builds(RuleCondition, st.just("useful"), exact | order, st.integers(1, 10**6)),
    "told": st.builds(RuleCondition, st.just("told"), exact | order, st.integers(1, 10**6)),
    "utility": st.builds(RuleCondition, st.just("utility"), exact | order, shares),
    "importance": st.builds(RuleCondition, st.just("importance"), exact | order, shares),
    "similarity": st.builds(RuleCondition, st.just("similarity"), st.sampled_from([">", ">="]), shares),
    "returned": st.builds(RuleCondition, st.just("returned"), st.just("="), st.booleans()),
}
single = [name for name in CONDITIONS if name not in ("similarity", "importance", "tier")]
actions = st.one_of(
    st.builds(RuleAction, st.just("promote"), st.sampled_from(["sensory", "stm", "ltm", "home"])),
    st.builds(RuleAction, st.just("demote"), st.sampled_from(["sensory", "stm", "dormant"])),
    st.builds(RuleAction, st.just("decay"), factor=st.floats(0.001, 1), floor=st.floats(0, 1)),
    st.sampled_from([RuleAction("archive"), RuleAction("delete")]),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    of_pairs = draw(st.booleans())
    fields = draw(st.lists(st.sampled_from(single), unique=True, min_size=0 if of_pairs else 1))
    when = tuple(draw(CONDITIONS[name]) for name in (*fields, *(["similarity"] if of_pairs else [])))
    action = draw(
        st.sampled_from(
            [RuleAction("link"), *(RuleAction("dedup", keep=which) for which in ("", *KEEP)), RuleAction("refine")]
        )
        if of_pairs
        else actions
    )
    if action.verb in ("archive", "delete"):
        when = (*when, draw(CONDITIONS["importance"]), draw(CONDITIONS["tier"]))
    return Rule(draw(st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)), when, action, draw(st.booleans()))


@given(rules())
def test_what_is_written_is_read_as_the_same(rule: Rule) -> None:
    plain = replace(rule, name=rule.name.removeprefix("sys-") or "x")
    assert parse(plain.name, written(plain)) == plain


def test_every_field_and_every_tier_is_known_to_all_who_use_them() -> None:
    assert set(FIELDS) == set(CONDITIONS) == {*OBSERVED, "tag", "importance", "similarity"}
    assert set(RANK) == set(TIERS)


@given(st.text(max_size=60))
def test_whatever_is_written_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = parse("x", text)
    except UsageError as error:
        assert error.message.startswith("rule `x`") and error.hint
    else:
        assert parse("x", written(rule)) == rule


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no arrow"),
        ("tier=stm", "there is no arrow"),
        ("off", "there is no arrow"),
        ("→ archive", "there is no condition"),
        ("teir=stm → archive", "character 1: `teir` is no field; did you mean `tier`?"),
        ("tier=stm colour=red → archive", "character 10: `colour` is no field. There are: tier, kind, role, tag, age,"),
        ("stm age>5h → archive", "character 1: `stm` is no condition"),
        ("tier=smt → archive", "character 6: `smt` is no tier; did you mean `stm`? There are: sensory, stm, ltm,"),
        ("tier=pinned → archive", "character 6: rules do not apply to pinned memories"),
        ("kind=epic → archive", "`epic` is no kind; did you mean `episodic`?"),
        ("tier>stm → archive", "character 5: `tier` cannot be compared with `>`. It takes: = !="),
        ("tier:stm → archive", "`tier` cannot be compared with `:`; did you mean `=`?"),
        ("age=>48h → archive", "character 4: `age` cannot be compared with `=>`; did you mean `>=`?"),
        ("age=>48h → archive", "It takes: > >= < <="),
        ("age=48h → archive", "`age` cannot be compared with `=`"),
        ("returned!=yes → archive", "`returned` cannot be compared with `!=`"),
        ("returned=maybe → archive", "`maybe` is no answer"),
        ("age>48 → archive", "character 5: `48` is no time: a whole number and m, h, d or w"),
        ("age>1.5h → archive", "`1.5h` is no time"),
        ("access>1.5 → archive", "`1.5` is no whole number"),
        ("access>-1 → archive", "`-1` is no whole number"),
        ("utility<5% → archive", "`5%` is no number"),
        ("utility<nan → archive", "`nan` is not from 0 to 1"),
        ("importance>2 → archive", "`2` is not from 0 to 1"),
        ("tier=stm →", "nothing follows the arrow; it may be: promote TIER, demote TIER, decay FACTOR"),
        ("tier=stm → forget", "character 12: `forget` is no action. There are: promote, demote, decay, archive,"),
        ("tier=stm → demot dormant", "`demot` is no action; did you mean `demote`?"),
        ("tier=stm → promote", "`promote` needs one tier"),
        ("tier=stm → promote ltm dormant", "character 24: `promote` needs one tier"),
        ("tier=stm → promote lmt", "`lmt` is no tier; did you mean `ltm`? There are: sensory, stm, ltm, dormant, home"),
        ("tier=ltm → demote home", "`home` is no tier"),
        ("tier=stm → promote pinned", "a rule cannot pin a memory"),
        ("access>3 → promote dormant", "nothing can be promoted to dormant"),
        ("access>3 → demote ltm", "nothing can be demoted to ltm"),
        ("tier=ltm → promote stm", "from ltm to stm is no promotion"),
        ("tier=dormant → demote stm", "from dormant to stm is no demotion"),
        ("tier=stm → archive now", "character 20: nothing can follow `archive`"),
        ("tier=stm → decay", "write it as `decay FACTOR [floor NUMBER]`"),
        ("tier=stm → decay 0.9 flor 0.1", "character 22: write it as `decay FACTOR [floor NUMBER]`"),
        ("tier=stm → decay 1.01", "`1.01` is not from 0 to 1"),
        ("tier=stm → decay 0", "the factor must be over 0 and at most 1"),
        ("tier=stm → decay 0.5 floor 2", "`2` is not from 0 to 1"),
        ("similarity>0.9 → decay 0.9", "`similarity` is between two memories"),
        ("similarity>0.9 → archive", "`similarity` is between two memories"),
        ("similarity<0.9 → dedup", "`similarity` cannot be compared with `<`"),
        ("tier=stm → link", "`link` needs a condition on similarity"),
        ("tier=stm → dedup", "`dedup` needs a condition on similarity"),
        ("importance<0.5 → decay 0.9", "`decay` changes the importance"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse("x", text)
    assert said in caught.value.message, caught.value.message
    assert caught.value.message.startswith("rule `x`") and caught.value.hint


@pytest.mark.parametrize(
    "asked",
    [
        "tier=stm tier=ltm", "tier=stm tier!=stm", "tier!=stm tier!=ltm tier!=dormant tier!=sensory",
        "kind=semantic kind=episodic", "role=a role=b", "tag=x tag!=X", "returned=yes returned=no", "access<0",
        "access>5 access<6", "access=3 access!=3", "access=3 access=4", "access!=0 access!=1 access<2", "age<0m",
        "age>5h age<2h", "age>5h age<5h", "idle>=5h idle<5h", "utility>1", "importance<0", "utility>0.5 utility<=0.5",
    ],
)  # fmt: skip
def test_what_no_memory_can_be_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="no memory can meet"):
        parse("x", f"kind!=procedural {asked} → archive" if "kind" not in asked else f"{asked} → archive")


@pytest.mark.parametrize(
    "asked",
    [
        "tier!=stm tier!=ltm", "tag=x tag=y", "tag!=x tag!=y", "role!=a role!=b", "access>5 access<7",
        "access>=5 access<=5", "access!=0 access!=1", "age>5h age<301m", "age>=5h age<=5h", "utility>0.5 utility<0.6",
        "utility>=1", "idle>52w",
    ],
)  # fmt: skip
def test_what_some_memory_can_be_is_not(asked: str) -> None:
    assert parse("x", f"{asked} → archive")


@pytest.mark.parametrize("name", ["", "Big", "two words", "a.b", "-x", "ä", "x" * 65, "sys-"])
def test_a_name_is_small_letters_digits_and_dashes(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a rule"):
        named(name)


# --- the rules in force -----------------------------------------------------------------------------------------


def test_own_rules_come_first_and_built_in_ones_keep_their_place() -> None:
    made = rule_book(
        [
            ("b", "tag=b → archive"),
            ("sys-wake", "off"),
            ("a", "tag=a → archive"),
            ("decay-unaccessed", "tier=stm → decay 0.9"),
            ("decay-sensory", "off tier=sensory age>9h → delete"),
        ]
    )
    assert not made.problems
    assert [rule.name for rule in made.rules] == ["b", "a", *(rule.name for rule in BUILT_IN)]
    assert {rule.name: origin(rule) for rule in made.rules if origin(rule) != "built-in"} == {
        "a": "own", "b": "own", "decay-unaccessed": "changed", "decay-sensory": "changed",
    }  # fmt: skip
    shipped_off = {rule.name for rule in BUILT_IN if not rule.enabled}
    off = {rule.name for rule in made.rules if not rule.enabled}
    assert off == shipped_off - {"decay-unaccessed"} | {"decay-sensory", "wake"}
    assert find(made.rules, "sys-decay-unaccessed").doc == find(BUILT_IN, "decay-unaccessed").doc


def test_all_problems_are_told_and_the_built_in_rule_holds() -> None:
    made = rule_book(
        [
            ("mine", "tag=a → arhive"),
            ("wake", "tier=dormnt → archive"),
            ("wakey", "off"),
            ("No Name", "tag=a → archive"),
            ("sys-decay-sensory", "off"),
            ("decay-sensory", "on"),
        ]
    )
    assert [name for name, _ in made.problems] == ["mine", "wake", "wakey", "No Name", "decay-sensory"]
    assert "did you mean `archive`" in made.problems[0][1] and "did you mean `wake`" in made.problems[2][1]
    assert "given twice" in made.problems[4][1]
    assert find(made.rules, "wake") == find(BUILT_IN, "wake")
    assert [rule.name for rule in made.rules] == [rule.name for rule in BUILT_IN]


def test_switching_a_rule_keeps_its_text() -> None:
    rules = rule_book([("mine", "tag=a → archive"), ("wake", "tier=dormant returned=yes → promote stm")]).rules
    assert text_for(rules, "decay-sensory", "off") == "off"
    assert text_for(rules, "mine", " off ") == "off tag=a → archive"
    assert text_for(rule_book([("mine", "off tag=a → archive")]).rules, "mine", "on") == "tag=a → archive"
    assert text_for(rules, "wake", "off") == "off tier=dormant returned=yes → promote stm"
    assert text_for(rules, "new", " age>2d  ->  archive ") == "age>2d -> archive"
    with pytest.raises(NotFound, match="did you mean `mine`"):
        text_for(rules, "min", "off")
    with pytest.raises(UsageError):
        text_for(rules, "new", "age>2 -> archive")


def test_one_rule_can_be_chosen_by_name_or_by_text_even_when_it_is_off() -> None:
    rules = rule_book([("wake", "off")]).rules
    assert choose(rules, "") == rules
    assert [(rule.name, rule.enabled) for rule in choose(rules, "sys-wake")] == [("wake", True)]
    assert body(choose(rules, "off age>2d → archive")[0]) == "age>48h → archive"
    assert choose(rules, "off age>2d → archive")[0].enabled
    with pytest.raises(NotFound):
        choose(rules, "nothing")


def test_every_action_can_be_written() -> None:
    assert {parse("x", f"{'similarity>0.5' if verb in ('link', 'dedup', 'refine') else 'access>1'} → {how}").action.verb
            for verb, how in {**VERBS, "promote": "promote ltm", "demote": "demote stm", "decay": "decay 0.5",
                              "dedup": "dedup keep newest"}.items()
            } == set(VERBS)  # fmt: skip
