"""The rules in force: the user's own, then the built-in ones as the user changed and switched them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memd.errors import NotFound, UsageError, did_you_mean
from memd.lifecycle.rule_language import ARROW, OFF, SYSTEM, named, parse, written
from memd.lifecycle.rules import Rule

BUILT_IN: tuple[Rule, ...] = tuple(
    replace(parse(name, rule), built_in=True, doc=doc) for name, rule, doc in (
        # Raw captures first, and attention before neglect: one that was asked for twice is kept however old it is.
        ("promote-sensory", "tier=sensory age>1h access>1 → promote stm",
         "A raw capture that was asked for becomes a memory."),
        ("decay-sensory", "tier=sensory age>4h → delete",
         "A raw capture that nobody asked for is laid aside."),
        # Before `wake`: what it laid aside still matches it there, which is no move and ends the search.
        # Before `promote-to-ltm`: being found often is no merit if it never helped.
        ("prune-low-utility", "off access>20 utility<0.05 → demote dormant",
         "What is found often and never useful is laid aside, where someone says what is useful."),
        ("wake", "tier=dormant returned=yes → promote home",
         "What was asked for after a rule had laid it aside comes back."),
        # Before `decay-unaccessed`: with other numbers both could match, and rising must win.
        ("promote-to-ltm", "off tier=stm age>72h access>50 → promote ltm",
         "What is asked for again and again stays."),
        ("demote-stale-ltm", "tier=ltm idle>168h → demote dormant",
         "What nobody has asked for in a week is laid aside."),
        ("decay-unaccessed", "off tier=stm age>48h access<10 → decay 0.95 floor 0.1",
         "What is hardly asked for weighs a little less each day."),
        # Pair rules, the narrower one first: two memories that say the same are not merely linked.
        ("dedup-all", "off similarity>0.92 → dedup",
         "Of memories that say the same, one stays and the others are laid aside."),
        ("renew", "similarity>=0.8 → refine",
         "Of two notes under one heading that say nearly the same, the later refines the earlier."),
        ("merge-similar", "tier=stm similarity>0.9 → link",
         "Memories that say nearly the same are linked."),
    )
)  # fmt: skip
"""The rules that memd comes with, in the order in which they are tried. Those that did not help in the replay of a year
(docs/lifecycle.md) are switched off."""

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
