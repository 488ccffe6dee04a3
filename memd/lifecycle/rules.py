"""The rules by which memories age: the conditions and the action of each, and which of them wins.

Rules are tried in order and the first match wins. A move is followed to its end, as if the rules were applied again
right after it: a second run at the same moment changes nothing, whatever rules a user wrote.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from memd.lifecycle.lives import DAY, DORMANT, RULE, Life, awake_tier, days_past, faded
from memd.models import Tier
from memd.timespans import age

HOME = "home"
"""A name for `promote` instead of a tier: the tier that the memory had before it became dormant."""
FLOOR = 0.1
"""The importance below which nothing fades, unless a rule says otherwise."""
PAIR_VERBS = ("link", "dedup", "refine")
"""Actions on two similar memories."""
KEEP = ("oldest", "newest", "highest-importance")
"""Which of two memories that say the same can stay."""

Value = str | int | float | bool | timedelta

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


def _fact(name: str) -> Callable[[Life, datetime], Any]:
    return lambda life, now: getattr(life, name)


OBSERVED: dict[str, Callable[[Life, datetime], Any]] = {
    **{name: _fact(name) for name in ("tier", "kind", "role", "days", "useful", "told", "utility", "returned")},
    "access": _fact("asked_for"),
    "age": Life.age,
    "idle": Life.idle,
}
"""The fields of a condition on one memory, besides its tags and its importance."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """One comparison; all conditions of a rule must hold."""

    field: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class RuleAction:
    """The action of a rule. `archive` and `delete` make a memory dormant, and `delete` takes it out of all answers.

    No rule ever deletes text.
    """

    verb: str
    """promote, demote, decay, archive, delete; for pairs link, dedup, refine."""
    tier: Tier | Literal["home", ""] = ""
    factor: float = 1.0
    floor: float = 0.0
    keep: str = ""
    """Which of two memories that say the same stays: one of `KEEP`."""

    @property
    def deletes(self) -> bool:
        return self.verb == "delete"

    def moves(self, life: Life) -> bool:
        target = self.target(life)
        return target is not None and (target != life.tier or (self.deletes and not life.deleted))

    def target(self, life: Life) -> Tier | None:
        """The tier that it moves a memory to; None if it moves nothing."""
        if self.verb in ("archive", "delete"):
            return DORMANT
        return awake_tier(life.home) if self.tier == "home" else self.tier or None


@dataclass(frozen=True)
class Rule:
    """Conditions and an action."""

    name: str
    when: tuple[RuleCondition, ...]
    action: RuleAction
    enabled: bool = True
    built_in: bool = False
    doc: str = ""

    # Cached: a reflection applies a rule to a hundred thousand memories.
    @cached_property
    def of_pairs(self) -> bool:
        """Whether it compares memories with each other, which is a pass of its own."""
        return any(condition.field == "similarity" for condition in self.when)

    @cached_property
    def needs_feedback(self) -> bool:
        """Skip without feedback: everything would look useless, and what is found most would go first."""
        return any(condition.field in ("utility", "useful", "told") for condition in self.when)


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """The effect of the rules on one memory."""

    rule: Rule
    """The last rule that moves it; if nothing moves it, the rule that matched."""
    why: str
    tier: Tier | None = None
    """Where it goes; None: it stays."""
    importance: float = 0.0
    """Its importance there, after fading."""
    deletes: bool = False
    """It goes out of all answers, too."""


def pair_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules of the pass that compares memories with each other, in order."""
    return tuple(rule for rule in rules if rule.enabled and rule.of_pairs)


def applies_to_pair(rule: Rule, similarity: float, both: Iterable[Life], now: datetime) -> bool:
    """Whether two memories are as similar as a pair rule requires, and each meets its other conditions."""
    enough = all(COMPARE[one.op](similarity, one.value) for one in rule.when if one.field == "similarity")
    others = [condition for condition in rule.when if condition.field != "similarity"]
    return enough and all(_holds(condition, life, (), now) for life in both for condition in others)


def evaluate(life: Life, rules: Iterable[Rule], now: datetime, feedback: bool) -> RuleMatch | None:
    """The effect of the rules on a memory now; None if no rule matches.

    `feedback` says whether anyone ever marked a memory of its workspace as useful.
    """
    if life.exempt:
        return None
    usable = [rule for rule in rules if rule.enabled and not rule.of_pairs and (feedback or not rule.needs_feedback)]
    start, seen, moves, reasons = life, {(life.tier, life.deleted)}, list[Rule](), list[str]()
    while (rule := _first_match(usable, life, now)) and rule.action.moves(life):
        target = rule.action.target(life) or life.tier
        moves.append(rule)
        reasons.append(why(rule, life, now))
        if (target, rule.action.deletes) in seen:
            names = ", ".join(move.name for move in moves)
            return RuleMatch(moves[0], f"stays: {names} would move it in a circle", importance=start.base)
        seen.add((target, rule.action.deletes))
        life = replace(life, tier=target, home=life.tier, moved=now, moved_by=f"{RULE}{rule.name}",
                       deleted=rule.action.deletes)  # fmt: skip
    importance = life.base
    if rule and rule.action.verb == "decay":
        importance = _decayed(life, rule, now)
        reasons.append(f"{why(rule, life, now)}: importance {life.base:g} → {importance:.2g}")
    elif rule and not moves:
        reasons.append(why(rule, life, now))
    winner = moves[-1] if moves else rule
    if winner is None:
        return None
    tier = life.tier if moves else None
    return RuleMatch(winner, "; then ".join(reasons), tier, importance, bool(moves) and life.deleted)


def _first_match(rules: Sequence[Rule], life: Life, now: datetime) -> Rule | None:
    return next((rule for rule in rules if all(_holds(one, life, rules, now) for one in rule.when)), None)


def _holds(condition: RuleCondition, life: Life, rules: Sequence[Rule], now: datetime) -> bool:
    observe = OBSERVED.get(condition.field)
    if observe is not None:
        return COMPARE[condition.op](observe(life, now), condition.value)
    if condition.field == "importance":
        return COMPARE[condition.op](_importance_now(life, rules, now), condition.value)
    return (str(condition.value).casefold() in {tag.casefold() for tag in life.tags}) == (condition.op == "=")


def _importance_now(life: Life, rules: Sequence[Rule], now: datetime) -> float:
    """The importance that conditions see, computed anew: the stored one is as old as the last reflection."""
    for rule in rules:
        plain = rule.action.verb == "decay" and all(condition.field != "importance" for condition in rule.when)
        if plain and all(_holds(condition, life, (), now) for condition in rule.when):
            return _decayed(life, rule, now)
    return life.base


def _decayed(life: Life, rule: Rule, now: datetime) -> float:
    """The importance that a decay rule leaves, counted from when the last of its limits was passed."""
    limits = [one for one in rule.when if one.field in ("age", "idle") and one.op in (">", ">=")]
    days = [days_past(OBSERVED[one.field](life, now), one.value) for one in limits if isinstance(one.value, timedelta)]
    return faded(life.base, rule.action.factor, min(days, default=life.age(now) // DAY), rule.action.floor)


# --- in words -----------------------------------------------------------------------------------------------


def why(rule: Rule, life: Life, now: datetime) -> str:
    """Why a rule matches a memory, with the numbers."""
    reasons = dict.fromkeys(_reason(condition, life, now) for condition in rule.when if condition.field != "similarity")
    verb = f"{rule.action.verb}: " if rule.action.verb in ("archive", "delete") else ""
    return verb + ", ".join(reasons)


def _reason(condition: RuleCondition, life: Life, now: datetime) -> str:
    if condition.field == "tag":
        return f"{'' if condition.op == '=' else 'not '}tagged {condition.value}"
    if condition.field == "importance":
        return f"importance {condition.op} {condition.value:g}"
    return REASONS.get(condition.field, str)(OBSERVED[condition.field](life, now))


REASONS: dict[str, Callable[[Any], str]] = {
    "age": lambda span: f"{age(span.total_seconds())} old",
    "idle": lambda span: f"unused for {age(span.total_seconds())}",
    "access": lambda count: f"{count} access{'' if count == 1 else 'es'}",
    "days": lambda count: f"accessed on {count} day{'' if count == 1 else 's'}",
    "useful": lambda count: f"useful {count} time{'' if count == 1 else 's'}",
    "told": lambda count: f"shown {count} time{'' if count == 1 else 's'} when someone said what was useful",
    "utility": lambda share: f"useful in {share:.1%} of them",
    "returned": lambda returned: f"{'' if returned else 'not '}asked for since it became dormant",
}
