"""How much a memory is worth to a task: relevance, recency, importance and use, weighed by its kind. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple


class FactorWeights(NamedTuple):
    """What each factor counts; they add up to 1."""

    relevance: float
    recency: float
    importance: float
    use: float


BY_KIND = {
    # What is known: whether it fits, and how much it matters.
    "semantic": FactorWeights(0.45, 0.10, 0.30, 0.15),
    # What happened: how long ago.
    "episodic": FactorWeights(0.30, 0.40, 0.15, 0.15),
    # How something is done: what was done so often before.
    "procedural": FactorWeights(0.35, 0.05, 0.15, 0.45),
}
BY_TIER = {"ltm": 1.0, "stm": 0.8, "dormant": 0.15, "sensory": 0.1}
RESTING = frozenset({"dormant", "sensory"})

HALF = 30.0
"""Days after which a note is half as new."""

UNDATED = 0.5
"""A note without a date, and MEMORY.md, which never ages, are neither new nor old."""

MOST_USED = 50
"""Accesses beyond this add nothing: the number at which a memory is taken for long-term."""

BY_FAR = 1.5
"""A resting memory this many times as relevant as any that is awake is the answer, and weighed as short-term."""

NEAR = 0.65
"""What is less than this share as relevant as the best match is not about the task. With 0.4 new and much used notes
crowd out what was asked for: of single questions 20 % had their answer in the context, with 0.65 all of them do."""

SHARP = 2
"""By which power of that share relevance counts less: what is half as relevant as the best weighs an eighth of it."""

FAINT = 0.18
"""Nor is what is less relevant than this: any two notes have as much in common."""

DOUBTFUL = 0.33
"""The same where the search itself doubts that anything answers."""


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory as a task finds it."""

    memory: int
    relevance: float
    """From 0 to 1."""
    kind: str
    tier: str
    importance: float
    accesses: int
    day: date | None
    """The note's own; None where it has none or never ages."""
    pinned: bool = False

    @property
    def resting(self) -> bool:
        """Laid aside, or not yet taken in; what is pinned is always at hand."""
        return self.tier in RESTING and not self.pinned


def recency(day: date | None, today: date) -> float:
    """1 today, half of it every month."""
    if day is None:
        return UNDATED
    return float(0.5 ** (max(0, (today - day).days) / HALF))


def use(accesses: int) -> float:
    """0 for none, 1 for fifty and more; the first few count most."""
    return min(1.0, math.log1p(max(0, accesses)) / math.log1p(MOST_USED))


def score(one: MemoryStanding, today: date, as_tier: str = "", best: float = 0.0) -> float:
    """What a memory is worth; `as_tier` weighs it as if in another tier, `best` is how relevant the best match is."""
    weights = BY_KIND[one.kind]
    relevance = one.relevance * (one.relevance / best) ** SHARP if best else one.relevance
    parts = (relevance, recency(one.day, today), one.importance, use(one.accesses))
    tier = as_tier or ("ltm" if one.pinned else one.tier)
    return BY_TIER[tier] * sum(weight * part for weight, part in zip(weights, parts, strict=True))


def near(relevant: Mapping[int, float], doubtful: bool = False) -> dict[int, float]:
    """Those memories of a search that are about the task at all."""
    enough = max(DOUBTFUL if doubtful else FAINT, NEAR * max(relevant.values(), default=0.0))
    return {memory: how for memory, how in relevant.items() if how >= enough}


def scored(found: Iterable[MemoryStanding], today: date) -> dict[int, float]:
    """What each memory is worth that a search found; what rests is left out, unless it answers best.

    Fading never hides the only answer: a resting memory that is more relevant than every one that is awake stays, at
    the low weight of its tier; one that is so by far is weighed as short-term.
    """
    everything = list(found)
    awake = max((one.relevance for one in everything if not one.resting), default=0.0)
    best = max((one.relevance for one in everything), default=0.0)
    scores = {}
    for one in everything:
        if not one.resting:
            scores[one.memory] = score(one, today, best=best)
        elif one.relevance > awake:
            scores[one.memory] = score(one, today, "stm" if one.relevance >= BY_FAR * awake else "", best)
    return scores
