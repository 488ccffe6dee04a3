"""The score of a memory for a task: relevance, recency, importance and use, weighted by its kind. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from memd.lifecycle.lives import BASE
from memd.models import Kind, Tier

BY_KIND: dict[Kind, dict[str, float]] = {
    # What is known: whether it fits, and how much it matters.
    "semantic": {"relevance": 0.45, "recency": 0.10, "importance": 0.30, "use": 0.15},
    # What happened: how long ago.
    "episodic": {"relevance": 0.30, "recency": 0.40, "importance": 0.15, "use": 0.15},
    # How something is done: what was done so often before.
    "procedural": {"relevance": 0.35, "recency": 0.05, "importance": 0.15, "use": 0.45},
}
"""The weight of each factor; those of a kind add up to 1."""
BY_TIER: dict[Tier, float] = {"ltm": 1.0, "stm": 0.8, "dormant": 0.15, "sensory": 0.1}
RESTING: frozenset[Tier] = frozenset({"dormant", "sensory"})

HALF = 30.0
"""Days after which recency is halved."""

UNDATED = 0.5
"""A note without a date, and MEMORY.md, which never ages, are neither new nor old."""

MOST_USED = 50
"""Accesses beyond this add nothing: the number at which `promote-to-ltm` promotes."""

BY_FAR = 1.5
"""A resting memory this many times as relevant as any awake one is the answer, and is weighted as short-term."""

AS_MUCH = 0.8
"""What is known for good and was only not asked for is left out beside the point, not where it is the point: with this
share of the relevance of the best awake memory it is weighted as short-term, too."""

NEAR = 0.65
"""A memory below this share of the best match's relevance is not about the task. With 0.4, new and much used notes
crowd out the answer: of single questions 20 % had their answer in the context, with 0.65 all of them do."""

DROP = 0.2
"""Where relevance falls by so much of the best match's from one memory to the next, the context ends."""

SHARP = 2
"""The power of that share by which relevance is scaled: half as relevant as the best counts an eighth."""

FAINT = 0.18
"""The least relevance of a memory about the task: any two notes have less than this in common."""

DOUBTFUL = 0.33
"""The same if the search itself doubts that anything answers."""


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory as the score sees it."""

    memory: int
    relevance: float
    """From 0 to 1."""
    kind: Kind
    tier: Tier
    importance: float
    accesses: int
    day: date | None
    """The note's own; None if it has none or never ages."""
    pinned: bool = False
    base: float = BASE
    """Its importance before it faded."""

    @property
    def resting(self) -> bool:
        """Dormant, or a raw capture; pinned memories never rest."""
        return self.tier in RESTING and not self.pinned

    @property
    def lasting(self) -> bool:
        """What is known rather than what happened; a raw capture is not known yet."""
        return self.kind == "semantic" and self.tier == "dormant"


def recency(day: date | None, today: date) -> float:
    """1 today, half of it every month."""
    if day is None:
        return UNDATED
    return float(0.5 ** (max(0, (today - day).days) / HALF))


def use(accesses: int) -> float:
    """0 for none, 1 for fifty and more; the first few count most."""
    return min(1.0, math.log1p(max(0, accesses)) / math.log1p(MOST_USED))


def score(one: MemoryStanding, today: date, as_tier: Tier | None = None, best: float = 0.0) -> float:
    """The score of a memory; `as_tier` weights it as if in another tier, `best` is the relevance of the best match."""
    relevance = one.relevance * (one.relevance / best) ** SHARP if best else one.relevance
    # What is as much about the task as anything is not held back by having faded.
    beside = 1 - one.relevance / best if best else 1.0
    importance = max(one.importance, one.base - (one.base - one.importance) * beside)
    factors = {"relevance": relevance, "recency": recency(one.day, today), "importance": importance,
               "use": use(one.accesses)}  # fmt: skip
    tier: Tier = as_tier or ("ltm" if one.pinned else one.tier)
    return BY_TIER[tier] * sum(weight * factors[name] for name, weight in BY_KIND[one.kind].items())


def about_the_task(relevance: Mapping[int, float], doubtful: bool = False) -> dict[int, float]:
    """The search results that are relevant enough to be about the task, up to where relevance drops."""
    ordered = sorted(relevance.values(), reverse=True)
    best = ordered[0] if ordered else 0.0
    drops = (above for above, below in pairwise(ordered) if above - below > DROP * best)
    enough = max(DOUBTFUL if doubtful else FAINT, NEAR * best, next(drops, 0.0))
    return {memory: value for memory, value in relevance.items() if value >= enough}


def scores_of(standings: Sequence[MemoryStanding], today: date, all_tiers: bool = False) -> dict[int, float]:
    """The score of each search result; resting memories are left out, unless they answer best or `all_tiers` are asked.

    Fading never hides the only answer: a resting memory that is more relevant than every awake one stays, with the low
    weight of its tier; one that is so by far, or known for good and nearly as relevant, is weighted as short-term.
    """
    awake = max((one.relevance for one in standings if not one.resting), default=0.0)
    best = max((one.relevance for one in standings), default=0.0)
    scores = {}
    for one in standings:
        if not one.resting:
            scores[one.memory] = score(one, today, best=best)
        elif one.relevance >= (AS_MUCH if one.lasting else BY_FAR) * awake:
            scores[one.memory] = score(one, today, "stm", best)
        elif all_tiers or one.relevance > awake:
            scores[one.memory] = score(one, today, best=best)
    return scores
