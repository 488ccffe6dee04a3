"""Rules as people write them, such as `tier=stm age>48h → decay 0.95`: read, checked, written; and those in force."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from memd.errors import NotFound, UsageError, did_you_mean
from memd.lifecycle.rules import COMPARE, FLOOR, HOME, KEEP, PAIR_VERBS, Rule, RuleAction, RuleCondition, Value
from memd.models import KINDS, PINNED, TIERS, Tier, grouped

# --- rules as people write them -------------------------------------------------------------------------------


OFF = "off"
RULE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
SYSTEM = "sys-"
"""The optional prefix of the names of built-in rules."""
ARROW = re.compile(r"→|->|=>(?!\d)")
CONDITION = re.compile(
    r"[\s,]+|and(?=\s)|(?P<field>[^\W\d]+)\s*(?P<op>[<>=!≥≤≠~:]+)\s*(?P<value>[^\s,]+)|(?P<other>[^\s,]+)"
)
"""A gap, a condition, or what is neither."""
WORD = re.compile(r"[^\s,]+")
MINUTES = {"m": 1, "h": 60, "d": 1_440, "w": 10_080}
EXACT = {"=", "!="}
ORDER = {">", ">=", "<", "<="}
COUNTS = ("access", "days", "useful", "told")
"""Fields that are whole numbers."""
FOREIGN = {"=>": ">=", "=<": "<=", "==": "=", "≥": ">=", "≤": "<=", "≠": "!=", "<>": "!=", ":": "="}
"""Operators of other languages, and ours for each."""
RANK = ("dormant", "sensory", "stm", "ltm")
"""Tiers from the lowest to the highest."""
RISING = f"the tiers rise from {', '.join(RANK)}"
VERBS = {
    "promote": "promote TIER", "demote": "demote TIER", "decay": "decay FACTOR [floor NUMBER]", "archive": "archive",
    "delete": "delete", "link": "link", "dedup": "dedup [keep WHICH]", "refine": "refine",
}  # fmt: skip
EXAMPLE = "such as: tier=stm age>48h access<10 → decay 0.95 floor 0.1"


class RuleMistake(Exception):
    """A mistake in the text of a rule, and the character at which it stands."""

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(f", character {at + 1}: {message}" if at >= 0 else f": {message}")


def parse(name: str, text: str) -> Rule:
    """The rule that a text describes; a leading `off` switches it off. An error names the problem and its place."""
    plain = named(name)
    try:
        return _read(plain, text)
    except RuleMistake as mistake:
        raise UsageError(f"rule `{plain}`{mistake}", EXAMPLE) from None


def named(name: str) -> str:
    """A rule's name without the optional `sys-`, checked."""
    plain = name.removeprefix(SYSTEM)
    if not RULE_NAME.fullmatch(plain):
        raise UsageError(f"{name!r} cannot be the name of a rule", "use small letters, digits and dashes, at most 64")
    return plain


def _read(name: str, text: str) -> Rule:
    switch = re.match(r"\s*(off|on)\s+", text)
    arrow = ARROW.search(text)
    if arrow is None:
        raise RuleMistake("there is no arrow (→, -> or =>) between the conditions and the action")
    when = tuple(_conditions_in(text, switch.end() if switch else 0, arrow.start()))
    rule = Rule(name, when, _action(text, arrow.end()), not (switch and switch[1] == OFF))
    if problem := _impossible(rule):
        raise RuleMistake(problem)
    return rule


def _conditions_in(text: str, begin: int, end: int) -> Iterator[RuleCondition]:
    """The part before the arrow."""
    for found in CONDITION.finditer(text, begin, end):
        if found["other"]:
            raise RuleMistake(f"`{found['other']}` is no condition: a field, an operator, a value", found.start())
        if found["field"]:
            yield _condition(found)


def _condition(found: re.Match[str]) -> RuleCondition:
    field, op = _one_of(found["field"], "field", FIELDS, found.start()), found["op"]
    read, allowed = FIELDS[field]
    if op not in allowed:
        meant = f"; did you mean `{FOREIGN[op]}`?" if FOREIGN.get(op) in allowed else "."
        known = " ".join(name for name in COMPARE if name in allowed)
        raise RuleMistake(f"`{field}` cannot be compared with `{op}`{meant} It takes: {known}", found.start("op"))
    return RuleCondition(field, op, read(found["value"], found.start("value")))


def _action(text: str, begin: int) -> RuleAction:
    """The part after the arrow."""
    words = [(word[0], word.start()) for word in WORD.finditer(text, begin)]
    if not words:
        raise RuleMistake(f"nothing follows the arrow; it may be: {', '.join(VERBS.values())}", begin)
    (verb, at), *rest = words
    usage = f"write it as `{VERBS[_one_of(verb, 'action', VERBS, at)]}`"
    match verb, rest:
        case "promote" | "demote", [(tier, where)]:
            return RuleAction(verb, _target(verb, tier, where))
        case "promote" | "demote", _:
            raise RuleMistake(f"`{verb}` needs one tier: {', '.join(TIERS)}", rest[1][1] if rest else at)
        case "decay", [factor]:
            return RuleAction(verb, factor=_factor(*factor), floor=FLOOR)
        case "decay", [factor, ("floor", _), floor]:
            return RuleAction(verb, factor=_factor(*factor), floor=_share(*floor))
        case "decay", _:
            raise RuleMistake(usage, rest[1][1] if rest else at)
        case "dedup", [("keep", _), (which, where)]:
            return RuleAction(verb, keep=_one_of(which, "memory to keep", KEEP, where))
        case _, [(_, where), *_]:
            raise RuleMistake(usage if verb == "dedup" else f"nothing can follow `{verb}`", where)
    return RuleAction(verb)


def _target(verb: str, tier: str, at: int) -> Tier:
    """The tier that a memory is promoted or demoted to."""
    if tier == PINNED:
        raise RuleMistake("a rule cannot pin a memory: only a person can", at)
    _one_of(tier, "tier", (*TIERS, HOME) if verb == "promote" else TIERS, at)
    if (verb, tier) in (("promote", RANK[0]), ("demote", RANK[-1])):
        raise RuleMistake(f"nothing can be {verb}d to {tier}: {RISING}", at)
    return cast(Tier, tier)


def _factor(text: str, at: int) -> float:
    if not (factor := _share(text, at)):
        raise RuleMistake("the factor must be over 0 and at most 1", at)
    return factor


# --- values -------------------------------------------------------------------------------------------------

ReadValue = Callable[[str, int], Value]
"""Reads a value that stands at some character."""


def _one_of(word: str, what: str, known: Iterable[str], at: int) -> str:
    names = list(known)
    if word not in names:
        meant = did_you_mean(word.lower(), names) or "."
        raise RuleMistake(f"`{word}` is no {what}{meant} There are: {', '.join(names)}", at)
    return word


def _choice(what: str, known: tuple[str, ...]) -> ReadValue:
    def read(text: str, at: int) -> Value:
        if text == PINNED:
            raise RuleMistake("rules do not apply to pinned memories: they never age", at)
        return _one_of(text, what, known, at)

    return read


def _spelled(pattern: str, value: Callable[[re.Match[str]], Value], what: str) -> ReadValue:
    def read(text: str, at: int) -> Value:
        if (found := re.fullmatch(pattern, text)) is None:
            raise RuleMistake(f"`{text}` is no {what}", at)
        return value(found)

    return read


def _share(text: str, at: int) -> float:
    try:
        number = float(text)
    except ValueError:
        raise RuleMistake(f"`{text}` is no number", at) from None
    if not 0 <= number <= 1:
        raise RuleMistake(f"`{text}` is not from 0 to 1", at)
    return abs(number)


_name = _spelled(r"#*([^#<>=!][^<>=!]*)", lambda found: found[1], "name")
_count = _spelled(r"[0-9]{1,9}", lambda found: int(found[0]), "whole number")
_duration = _spelled(
    r"(\d{1,6})([mhdw])",
    lambda found: timedelta(minutes=int(found[1]) * MINUTES[found[2]]),
    "time: a whole number and m, h, d or w, such as 90m, 48h, 3d, 2w",
)

FIELDS: dict[str, tuple[ReadValue, set[str]]] = {
    "tier": (_choice("tier", TIERS), EXACT),
    "kind": (_choice("kind", KINDS), EXACT),
    **dict.fromkeys(("role", "tag"), (_name, EXACT)),
    **dict.fromkeys(("age", "idle"), (_duration, ORDER)),
    **dict.fromkeys(COUNTS, (_count, EXACT | ORDER)),
    **dict.fromkeys(("utility", "importance"), (_share, EXACT | ORDER)),
    "similarity": (_share, {">", ">="}),
    "returned": (lambda text, at: _one_of(text, "answer", ("yes", "no"), at) == "yes", {"="}),
}
"""The fields of a condition: how to parse the value, and which operators make sense."""


# --- what makes no sense, and writing ----------------------------------------------------------------------


def _impossible(rule: Rule) -> str:
    """Why a rule that can be parsed makes no sense; empty if it does."""
    verb, fields = rule.action.verb, {condition.field for condition in rule.when}
    if not fields:
        return "there is no condition, so it would apply to every memory"
    if rule.of_pairs and verb not in PAIR_VERBS:
        return f"`similarity` is between two memories: {' or '.join(PAIR_VERBS)} them, `{verb}` is for one"
    if verb in PAIR_VERBS and not rule.of_pairs:
        return f"`{verb}` needs a condition on similarity, such as similarity>0.9"
    if verb == "decay" and "importance" in fields:
        return "`decay` changes the importance and cannot depend on it"
    if clash := contradiction(rule.when):
        return f"no memory can meet `{_conditions(clash)}`"
    return _wrong_way(rule)


def _wrong_way(rule: Rule) -> str:
    """Refuses a promotion that leads down, and a demotion that leads up."""
    verb, target = rule.action.verb, rule.action.tier
    sources = [str(one.value) for one in rule.when if (one.field, one.op) == ("tier", "=")]
    for source in sources if target in RANK else ():
        rise = RANK.index(target) - RANK.index(source)
        if (verb == "promote" and rise < 0) or (verb == "demote" and rise > 0):
            return f"from {source} to {target} is no {verb.removesuffix('e')}ion: {RISING}"
    return ""


def written(rule: Rule) -> str:
    """A rule as text, which `parse` reads as the same rule."""
    return body(rule) if rule.enabled else f"{OFF} {body(rule)}"


def body(rule: Rule) -> str:
    """The same without `off`."""
    when, action = _conditions(rule.when), rule.action
    if action.verb == "decay":
        return f"{when} → decay {_number(action.factor)} floor {_number(action.floor)}"
    more = f"keep {action.keep}" if action.keep else action.tier
    return f"{when} → {action.verb} {more}".rstrip()


def _conditions(when: Iterable[RuleCondition]) -> str:
    return " ".join(f"{one.field}{one.op}{_value(one.value)}" for one in when)


def _value(value: Value) -> str:
    if isinstance(value, timedelta):
        minutes = int(value.total_seconds()) // 60
        # Up to a week in hours, as people say 48h and 72h.
        unit = "m" if minutes % 60 else "d" if minutes > MINUTES["w"] and minutes % MINUTES["d"] == 0 else "h"
        return f"{minutes // MINUTES[unit]}{unit}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if isinstance(value, float) else str(value)


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


# --- conditions that exclude each other -----------------------------------------------------------------------

CHOICES: dict[str, tuple[Value, ...]] = {"tier": TIERS, "kind": KINDS, "returned": (True, False)}
HIGHEST = {"utility": 1.0, "importance": 1.0, "similarity": 1.0}


def contradiction(when: Iterable[RuleCondition]) -> list[RuleCondition]:
    """The conditions on one field that exclude each other; empty if all can hold at once."""
    by_field = grouped((condition.field, condition) for condition in when)
    return next((some for field, some in by_field.items() if not _satisfiable(field, some)), [])


def _satisfiable(field: str, conditions: list[RuleCondition]) -> bool:
    if field == "tag":
        # A memory may have many tags, and their case does not count.
        tags = {op: {str(one.value).casefold() for one in conditions if one.op == op} for op in EXACT}
        return tags["="].isdisjoint(tags["!="])
    candidates = _candidates(field, [one.value for one in conditions])
    return any(all(COMPARE[one.op](value, one.value) for one in conditions) for value in candidates)


def _candidates(field: str, values: list[Any]) -> Iterable[Value]:
    """Values among which is one that meets all conditions, if any does: of numbers those that are compared with, the
    ends, and one in each gap between them."""
    if field == "role":
        return (*values, "any other")
    if field in CHOICES:
        return CHOICES[field]
    least: Any = timedelta() if isinstance(values[0], timedelta) else 0
    highest = HIGHEST.get(field)
    numbers = sorted({least, *values, *([] if highest is None else [highest])})
    if field in COUNTS:
        # As many whole neighbours as conditions could exclude one by one.
        between = [number + step for number in numbers for step in range(1, len(numbers) + 1)]
    else:
        between = [low + (high - low) / 2 for low, high in pairwise(numbers)]
        between += [numbers[-1] + timedelta(days=1)] if highest is None else []
    return [number for number in (*numbers, *between) if number >= least]


# --- the rules in force ---------------------------------------------------------------------------------------


_DECLARED = tomllib.loads(Path(__file__).with_name("built_in_rules.toml").read_text(encoding="utf-8"))
BUILT_IN = tuple(replace(parse(name, row["rule"]), built_in=True, doc=row["doc"]) for name, row in _DECLARED.items())
"""The rules that memd comes with, in the order in which they are tried."""

SWITCH = {"on": True, OFF: False}
ORIGINAL = {rule.name: rule for rule in BUILT_IN}


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules in the order in which they are tried, and the problems of those that are wrong."""

    rules: tuple[Rule, ...] = BUILT_IN
    problems: tuple[tuple[str, str], ...] = ()
    """The name as written, and what is wrong."""


def rule_book(texts: Iterable[tuple[str, str]]) -> RuleBook:
    """The rules that texts by name describe; instead of a wrong one, the built-in rule of that name holds."""
    rules: dict[str, Rule] = {}
    problems: list[tuple[str, str]] = []
    for name, text in texts:
        try:
            rule = _rule(name, text)
            if rule.name in rules:
                raise UsageError(f"rule `{rule.name}`: it is given twice, as `{rule.name}` and `{SYSTEM}{rule.name}`")
            rules[rule.name] = rule
        except (UsageError, NotFound) as error:
            problems.append((name, error.message))
    own = (rule for rule in rules.values() if not rule.built_in)
    return RuleBook((*own, *(rules.get(rule.name, rule) for rule in BUILT_IN)), tuple(problems))


def _rule(name: str, text: str) -> Rule:
    plain = named(name)
    if text.strip() in SWITCH:
        return replace(find(BUILT_IN, plain), enabled=SWITCH[text.strip()])
    original = ORIGINAL.get(plain)
    return replace(parse(plain, text), built_in=original is not None, doc=original.doc if original else "")


def find(rules: Sequence[Rule], name: str) -> Rule:
    """The rule of this name."""
    by_name = {rule.name: rule for rule in rules}
    plain = named(name)
    if plain not in by_name:
        meant = did_you_mean(plain, by_name)
        raise NotFound(f"rule `{plain}`: there is none of this name{meant}", "list all rules: memd rule list")
    return by_name[plain]


def text_for(rules: Sequence[Rule], name: str, wanted: str) -> str:
    """The text of the config file that makes the wanted rule: a rule, or `on` or `off`, which keep its text."""
    if wanted.strip() not in SWITCH:
        parse(name, wanted)
        return " ".join(wanted.split())
    rule = replace(find(rules, name), enabled=SWITCH[wanted.strip()])
    return wanted.strip() if origin(rule) == "built-in" else written(rule)


def choose(rules: Sequence[Rule], wanted: str) -> tuple[Rule, ...]:
    """All rules; or, given a name or a text, that rule alone and switched on."""
    if not wanted.strip():
        return tuple(rules)
    rule = parse("test", wanted) if ARROW.search(wanted) else find(rules, wanted.strip())
    return (replace(rule, enabled=True),)


def origin(rule: Rule) -> str:
    """The owner of a rule: built-in, a built-in one that was changed, or the user's own."""
    if not rule.built_in:
        return "own"
    return "built-in" if replace(rule, enabled=ORIGINAL[rule.name].enabled) == ORIGINAL[rule.name] else "changed"
