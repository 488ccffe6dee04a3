"""Rules as people write them: `tier=stm age>48h access<10 → decay 0.95 floor 0.1`, read and written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import NoReturn

from memd.errors import UsageError
from memd.lifecycle.rules import COMPARE, FLOOR, HOME, OF_PAIRS, Rule, RuleAction, RuleCondition, Value
from memd.lifecycle.satisfiable import contradiction
from memd.models import KINDS, PINNED, TIERS

OFF = "off"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
SYSTEM = "sys-"
"""What the names of built-in rules may begin with."""
ARROW = re.compile(r"→|->|=>(?!\d)")
GAP = re.compile(r"(?:[\s,]+|and(?=\s))*")
CONDITION = re.compile(r"([^\W\d]+)\s*([<>=!≥≤≠~:]+)\s*([^\s,]+)")
WORD = re.compile(r"[^\s,]+")
DURATION = re.compile(r"(\d{1,6})([mhdw])")
MINUTES = {"m": 1, "h": 60, "d": 1_440, "w": 10_080}
EXACT = {"=", "!="}
ORDER = {">", ">=", "<", "<="}
MEANT = {"=>": ">=", "=<": "<=", "==": "=", "≥": ">=", "≤": "<=", "≠": "!=", "<>": "!=", ":": "="}
"""Operators of other languages."""
RANK = ("dormant", "sensory", "stm", "ltm")
"""Tiers from the lowest to the highest."""
VERBS = {
    "promote": "promote TIER", "demote": "demote TIER", "decay": "decay FACTOR [floor NUMBER]", "archive": "archive",
    "delete": "delete", "link": "link", "dedup": "dedup", "refine": "refine",
}  # fmt: skip
EXAMPLE = "such as: tier=stm age>48h access<10 → decay 0.95 floor 0.1"


class RuleReader:
    """Reads one rule, and says what is wrong with it and where."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def refuse(self, message: str, at: int = -1) -> NoReturn:
        place = f", character {at + 1}" if at >= 0 else ""
        raise UsageError(f"rule `{self.name}`{place}: {message}", EXAMPLE)

    def unknown(self, word: str, what: str, known: Iterable[str], at: int) -> NoReturn:
        names = list(known)
        near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
        meant = f"; did you mean `{near[0]}`?" if near else "."
        self.refuse(f"`{word}` is no {what}{meant} There are: {', '.join(names)}", at)

    def conditions(self, end: int, begin: int) -> Iterator[RuleCondition]:
        """What stands before the arrow."""
        at = _after_gap(self.text, begin, end)
        while at < end:
            found = CONDITION.match(self.text, at, end)
            if found is None:
                word = WORD.match(self.text, at, end)
                self.refuse(f"`{word[0] if word else ''}` is no condition: a field, an operator, a value", at)
            yield self.condition(found)
            at = _after_gap(self.text, found.end(), end)

    def condition(self, found: re.Match[str]) -> RuleCondition:
        field, op, text = found.groups()
        if field not in FIELDS:
            self.unknown(field, "field", FIELDS, found.start())
        read, allowed = FIELDS[field]
        if op not in allowed:
            meant = f"; did you mean `{MEANT[op]}`?" if MEANT.get(op) in allowed else "."
            known = " ".join(name for name in COMPARE if name in allowed)
            self.refuse(f"`{field}` cannot be asked with `{op}`{meant} It takes: {known}", found.start(2))
        return RuleCondition(field, op, read(self, text, found.start(3)))

    def action(self, begin: int) -> RuleAction:
        """What stands behind the arrow."""
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
        if rest:
            self.refuse(f"`{verb}` takes nothing behind it", rest[0][1])
        return RuleAction(verb)

    def move(self, verb: str, rest: list[tuple[str, int]], at: int) -> RuleAction:
        if len(rest) != 1:
            self.refuse(f"`{verb}` needs one tier: {', '.join(TIERS)}", rest[1][1] if rest else at)
        (tier, where) = rest[0]
        if tier == PINNED:
            self.refuse("no rule pins a memory: that is a person's decision", where)
        if tier not in TIERS and (tier, verb) != (HOME, "promote"):
            self.unknown(tier, "tier", (*TIERS, HOME) if verb == "promote" else TIERS, where)
        if (verb, tier) in (("promote", RANK[0]), ("demote", RANK[-1])):
            self.refuse(f"nothing can be {verb}d to {tier}: the tiers rise from {', '.join(RANK)}", where)
        return RuleAction(verb, tier)

    def decay(self, rest: list[tuple[str, int]], at: int) -> RuleAction:
        if len(rest) not in (1, 3) or (len(rest) == 3 and rest[1][0] != "floor"):
            self.refuse(f"it is written `{VERBS['decay']}`", rest[1][1] if len(rest) > 1 else at)
        factor = _share(self, *rest[0])
        if not 0 < factor <= 1:
            self.refuse("a factor is over 0 and at most 1", rest[0][1])
        return RuleAction("decay", factor=factor, floor=_share(self, *rest[2]) if rest[1:] else FLOOR)


def _after_gap(text: str, at: int, end: int) -> int:
    gap = GAP.match(text, at, end)
    return gap.end() if gap else at


# --- values -------------------------------------------------------------------------------------------------


def _one_of(what: str, known: tuple[str, ...]) -> Callable[[RuleReader, str, int], Value]:
    def read(reader: RuleReader, text: str, at: int) -> Value:
        if text == PINNED:
            reader.refuse("pinned memories never age, whatever the rules say", at)
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
    "utility": (_share, EXACT | ORDER),
    "importance": (_share, EXACT | ORDER),
    "similarity": (_share, {">", ">="}),
    "returned": (_yes, {"="}),
}
"""What a rule can ask for: how the value is read, and which operators make sense."""


# --- reading and writing ------------------------------------------------------------------------------------


def named(name: str) -> str:
    """A rule's name, which may be given with `sys-` before it."""
    plain = name.removeprefix(SYSTEM)
    if not NAME.fullmatch(plain):
        raise UsageError(f"{name!r} cannot be the name of a rule", "small letters, digits and dashes, at most 64")
    return plain


def parse(name: str, text: str) -> Rule:
    """The rule that a text says; with `off` before it, one that is switched off."""
    reader = RuleReader(named(name), text)
    switch = re.match(r"\s*(?:off|on)\s+", text)
    arrow = ARROW.search(text)
    if arrow is None:
        reader.refuse("there is no arrow (→, -> or =>) between what is asked and what is done")
    when = tuple(reader.conditions(arrow.start(), switch.end() if switch else 0))
    rule = Rule(reader.name, when, reader.action(arrow.end()), not (switch and switch[0].strip() == OFF))
    if problem := _impossible(rule):
        reader.refuse(problem)
    return rule


def _impossible(rule: Rule) -> str:
    """Why a rule that can be read makes no sense; empty when it does."""
    verb, fields = rule.action.verb, {condition.field for condition in rule.when}
    if not fields:
        return "there is no condition, so it would speak of every memory"
    if rule.of_pairs and verb not in OF_PAIRS:
        return f"`similarity` is between two memories: {' or '.join(OF_PAIRS)} them, `{verb}` is for one"
    if verb in OF_PAIRS and not rule.of_pairs:
        return f"`{verb}` needs to know how similar: similarity>0.9"
    if verb == "decay" and "importance" in fields:
        return "`decay` makes the importance and cannot ask for it"
    if clash := contradiction(rule.when):
        return f"no memory can meet `{_asked(clash)}`"
    return _wrong_way(rule)


def _wrong_way(rule: Rule) -> str:
    """A promotion that leads down, or a demotion that leads up."""
    for condition in rule.when:
        target = rule.action.tier
        if (condition.field, condition.op) != ("tier", "=") or target not in RANK:
            continue
        rise = RANK.index(target) - RANK.index(str(condition.value))
        if rise < 0 and rule.action.verb == "promote":
            return f"from {condition.value} to {target} is no promotion: the tiers rise from {', '.join(RANK)}"
        if rise > 0 and rule.action.verb == "demote":
            return f"from {condition.value} to {target} is no demotion: the tiers rise from {', '.join(RANK)}"
    return ""


def written(rule: Rule) -> str:
    """A rule as `parse` reads it."""
    return body(rule) if rule.enabled else f"{OFF} {body(rule)}"


def body(rule: Rule) -> str:
    """The same, whether it is switched on or off."""
    when, action = _asked(rule.when), rule.action
    if action.verb == "decay":
        return f"{when} → decay {_number(action.factor)} floor {_number(action.floor)}"
    return f"{when} → {action.verb} {action.tier}".rstrip()


def _asked(when: Iterable[RuleCondition]) -> str:
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
