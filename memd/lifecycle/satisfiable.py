"""Whether any memory could meet all conditions of a rule at once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from memd.lifecycle.rules import COMPARE, RuleCondition
from memd.models import KINDS, TIERS

KNOWN: dict[str, set[Any]] = {"tier": set(TIERS), "kind": set(KINDS)}
WORDS = ("tier", "kind", "role", "returned")
WHOLE = ("access", "days", "useful")
HIGHEST = {"utility": 1.0, "importance": 1.0, "similarity": 1.0}


def contradiction(when: Iterable[RuleCondition]) -> list[RuleCondition]:
    """The conditions on one field that exclude each other; empty when all can hold."""
    by_field: dict[str, list[RuleCondition]] = {}
    for condition in when:
        by_field.setdefault(condition.field, []).append(condition)
    return next((asked for field, asked in by_field.items() if not _possible(field, asked)), [])


def _possible(field: str, asked: list[RuleCondition]) -> bool:
    if field == "tag":
        return _some_tag(asked)
    return _some_word(field, asked) if field in WORDS else _some_number(field, asked)


def _some_tag(asked: list[RuleCondition]) -> bool:
    """A memory has many tags: only the same one, wanted and not wanted, is too much."""
    wanted = {str(one.value).casefold() for one in asked if one.op == "="}
    return not any(str(one.value).casefold() in wanted for one in asked if one.op == "!=")


def _some_word(field: str, asked: list[RuleCondition]) -> bool:
    wanted = {one.value for one in asked if one.op == "="}
    refused = {one.value for one in asked if one.op == "!="}
    left = wanted or KNOWN.get(field)
    return len(wanted) < 2 and (left is None or bool(left - refused))


def _some_number(field: str, asked: list[RuleCondition]) -> bool:
    """Whether a number meets all: the given ones are tried, the ends, and one in each gap between."""
    least: Any = timedelta() if isinstance(asked[0].value, timedelta) else 0
    highest = HIGHEST.get(field)
    given: list[Any] = sorted({least, *(one.value for one in asked), *([highest] if highest is not None else [])})
    tried = [*given, *_between(given, field in WHOLE, highest is None)]
    return any(number >= least and all(COMPARE[one.op](number, one.value) for one in asked) for number in tried)


def _between(given: list[Any], whole: bool, endless: bool) -> list[Any]:
    """A number in each gap, and beyond the last one where there is something."""
    if whole:
        # As many neighbours as there can be numbers that are excluded one by one.
        return [number + step for number in given for step in range(1, len(given) + 1)]
    middles = [low + (high - low) / 2 for low, high in pairwise(given)]
    return [*middles, given[-1] + timedelta(days=1)] if endless else middles
