"""Lives of memories and edges: what is observed, how they fade, what a person decides, where edges lead. Pure."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from memd.models import Kind, Relation, Tier

BASE = 0.5
"""The importance of a memory that declares none."""

RULE = "rule:"
"""The prefix of `moved_by` if no person decided."""

DORMANT: Tier = "dormant"
DAY = timedelta(days=1)


def base_importance(declared: float | None) -> float:
    """The importance before fading: what the Markdown declares, or what it is without that."""
    return BASE if declared is None else float(declared)


@dataclass(frozen=True, slots=True)
class Life:
    """A memory as rules see it; every moment is in UTC."""

    memory: int
    tier: Tier
    kind: Kind
    role: str
    first_seen: datetime
    pinned: bool = False
    tags: tuple[str, ...] = ()
    base: float = BASE
    """The importance that the Markdown declares."""
    importance: float = BASE
    """The same after fading."""
    accesses: int = 0
    days: int = 0
    """The number of days on which it was accessed."""
    accessed: datetime | None = None
    useful: int = 0
    moved: datetime | None = None
    """When its tier last changed; None: it never did."""
    moved_by: str = ""
    """`rule:<name>`, or who did it."""
    home: str = ""
    """The tier that it had before the last move."""
    merged: bool = False
    """It is dormant because another memory says the same, and that one still exists."""
    deleted: bool = False
    """It is dormant and in no answer."""
    inherited: int = 0
    """The accesses of what it renews: a fact that was told anew is as much asked for as before."""
    told: int = 0
    """Its accesses in hours in which the same client said what was useful."""

    @property
    def exempt(self) -> bool:
        """Pinned memories and `MEMORY.md` never age."""
        return self.pinned or self.role == "memory"

    @property
    def decided(self) -> bool:
        """Whether a person put it where it is."""
        return self.moved is not None and not self.moved_by.startswith(RULE)

    @property
    def since(self) -> datetime:
        """When its age began: when it was first seen, or when a person last decided its tier."""
        return max(self.first_seen, self.moved) if self.moved is not None and self.decided else self.first_seen

    def age(self, now: datetime) -> timedelta:
        return now - self.since

    def idle(self, now: datetime) -> timedelta:
        """The time since anyone last asked for it."""
        return now - max(self.since, self.accessed or self.since)

    @property
    def returned(self) -> bool:
        """Whether it was asked for after a rule had laid it aside."""
        if self.moved is None or self.accessed is None or self.decided or self.merged:
            return False
        return self.accessed > self.moved

    @property
    def asked_for(self) -> int:
        """How often it, or what it renews, was accessed."""
        return max(self.accesses, self.inherited)

    @property
    def utility(self) -> float:
        """How often it was useful, as a share of the accesses of which someone could have said so.

        Not a number while nobody could: no condition on it holds then.
        """
        return min(1.0, self.useful / self.told) if self.told else math.nan


def awake_tier(home: str) -> Tier:
    """Where a dormant memory returns to: its former tier, unless it was a raw capture."""
    return "ltm" if home == "ltm" else "stm"


# Fading counts whole days past a limit, never how often anyone looked: applying it twice changes nothing.


def days_past(span: timedelta, limit: timedelta) -> int:
    """The whole days by which a span is over a limit."""
    return max(0, (span - limit) // DAY)


def faded(base: float, factor: float, days: int, floor: float) -> float:
    """The rest of a number after so many days; one that starts below the floor stays as it is."""
    return min(base, max(floor, base * factor**days))


# --- what a person decides about one memory: its tier, its importance, whether it is pinned -------------------


STEP = 0.1
"""The amount that `boost` adds to the declared importance, and `diminish` takes away."""

UP: dict[Tier, Tier] = {"sensory": "stm", "stm": "ltm", "ltm": "ltm"}
MOVES = ("promote", "demote", "archive", "delete")


def tier_after(verb: str, tier: Tier, home: str) -> Tier:
    """The tier that a memory goes to; `promote` brings a dormant one back to where it was before."""
    if verb == "promote":
        return UP.get(tier) or awake_tier(home)
    return "stm" if (verb, tier) == ("demote", "ltm") else DORMANT


def fact_of(verb: str) -> str:
    """Which declared fact a verb changes."""
    return "pinned" if verb in ("pin", "unpin") else "importance"


def fact_after(verb: str, before: bool | float) -> bool | float:
    """The fact after the verb."""
    if verb in ("pin", "unpin"):
        return verb == "pin"
    step = STEP if verb == "boost" else -STEP
    return round(min(1.0, max(0.0, before + step)), 2)


# --- how edges live: use strengthens them, observed ones fade without it ------------------------------------


RELATED: Relation = "relates_to"
"""The only relation without a direction, and the only one that memd observes."""
CONTAINS: Relation = "contains"
REFINES: Relation = "refines"
CONTRADICTS: Relation = "contradicts"
MERGED: Relation = "merged_into"

OBSERVED = ("similar", "tag")
"""Origins of observed edges: these fade. An edge that someone declared or wrote stays as long as the text says it."""

BY_RULE = "rule"
"""The origin of edges that a pair rule made: they do not fade, and are dropped when one of the texts changes."""

USE_STEP = 0.05
FADE = 0.9
REST = timedelta(days=30)
USED = 3
"""An edge that was used this often has proved itself, and does not fade."""
PRUNE = 0.05
ENOUGH = 0.5
"""The share of a group that one memory must contain to be its summary."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A weighted typed link between two memories, by their numbers; `relates_to` goes both ways."""

    id: int
    one: int
    other: int
    rel: Relation
    weight: float
    origin: str
    base: float = 0.0
    """The weight before fading."""
    made: str = ""
    accesses: int = 0
    accessed: str | None = None

    def far(self, memory: int) -> int:
        """The end that is not this one."""
        return self.other if memory == self.one else self.one


def strengthened(weight: float, times: int = 1) -> float:
    """A weight after both ends were shown together so many times: w + 0.05 × (1 − w) for each."""
    return 1 - (1 - weight) * (1 - USE_STEP) ** times


def faded_weight(base: float, accesses: int, idle: timedelta, origin: str) -> float:
    """The weight of an edge after time without use: × 0.9 for each whole day past thirty."""
    lasting = origin not in OBSERVED or accesses >= USED
    return base if lasting else float(base * FADE ** days_past(idle, REST))


def ends(one: int, other: int, rel: str) -> tuple[int, int]:
    """The ends as stored: an edge without direction is stored with the smaller number first."""
    return (min(one, other), max(one, other)) if rel == RELATED else (one, other)


# --- following ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReachedMemory:
    """A memory that edges lead to, and the way there."""

    memory: int
    weight: float
    """The product of the weights on the way."""
    path: tuple[Edge, ...]


def reach(start: int, edges_of: Callable[[Collection[int]], Iterable[Edge]], depth: int) -> list[ReachedMemory]:
    """Every memory within `depth` edges, by its shortest path, of those the strongest; the nearest and best first."""
    known = {start: ReachedMemory(start, 1.0, ())}
    rim = [start]
    for _ in range(depth):
        reached: dict[int, ReachedMemory] = {}
        around = set(rim)
        for edge in edges_of(rim):
            for near in {edge.one, edge.other} & around:
                way = known[near]
                new = ReachedMemory(edge.far(near), way.weight * edge.weight, (*way.path, edge))
                better = reached.get(new.memory)
                if new.memory not in known and (better is None or new.weight > better.weight):
                    reached[new.memory] = new
        known |= reached
        rim = sorted(reached)
    del known[start]
    return sorted(known.values(), key=lambda way: (len(way.path), -way.weight, way.memory))


# --- groups -------------------------------------------------------------------------------------------------


def components(pairs: Iterable[tuple[int, int]], least: int = 2) -> list[tuple[int, ...]]:
    """The connected groups of at least `least` memories, the largest first."""
    group_of: dict[int, set[int]] = {}
    for one, other in pairs:
        large, small = sorted((group_of.get(end, {end}) for end in (one, other)), key=len, reverse=True)
        large |= small
        group_of |= dict.fromkeys(small | {one, other}, large)
    groups = {tuple(sorted(group)) for group in group_of.values() if len(group) >= least}
    return sorted(groups, key=lambda group: (-len(group), group))


def summary_of(group: Iterable[int], contained: Mapping[int, Iterable[int]]) -> int | None:
    """The memory that contains most of a group, and at least half of it; `contained` is what each one contains."""
    members = set(group)
    held = {parent: len(members.intersection(children) - {parent}) for parent, children in contained.items()}
    enough = [(-most, one) for one, most in held.items() if most and most >= ENOUGH * len(members - {one})]
    return min(enough)[1] if enough else None
