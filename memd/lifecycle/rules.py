"""The rules by which memories age: what each asks of a life, what it does then, and which of them wins.

Rules are looked at in order and the first that matches wins. A move is followed to where it ends, as if the rules were
asked again right after it: so one run leaves nothing for a second run at the same moment, whatever rules someone wrote.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memd.lifecycle.fading import DAY, days_past, faded
from memd.lifecycle.lives import RULE, Life

HOME = "home"
"""What `promote` can name instead of a tier: the one that the memory had before it was laid aside."""
DORMANT = "dormant"
FLOOR = 0.1
"""The importance below which nothing fades."""
OF_PAIRS = ("link", "dedup", "refine")
"""What is done to two memories that are alike."""
LIKE = 0.8
SIMILAR = 0.9
SAME = 0.92

Value = str | int | float | bool | timedelta

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip

OBSERVED: dict[str, Callable[[Life, datetime], Any]] = {
    "tier": lambda life, now: life.tier,
    "kind": lambda life, now: life.kind,
    "role": lambda life, now: life.role,
    "age": lambda life, now: life.age(now),
    "idle": lambda life, now: life.idle(now),
    "access": lambda life, now: life.accesses,
    "days": lambda life, now: life.days,
    "useful": lambda life, now: life.useful,
    "utility": lambda life, now: life.utility,
    "returned": lambda life, now: life.returned,
}
"""What a condition can ask of one life, besides its tags and its importance."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """One thing that must be so; the conditions of a rule must all be."""

    field: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class RuleAction:
    """What a rule does. `archive` and `delete` lay a memory aside; no rule ever deletes text."""

    verb: str
    """promote, demote, decay, archive, delete; for pairs link, dedup, refine."""
    tier: str = ""
    factor: float = 1.0
    floor: float = 0.0

    def target(self, life: Life) -> str | None:
        """The tier that it puts a memory into; None where it moves nothing."""
        if self.verb in ("archive", "delete"):
            return DORMANT
        if self.tier != HOME:
            return self.tier or None
        # What someone came back for is no longer raw.
        return life.home if life.home in ("stm", "ltm") else "stm"


@dataclass(frozen=True, slots=True)
class Rule:
    """When, then."""

    name: str
    when: tuple[RuleCondition, ...]
    action: RuleAction
    enabled: bool = True
    built_in: bool = False
    doc: str = ""
    of_pairs: bool = field(init=False, compare=False)
    """Whether it compares memories with each other, which is a pass of its own."""
    needs_feedback: bool = field(init=False, compare=False)
    """Where nobody says what was useful nothing was, and what is found most would seem the most useless."""

    def __post_init__(self) -> None:
        # Told once and not at each look: a sweep looks at a hundred thousand memories.
        fields = {condition.field for condition in self.when}
        object.__setattr__(self, "of_pairs", "similarity" in fields)
        object.__setattr__(self, "needs_feedback", not fields.isdisjoint({"utility", "useful"}))


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What the rules make of one life."""

    rule: Rule
    """The one that moves it last; where nothing moves, the one that matched."""
    why: str
    tier: str | None = None
    """Where it goes; None: it stays."""
    importance: float = 0.0
    """What fading leaves of it there."""
    factor: float = 1.0
    floor: float = 0.0


def _when(*conditions: tuple[str, str, Value]) -> tuple[RuleCondition, ...]:
    return tuple(RuleCondition(*condition) for condition in conditions)


def _built_in(
    name: str, doc: str, action: RuleAction, *conditions: tuple[str, str, Value], enabled: bool = True
) -> Rule:
    return Rule(name, _when(*conditions), action, enabled, built_in=True, doc=doc)


def _hours(hours: int) -> timedelta:
    return timedelta(hours=hours)


BUILT_IN: tuple[Rule, ...] = (
    # Raw captures first, and attention before neglect: one that was asked for twice is kept however old it is.
    _built_in(
        "promote-sensory", "A raw capture that was asked for becomes a memory.", RuleAction("promote", "stm"),
        ("tier", "=", "sensory"), ("age", ">", _hours(1)), ("access", ">", 1),
    ),
    _built_in(
        "decay-sensory", "A raw capture that nobody asked for is laid aside.", RuleAction("delete"),
        ("tier", "=", "sensory"), ("age", ">", _hours(4)),
    ),
    # Before `wake`: what it laid aside still matches it there, which is no move and ends the search.
    # Before `promote-to-ltm`: being found often is no merit in what never helped.
    _built_in(
        "prune-low-utility", "What is found often and never of use is laid aside, where someone says what is.",
        RuleAction("demote", DORMANT), ("access", ">", 20), ("utility", "<", 0.05), enabled=False,
    ),
    _built_in(
        "wake", "What was asked for after a rule had laid it aside comes back.", RuleAction("promote", HOME),
        ("tier", "=", DORMANT), ("returned", "=", True),
    ),
    # Before `decay-unaccessed`: with other numbers both could match, and rising must win.
    _built_in(
        "promote-to-ltm", "What is asked for again and again stays.", RuleAction("promote", "ltm"),
        ("tier", "=", "stm"), ("age", ">", _hours(72)), ("access", ">", 50), enabled=False,
    ),
    _built_in(
        "demote-stale-ltm", "What nobody has asked for in a week is laid aside.", RuleAction("demote", DORMANT),
        ("tier", "=", "ltm"), ("idle", ">", _hours(168)),
    ),
    _built_in(
        "decay-unaccessed", "What is hardly asked for weighs a little less each day.",
        RuleAction("decay", factor=0.95, floor=FLOOR),
        ("tier", "=", "stm"), ("age", ">", _hours(48)), ("access", "<", 10), enabled=False,
    ),
    # Of pairs. The narrower one first: two that say the same are not merely linked.
    _built_in(
        "dedup-all", "Of memories that say the same, one stays and the others are laid aside.", RuleAction("dedup"),
        ("similarity", ">", SAME), enabled=False,
    ),
    _built_in(
        "renew", "Of two notes under one heading that say nearly the same, the later refines the earlier.",
        RuleAction("refine"), ("similarity", ">=", LIKE),
    ),
    _built_in(
        "merge-similar", "Memories that say nearly the same are linked.", RuleAction("link"),
        ("tier", "=", "stm"), ("similarity", ">", SIMILAR),
    ),
)  # fmt: skip
"""The rules that memd comes with, in the order in which they are looked at. Those that did not help in the replay of a
year (docs/lifecycle.md) are there to be switched on."""


def similar_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules of the pass that compares memories with each other, in order."""
    return tuple(rule for rule in rules if rule.enabled and rule.of_pairs)


def near_enough(rule: Rule, similarity: float) -> bool:
    """Whether two memories are as much alike as a rule of pairs asks."""
    asked = (condition for condition in rule.when if condition.field == "similarity")
    return all(COMPARE[condition.op](similarity, condition.value) for condition in asked)


def fits(rule: Rule, life: Life, now: datetime) -> bool:
    """Whether a memory is one that a rule of pairs speaks of, similarity aside."""
    return all(_holds(condition, life, (), now) for condition in rule.when if condition.field != "similarity")


def evaluate(life: Life, rules: Iterable[Rule], now: datetime, feedback: bool) -> RuleMatch | None:
    """What happens to a memory now; None: nothing, no rule speaks of it.

    `feedback` says whether anyone ever told what was useful in its workspace.
    """
    if life.exempt:
        return None
    usable = [rule for rule in rules if rule.enabled and not rule.of_pairs and (feedback or not rule.needs_feedback)]
    here, seen, moves, words = life, {life.tier}, [], []
    while rule := _first(usable, here, now):
        target = rule.action.target(here)
        if target is None or target == here.tier:
            break
        moves.append(rule)
        words.append(why(rule, here, now))
        if target in seen:
            names = ", ".join(move.name for move in moves)
            return RuleMatch(moves[0], f"stays: {names} would move it in a circle", importance=life.base)
        seen.add(target)
        here = replace(here, tier=target, home=here.tier, moved=now, moved_by=f"{RULE}{rule.name}")
    if rule is None and not moves:
        return None
    return _match(here, rule, moves, words, now)


def _match(here: Life, rule: Rule | None, moves: list[Rule], words: list[str], now: datetime) -> RuleMatch:
    """The outcome for a memory that has come to rest, with the rule that still speaks of it there."""
    fading = rule if rule is not None and rule.action.verb == "decay" else None
    left = _left(here, fading, now) if fading else here.base
    if rule is not None and (fading or not moves):
        words = [*words, why(rule, here, now) + (f": importance {here.base:g} → {left:.2g}" if fading else "")]
    mover = moves[-1] if moves else rule
    assert mover is not None
    return RuleMatch(
        mover, "; then ".join(words), here.tier if moves else None, left,
        fading.action.factor if fading else 1.0, fading.action.floor if fading else 0.0,
    )  # fmt: skip


def importance(life: Life, rules: Iterable[Rule], now: datetime, feedback: bool = False) -> float:
    """What fading leaves of a memory's importance; all that it declares where nothing makes it fade."""
    match = evaluate(life, rules, now, feedback)
    return match.importance if match else life.base


def _first(rules: Sequence[Rule], life: Life, now: datetime) -> Rule | None:
    for rule in rules:
        for condition in rule.when:
            if not _holds(condition, life, rules, now):
                break
        else:
            return rule
    return None


def _holds(condition: RuleCondition, life: Life, rules: Sequence[Rule], now: datetime) -> bool:
    look = OBSERVED.get(condition.field)
    if look is not None:
        return COMPARE[condition.op](look(life, now), condition.value)
    if condition.field == "importance":
        return COMPARE[condition.op](_fading_now(life, rules, now), condition.value)
    return (str(condition.value).casefold() in {tag.casefold() for tag in life.tags}) == (condition.op == "=")


def _fading_now(life: Life, rules: Sequence[Rule], now: datetime) -> float:
    """The importance that conditions ask for, reckoned anew: the one that is kept is as old as the last reflect."""
    for rule in rules:
        plain = rule.action.verb == "decay" and all(condition.field != "importance" for condition in rule.when)
        if plain and all(_holds(condition, life, (), now) for condition in rule.when):
            return _left(life, rule, now)
    return life.base


def _left(life: Life, rule: Rule, now: datetime) -> float:
    """What a decay rule leaves, counted from the moment when the last of its limits was passed."""
    past = [
        days_past(OBSERVED[condition.field](life, now), condition.value)
        for condition in rule.when
        if condition.field in ("age", "idle") and condition.op in (">", ">=") and isinstance(condition.value, timedelta)
    ]
    return faded(life.base, rule.action.factor, min(past, default=life.age(now) // DAY), rule.action.floor)


# --- in words -----------------------------------------------------------------------------------------------


def why(rule: Rule, life: Life, now: datetime) -> str:
    """Why a rule speaks of a memory, with its numbers."""
    asked = dict.fromkeys(_said(condition, life, now) for condition in rule.when if condition.field != "similarity")
    verb = f"{rule.action.verb}: " if rule.action.verb in ("archive", "delete") else ""
    return verb + ", ".join(asked)


def _said(condition: RuleCondition, life: Life, now: datetime) -> str:
    if condition.field == "tag":
        return f"{'' if condition.op == '=' else 'not '}tagged {condition.value}"
    if condition.field == "importance":
        return f"importance {condition.op} {condition.value:g}"
    value = OBSERVED[condition.field](life, now)
    match condition.field:
        case "age":
            return f"{_span(value)} old"
        case "idle":
            return f"unused for {_span(value)}"
        case "access":
            return f"{value} access{'' if value == 1 else 'es'}"
        case "days":
            return f"accessed on {value} day{'' if value == 1 else 's'}"
        case "useful":
            return f"useful {value} time{'' if value == 1 else 's'}"
        case "utility":
            return f"useful in {value:.1%} of accesses"
        case "returned":
            return "asked for since it was laid aside" if value else "not asked for since it was laid aside"
    return str(value)


def _span(span: timedelta) -> str:
    minutes = int(span.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 14 * 24 * 60 else f"{minutes // (24 * 60)} days"
