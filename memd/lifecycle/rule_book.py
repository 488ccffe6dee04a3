"""Rules as people write them, such as `tier=stm age>48h → decay 0.95`: read, checked, written; and those in force."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, NoReturn, cast

from memd.errors import NotFound, UsageError, did_you_mean
from memd.lifecycle.rules import COMPARE, FLOOR, HOME, KEEP, PAIR_VERBS, Rule, RuleAction, RuleCondition, Value
from memd.models import KINDS, PINNED, TIERS, Tier

# --- rules as people write them -------------------------------------------------------------------------------


OFF = "off"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
SYSTEM = "sys-"
"""The optional prefix of the names of built-in rules."""
ARROW = re.compile(r"→|->|=>(?!\d)")
GAP = re.compile(r"(?:[\s,]+|and(?=\s))*")
CONDITION = re.compile(r"([^\W\d]+)\s*([<>=!≥≤≠~:]+)\s*([^\s,]+)")
WORD = re.compile(r"[^\s,]+")
DURATION = re.compile(r"(\d{1,6})([mhdw])")
MINUTES = {"m": 1, "h": 60, "d": 1_440, "w": 10_080}
EXACT = {"=", "!="}
ORDER = {">", ">=", "<", "<="}
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


class RuleReader:
    """Parses one rule; an error names the problem and its place."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def refuse(self, message: str, at: int = -1) -> NoReturn:
        place = f", character {at + 1}" if at >= 0 else ""
        raise UsageError(f"rule `{self.name}`{place}: {message}", EXAMPLE)

    def unknown(self, word: str, what: str, known: Iterable[str], at: int) -> NoReturn:
        names = list(known)
        meant = did_you_mean(word.lower(), names) or "."
        self.refuse(f"`{word}` is no {what}{meant} There are: {', '.join(names)}", at)

    def conditions(self, end: int, begin: int) -> Iterator[RuleCondition]:
        """The part before the arrow."""
        at = _after_gap(self.text, begin, end)
        while at < end:
            match = CONDITION.match(self.text, at, end)
            if match is None:
                word = WORD.match(self.text, at, end)
                self.refuse(f"`{word[0] if word else ''}` is no condition: a field, an operator, a value", at)
            yield self.condition(match)
            at = _after_gap(self.text, match.end(), end)

    def condition(self, match: re.Match[str]) -> RuleCondition:
        field, op, text = match.groups()
        if field not in FIELDS:
            self.unknown(field, "field", FIELDS, match.start())
        read, allowed = FIELDS[field]
        if op not in allowed:
            meant = f"; did you mean `{FOREIGN[op]}`?" if FOREIGN.get(op) in allowed else "."
            known = " ".join(name for name in COMPARE if name in allowed)
            self.refuse(f"`{field}` cannot be compared with `{op}`{meant} It takes: {known}", match.start(2))
        return RuleCondition(field, op, read(self, text, match.start(3)))

    def action(self, begin: int) -> RuleAction:
        """The part after the arrow."""
        words = [(word[0], word.start()) for word in WORD.finditer(self.text, begin)]
        if not words:
            self.refuse(f"nothing follows the arrow; it may be: {', '.join(VERBS.values())}", begin)
        (verb, at), rest = words[0], words[1:]
        if verb not in VERBS:
            self.unknown(verb, "action", VERBS, at)
        if verb in ("promote", "demote"):
            return self.move(verb, rest, at)
        if verb == "decay":
            return self.decay(rest, at)
        if verb == "dedup" and rest:
            return self.dedup(rest, at)
        if rest:
            self.refuse(f"nothing can follow `{verb}`", rest[0][1])
        return RuleAction(verb)

    def move(self, verb: str, rest: list[tuple[str, int]], at: int) -> RuleAction:
        if len(rest) != 1:
            self.refuse(f"`{verb}` needs one tier: {', '.join(TIERS)}", rest[1][1] if rest else at)
        (tier, where) = rest[0]
        if tier == PINNED:
            self.refuse("a rule cannot pin a memory: only a person can", where)
        if tier not in TIERS and (tier, verb) != (HOME, "promote"):
            self.unknown(tier, "tier", (*TIERS, HOME) if verb == "promote" else TIERS, where)
        if (verb, tier) in (("promote", RANK[0]), ("demote", RANK[-1])):
            self.refuse(f"nothing can be {verb}d to {tier}: {RISING}", where)
        return RuleAction(verb, cast(Tier, tier))

    def decay(self, rest: list[tuple[str, int]], at: int) -> RuleAction:
        if len(rest) not in (1, 3) or (len(rest) == 3 and rest[1][0] != "floor"):
            self.refuse(f"write it as `{VERBS['decay']}`", rest[1][1] if len(rest) > 1 else at)
        factor = _share(self, *rest[0])
        if not 0 < factor <= 1:
            self.refuse("the factor must be over 0 and at most 1", rest[0][1])
        return RuleAction("decay", factor=factor, floor=_share(self, *rest[2]) if rest[1:] else FLOOR)

    def dedup(self, rest: list[tuple[str, int]], at: int) -> RuleAction:
        if len(rest) != 2 or rest[0][0] != "keep":
            self.refuse(f"write it as `{VERBS['dedup']}`", rest[0][1])
        if rest[1][0] not in KEEP:
            self.unknown(rest[1][0], "memory to keep", KEEP, rest[1][1])
        return RuleAction("dedup", keep=rest[1][0])


def _after_gap(text: str, at: int, end: int) -> int:
    gap = GAP.match(text, at, end)
    return gap.end() if gap else at


# --- values -------------------------------------------------------------------------------------------------


def _one_of(what: str, known: tuple[str, ...]) -> Callable[[RuleReader, str, int], Value]:
    def read(reader: RuleReader, text: str, at: int) -> Value:
        if text == PINNED:
            reader.refuse("rules do not apply to pinned memories: they never age", at)
        if text not in known:
            reader.unknown(text, what, known, at)
        return text

    return read


def _name(reader: RuleReader, text: str, at: int) -> Value:
    name = text.lstrip("#")
    if not name or re.search(r"[<>=!]", name):
        reader.refuse(f"`{text}` is no name", at)
    return name


def _duration(reader: RuleReader, text: str, at: int) -> Value:
    found = DURATION.fullmatch(text)
    if found is None:
        reader.refuse(f"`{text}` is no time: a whole number and m, h, d or w, such as 90m, 48h, 3d, 2w", at)
    return timedelta(minutes=int(found[1]) * MINUTES[found[2]])


def _count(reader: RuleReader, text: str, at: int) -> Value:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        reader.refuse(f"`{text}` is no whole number", at)
    return int(text)


def _share(reader: RuleReader, text: str, at: int) -> float:
    try:
        number = float(text)
    except ValueError:
        reader.refuse(f"`{text}` is no number", at)
    if not 0 <= number <= 1:
        reader.refuse(f"`{text}` is not from 0 to 1", at)
    return abs(number)


def _yes(reader: RuleReader, text: str, at: int) -> Value:
    if text not in ("yes", "no"):
        reader.unknown(text, "answer", ("yes", "no"), at)
    return text == "yes"


FIELDS: dict[str, tuple[Callable[[RuleReader, str, int], Value], set[str]]] = {
    "tier": (_one_of("tier", TIERS), EXACT),
    "kind": (_one_of("kind", KINDS), EXACT),
    "role": (_name, EXACT),
    "tag": (_name, EXACT),
    "age": (_duration, ORDER),
    "idle": (_duration, ORDER),
    "access": (_count, EXACT | ORDER),
    "days": (_count, EXACT | ORDER),
    "useful": (_count, EXACT | ORDER),
    "told": (_count, EXACT | ORDER),
    "utility": (_share, EXACT | ORDER),
    "importance": (_share, EXACT | ORDER),
    "similarity": (_share, {">", ">="}),
    "returned": (_yes, {"="}),
}
"""The fields of a condition: how to parse the value, and which operators make sense."""


# --- reading and writing ------------------------------------------------------------------------------------


def named(name: str) -> str:
    """A rule's name without the optional `sys-`, checked."""
    plain = name.removeprefix(SYSTEM)
    if not NAME.fullmatch(plain):
        raise UsageError(f"{name!r} cannot be the name of a rule", "use small letters, digits and dashes, at most 64")
    return plain


def parse(name: str, text: str) -> Rule:
    """The rule that a text describes; a leading `off` switches it off."""
    reader = RuleReader(named(name), text)
    switch = re.match(r"\s*(?:off|on)\s+", text)
    arrow = ARROW.search(text)
    if arrow is None:
        reader.refuse("there is no arrow (→, -> or =>) between the conditions and the action")
    when = tuple(reader.conditions(arrow.start(), switch.end() if switch else 0))
    rule = Rule(reader.name, when, reader.action(arrow.end()), not (switch and switch[0].strip() == OFF))
    if problem := _impossible(rule):
        reader.refuse(problem)
    return rule


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

CHOICES: dict[str, set[Any]] = {"tier": set(TIERS), "kind": set(KINDS), "returned": {True, False}}
HIGHEST = {"utility": 1.0, "importance": 1.0, "similarity": 1.0}


def contradiction(when: Iterable[RuleCondition]) -> list[RuleCondition]:
    """The conditions on one field that exclude each other; empty if all can hold at once."""
    by_field: dict[str, list[RuleCondition]] = {}
    for condition in when:
        by_field.setdefault(condition.field, []).append(condition)
    return next((some for field, some in by_field.items() if not _satisfiable(field, some)), [])


def _satisfiable(field: str, conditions: list[RuleCondition]) -> bool:
    if field not in ("tag", "role", *CHOICES):
        return _some_number(field, conditions)
    required = {_folded(one) for one in conditions if one.op == "="}
    excluded = {_folded(one) for one in conditions if one.op == "!="}
    if field == "tag":
        # A memory may have many tags.
        return required.isdisjoint(excluded)
    choices = required or CHOICES.get(field)
    return len(required) < 2 and (choices is None or bool(choices - excluded))


def _folded(condition: RuleCondition) -> Value:
    """A value as it is compared: tags are, whatever their case."""
    return str(condition.value).casefold() if condition.field == "tag" else condition.value


def _some_number(field: str, conditions: list[RuleCondition]) -> bool:
    """Whether a number meets all: tries the numbers themselves, the ends, and one in each gap between them."""
    least: Any = timedelta() if isinstance(conditions[0].value, timedelta) else 0
    highest = HIGHEST.get(field)
    numbers: list[Any] = sorted({least, *(one.value for one in conditions), *([] if highest is None else [highest])})
    if field in ("access", "days", "useful", "told"):
        # As many whole neighbours as conditions could exclude one by one.
        between = [number + step for number in numbers for step in range(1, len(numbers) + 1)]
    else:
        between = [low + (high - low) / 2 for low, high in pairwise(numbers)]
        between += [numbers[-1] + timedelta(days=1)] if highest is None else []
    return any(
        number >= least and all(COMPARE[one.op](number, one.value) for one in conditions)
        for number in (*numbers, *between)
    )


# --- the rules in force ---------------------------------------------------------------------------------------


BUILT_IN: tuple[Rule, ...] = tuple(
    replace(parse(name, rule), built_in=True, doc=doc) for name, rule, doc in (
        # Raw captures first, and attention before neglect: one that was asked for twice is kept however old it is.
        ("promote-sensory", "tier=sensory age>1h access>1 → promote stm",
         "A raw capture that was asked for becomes a memory."),
        ("decay-sensory", "tier=sensory age>4h → delete",
         "A raw capture that nobody asked for is laid aside."),
        # Before `wake`: what it laid aside still matches it there, which is no move and ends the search.
        # Before `promote-to-ltm`: being found often is no merit if it never helped.
        ("prune-low-utility", "told>20 utility<0.05 → demote dormant",
         "What is found often and never useful is laid aside, where someone says what is useful."),
        ("wake", "tier=dormant returned=yes → promote home",
         "What was asked for after a rule had laid it aside comes back."),
        # Before `decay-unaccessed`: with other numbers both could match, and rising must win.
        ("promote-to-ltm", "tier=stm age>72h access>50 → promote ltm",
         "What is asked for again and again stays."),
        ("demote-stale-ltm", "tier=ltm idle>168h → demote dormant",
         "What nobody has asked for in a week is laid aside."),
        ("decay-unaccessed", "tier=stm age>48h access<10 → decay 0.95 floor 0.1",
         "What is hardly asked for weighs a little less each day."),
        # Pair rules, the narrower one first: two memories that say the same are not merely linked.
        ("dedup-all", "similarity>0.92 → dedup",
         "Of memories that say the same, one stays and the others are laid aside."),
        ("renew", "similarity>=0.8 → refine",
         "Of two notes under one heading that say nearly the same, the later refines the earlier."),
        ("merge-similar", "tier=stm similarity>0.9 → link",
         "Memories that say nearly the same are linked."),
    )
)  # fmt: skip
"""The rules that memd comes with, in the order in which they are tried, each as it did no harm in the replay of a year
(docs/lifecycle.md)."""

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
    """What the config file must say to get the wanted rule: a text, or `on` or `off`, which keep its text."""
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
    """Whose rule it is: built-in, a built-in one that was changed, or the user's own."""
    if not rule.built_in:
        return "own"
    return "built-in" if replace(rule, enabled=ORIGINAL[rule.name].enabled) == ORIGINAL[rule.name] else "changed"
