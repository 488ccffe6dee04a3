"""Scores a ranked list of hits against the places of the answer; pure arithmetic.

A hit covers a place when it is in the same file and their lines overlap. The most important figures are `any@2k` and
`all@2k`: whether any, or all, of the places are covered by the hits that fit, in order, into the first 2,000
characters. Unlike in figures that count hits, longer hits are no advantage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUDGET = 2_000
"""Characters, about 500 tokens: what an agent pays to read."""
LONGEST = 1_200
"""A hit with more characters than this covers nothing: it would cover by luck."""
TURN_DEPTH = 10
"""The number of hits that are scored."""

Figures = dict[str, float]
Cover = Sequence[frozenset[int]]
"""For each hit, best first, the numbers of the places that it covers."""


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines of a file, counted from 1, both ends included."""

    path: str
    start: int
    end: int

    def overlaps(self, other: LineSpan) -> bool:
        return self.path == other.path and self.start <= other.end and other.start <= self.end

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" + (f"-{self.end}" if self.end > self.start else "")


def score(covered: Cover, lengths: Sequence[int], places: int) -> Figures:
    """Every figure of one question that has so many places to find."""
    within = _union(covered[: _fitting(lengths)])
    first5, first10 = _union(covered[:5]), _union(covered[:10])
    return {
        "any@2k": float(bool(within)),
        "all@2k": float(len(within) == places),
        "any@5": float(bool(first5)),
        "any@10": float(bool(first10)),
        "all@5": float(len(first5) == places),
        "frac@5": len(first5) / places,
        "frac@10": len(first10) / places,
        "mrr": next((1 / rank for rank, some in enumerate(covered, 1) if some), 0.0),
        "ndcg@10": _ndcg(covered[:10], places),
    }


def _union(covered: Cover) -> frozenset[int]:
    return frozenset().union(*covered)


def _fitting(lengths: Sequence[int]) -> int:
    """How many hits, from the first, fit into the budget."""
    spent = 0
    for nth, length in enumerate(lengths):
        spent += length
        if spent > BUDGET:
            return nth
    return len(lengths)


def _ndcg(covered: Cover, places: int) -> float:
    """Each place gains once, at the first hit that covers it; the ideal has one place a rank."""
    gained, seen = 0.0, frozenset[int]()
    for rank, some in enumerate(covered, 1):
        gained += len(some - seen) / math.log2(rank + 1)
        seen |= some
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(places, 10) + 1))
    return min(1.0, gained / ideal)


def mean(scored: Sequence[Mapping[str, float]]) -> Figures:
    """The average of each figure over the questions."""
    return {name: mean_of([one[name] for one in scored]) for name in scored[0]} if scored else {}


def mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0.0
