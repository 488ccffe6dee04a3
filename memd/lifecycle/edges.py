"""How edges live: use strengthens them, those that nobody made fade without it, and they can be followed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from memd.lifecycle.fading import days_past

RELATED = "relates_to"
"""The one relation that has no direction, and the only one that memd makes by itself."""
CONTAINS = "contains"
REFINES = "refines"

OBSERVED = ("similar", "tag")
"""Origins of edges that nobody made: these fade. What someone declared or wrote stays as long as it stands there."""

BY_RULE = "rule"
"""The origin of edges that a rule of pairs made: they do not fade, and go when one of the texts changes."""

STEP = 0.05
FADE = 0.9
REST = timedelta(days=30)
USED = 3
"""An edge that came up this often is known to be good, and does not fade."""
PRUNE = 0.05


@dataclass(frozen=True, slots=True)
class Edge:
    """A weighted typed link between two memories, by their numbers; `relates_to` goes both ways."""

    id: int
    one: int
    other: int
    rel: str
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
    """A weight after both ends came up together so many times: w + 0.05 × (1 − w) for each."""
    return 1 - (1 - weight) * (1 - STEP) ** times


def faded(base: float, accesses: int, idle: timedelta, origin: str) -> float:
    """The weight of an edge that was not used for a while: × 0.9 for each whole day past thirty."""
    rests = origin not in OBSERVED or accesses >= USED
    return base if rests else float(base * FADE ** days_past(idle, REST))


def ends(one: int, other: int, rel: str) -> tuple[int, int]:
    """The ends as they are kept: an edge without direction has one way of being written down."""
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
    """Every memory within `depth` edges, by its shortest way and of those the strongest; the nearest and best first."""
    known = {start: ReachedMemory(start, 1.0, ())}
    rim = [start]
    for _ in range(depth):
        found: dict[int, ReachedMemory] = {}
        around = set(rim)
        for edge in edges_of(rim):
            for near in {edge.one, edge.other} & around:
                way = known[near]
                new = ReachedMemory(edge.far(near), way.weight * edge.weight, (*way.path, edge))
                better = found.get(new.memory)
                if new.memory not in known and (better is None or new.weight > better.weight):
                    found[new.memory] = new
        known |= found
        rim = sorted(found)
    del known[start]
    return sorted(known.values(), key=lambda way: (len(way.path), -way.weight, way.memory))
