"""What machines tell each other of the lives of memories: a file of lines for each, which merge in any order. Pure.

A line is what one machine observed of one memory or edge itself, nothing that it learned from others. Of two lines
about the same, the one with the higher number `v` counts, wherever it stands and however often; one without facts takes
the earlier ones back. What all machines know together is the sum of their counts, the latest of their moments, and of
their moves the last: however the files came, everyone comes to the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memd.models import RELATIONS, TIERS

Subject = tuple[str, ...]
"""A memory as `path#slug`; an edge as two of them with the relation between."""
Facts = Mapping[str, Any]
COUNTS = ("accesses", "days", "useful", "uses")
MOVE = ("moved", "tier", "by", "why", "home", "deleted")
"""A move between tiers, its moment first: comparing two moves tells which is the last, on every machine the same."""
MOST = 10**9
WASTE = 100
"""Lines that no longer count, which a file may have more of than of the others before it is written anew."""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_moment(value: Any) -> bool:
    """Only as the ledger writes it: sorting the texts sorts the moments."""
    try:
        moment = datetime.fromisoformat(value)
        return moment.tzinfo is not None and moment.astimezone(UTC).isoformat(timespec="milliseconds") == value
    except (TypeError, ValueError):
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(COUNTS, _is_count),
    **dict.fromkeys(("accessed", "used", "moved", "made"), _is_moment),
    **dict.fromkeys(("by", "why"), _is_text),
    "tier": TIERS.__contains__,
    "home": ("", *TIERS).__contains__,
    "deleted": lambda value: value == "" or _is_moment(value),
    "weight": lambda value: isinstance(value, int | float) and 0 <= value <= 1,
}
"""Every fact, and what it may be."""
OF_MEMORY = frozenset({"accesses", "days", "useful", "accessed", *MOVE})
OF_EDGE = frozenset({"uses", "used", "made", "weight"})
"""`made` and `weight`: a rule made it."""


@dataclass(slots=True)
class HostState:
    """What one machine's file says, and which of its lines are no such thing."""

    facts: dict[Subject, Facts] = field(default_factory=dict)
    numbers: dict[Subject, int] = field(default_factory=dict)
    lines: int = 0
    garbage: list[tuple[int, str]] = field(default_factory=list)
    """The number of a line, and what is wrong with it."""

    def known(self) -> dict[Subject, Facts]:
        """What it knows, without what it took back."""
        return {subject: facts for subject, facts in self.facts.items() if facts}

    def _add(self, subject: Subject, number: int, facts: Facts) -> None:
        # Equal numbers are a file that two wrote: which of them counts does not matter, if only everyone agrees.
        if (number, _written(facts)) >= (self.numbers.get(subject, -1), _written(self.facts.get(subject, {}))):
            self.facts[subject], self.numbers[subject] = facts, number


def read(text: str) -> HostState:
    """Read a machine's file; lines that are not understood are left out and told."""
    state = HostState()
    for nth, line in enumerate(text.splitlines(), 1):
        if line.strip():
            state.lines += 1
            try:
                state._add(*_parsed(line))
            except ValueError as error:
                state.garbage.append((nth, str(error)))
    return state


def _parsed(line: str) -> tuple[Subject, int, Facts]:
    try:
        value = json.loads(line)
    except ValueError:
        raise ValueError("it is no whole line of JSON") from None
    if not isinstance(value, dict) or not _is_count(number := value.pop("v", None)):
        raise ValueError("it is no line of memd's")
    named = value.pop("memory", None) or value.pop("edge", None)
    subject = (named,) if isinstance(named, str) else tuple(named) if isinstance(named, list) else ()
    if len(subject) not in (1, 3) or not all(isinstance(part, str) and part for part in subject):
        raise ValueError("it names neither a memory nor an edge")
    if len(subject) == 3 and subject[1] not in RELATIONS:
        raise ValueError("there is no such relation")
    allowed = OF_MEMORY if len(subject) == 1 else OF_EDGE
    for name, fact in value.items():
        if name not in allowed or not CHECKS[name](fact):
            raise ValueError(f"`{name}` is nothing that this memd knows")
    if any(name in value for name in MOVE) and not all(name in value for name in MOVE):
        raise ValueError("half of a move")
    if ("made" in value) != ("weight" in value):
        raise ValueError("half of an edge")
    return subject, number, value


def _written(facts: Facts) -> str:
    return json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _line(number: int, subject: Subject, facts: Facts) -> str:
    named = {"memory": subject[0]} if len(subject) == 1 else {"edge": list(subject)}
    return _written({"v": number, **named, **facts}) + "\n"


def updated(text: str, facts: Mapping[Subject, Facts]) -> tuple[str, int]:
    """A machine's file once it says these facts and no others, and how many lines that took; lines are only added.

    Where most lines no longer count, or some are garbage, it is written anew, as short as it can be.
    """
    state = read(text)
    known, number = state.known(), max(state.numbers.values(), default=0) + 1
    new = {subject: found for subject, found in facts.items() if found and known.get(subject) != found}
    new |= {subject: {} for subject in known if not facts.get(subject)}
    if state.garbage or state.lines + len(new) > 2 * len(facts) + WASTE:
        lines = [_line(number, subject, facts[subject]) for subject in sorted(facts) if facts[subject]]
        return "".join(lines), len(lines)
    start = text if not text or text.endswith("\n") else text + "\n"
    return start + "".join(_line(number, subject, new[subject]) for subject in sorted(new)), len(new)


def joined(states: Iterable[Mapping[Subject, Facts]]) -> dict[Subject, dict[str, Any]]:
    """What several machines know together, in whatever order they are asked."""
    together: dict[Subject, dict[str, Any]] = {}
    for state in states:
        for subject, facts in state.items():
            before = together.setdefault(subject, {})
            for name in COUNTS:
                if name in facts:
                    before[name] = min(before.get(name, 0) + facts[name], MOST)
            for name in ("accessed", "used"):
                if name in facts:
                    before[name] = max(before.get(name, ""), facts[name])
            if "moved" in facts and move_of(facts) > move_of(before):
                before |= dict(zip(MOVE, move_of(facts), strict=True))
            if "made" in facts and (facts["made"], facts["weight"]) > (before.get("made", ""), before.get("weight", 0)):
                before |= {"made": facts["made"], "weight": facts["weight"]}
    return together


def move_of(facts: Facts) -> tuple[str, ...]:
    """The move that facts tell of, empty where they tell of none."""
    return tuple(facts[name] for name in MOVE) if "moved" in facts else ()
