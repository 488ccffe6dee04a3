"""How edges live: use strengthens them, observed ones fade without it; where they lead, and which groups they form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from memd.lifecycle.lives import days_past
from memd.models import Relation

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

STEP = 0.05
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
    return 1 - (1 - weight) * (1 - STEP) ** times


def faded(base: float, accesses: int, idle: timedelta, origin: str) -> float:
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
    counts = []
    for parent, children in contained.items():
        others = members - {parent}
        held = len(others & set(children))
        if others and held >= ENOUGH * len(others):
            counts.append((-held, parent))
    return min(counts)[1] if counts else None
