"""The rules in force: the user's own, then those that memd comes with as the user changed and switched them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memd.errors import NotFound, UsageError
from memd.lifecycle.rule_language import ARROW, OFF, SYSTEM, named, parse, written
from memd.lifecycle.rules import BUILT_IN, Rule

SWITCH = {"on": True, OFF: False}
ORIGINAL = {rule.name: rule for rule in BUILT_IN}


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules in the order in which they are looked at, and what could not be taken up."""

    rules: tuple[Rule, ...] = BUILT_IN
    problems: tuple[tuple[str, str], ...] = ()
    """The name as it was given, and what is wrong."""


def rule_book(texts: Iterable[tuple[str, str]]) -> RuleBook:
    """The rules that texts by name make; of a wrong one the built-in rule of that name holds, if there is one."""
    given: dict[str, Rule] = {}
    problems: list[tuple[str, str]] = []
    for name, text in texts:
        try:
            rule = _rule(name, text)
            if rule.name in given:
                raise UsageError(f"rule `{rule.name}`: it is given twice, as `{rule.name}` and `{SYSTEM}{rule.name}`")
            given[rule.name] = rule
        except (UsageError, NotFound) as error:
            problems.append((name, error.message))
    own = (rule for rule in given.values() if not rule.built_in)
    return RuleBook((*own, *(given.get(rule.name, rule) for rule in BUILT_IN)), tuple(problems))


def _rule(name: str, text: str) -> Rule:
    plain = named(name)
    if text.strip() in SWITCH:
        return replace(find(BUILT_IN, plain), enabled=SWITCH[text.strip()])
    known = ORIGINAL.get(plain)
    return replace(parse(plain, text), built_in=known is not None, doc=known.doc if known else "")


def find(rules: Sequence[Rule], name: str) -> Rule:
    """The rule of this name."""
    plain = named(name)
    for rule in rules:
        if rule.name == plain:
            return rule
    near = difflib.get_close_matches(plain, [rule.name for rule in rules], n=1, cutoff=0.5)
    raise NotFound(
        f"rule `{plain}`: there is none of this name" + (f"; did you mean `{near[0]}`?" if near else ""),
        "see what there is: memd rule list",
    )


def text_for(rules: Sequence[Rule], name: str, wanted: str) -> str:
    """What the config file must say so that a rule is as wanted: a text, or `on` or `off`, which keep its text."""
    if wanted.strip() not in SWITCH:
        parse(name, wanted)
        return " ".join(wanted.split())
    rule = replace(find(rules, name), enabled=SWITCH[wanted.strip()])
    return wanted.strip() if origin(rule) == "built-in" else written(rule)


def chosen(rules: Sequence[Rule], wanted: str) -> tuple[Rule, ...]:
    """All rules, or the one that is meant, alone and switched on: by its name, or by its text."""
    if not wanted.strip():
        return tuple(rules)
    rule = parse("test", wanted) if ARROW.search(wanted) else find(rules, wanted.strip())
    return (replace(rule, enabled=True),)


def origin(rule: Rule) -> str:
    """Whose rule it is: built-in, a built-in one that was changed, or the user's own."""
    if not rule.built_in:
        return "own"
    return "built-in" if replace(rule, enabled=ORIGINAL[rule.name].enabled) == ORIGINAL[rule.name] else "changed"
