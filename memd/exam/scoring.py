"""Scores a ranked list of hits against the places where the answer stands; pure arithmetic.

A hit covers a wanted place when it stands in the same file and their lines overlap. What counts most is `any@2k` and
`all@2k`: whether any, or all, of the wanted places are covered by the hits that fit, in order, into the first 2,000
characters. Longer hits cannot win it, as they can win the figures that count hits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BUDGET = 2_000
"""Characters, about 500 tokens: what an agent pays to read."""
LONGEST = 1_200
"""A hit with more characters than this covers nothing: it would cover by luck."""
TURN_DEPTH = 10
"""Hits that count for places; for sessions all that were asked for do, after folding."""

NAMES = ("any@2k", "all@2k", "any@5", "any@10", "all@5", "frac@5", "frac@10", "mrr", "ndcg@10")

Figures = dict[str, float]
Cover = Sequence[frozenset[int]]
"""For each hit, best first, the numbers of the wanted places that it covers."""


@dataclass(frozen=True, slots=True)
class LineSpan:
    """A place: lines of a file, counted from 1, both ends included."""

    path: str
    start: int
    end: int

    def overlaps(self, other: LineSpan) -> bool:
        return self.path == other.path and self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class ScoredHit:
    """A hit, as far as it matters for the score: where it stands and how much there is to read."""

    span: LineSpan
    length: int


def cover(hits: Sequence[ScoredHit], wanted: Sequence[LineSpan]) -> list[frozenset[int]]:
    """Which of the wanted places each hit covers."""
    return [
        frozenset(nth for nth, span in enumerate(wanted) if hit.length <= LONGEST and hit.span.overlaps(span))
        for hit in hits
    ]


def score(covered: Cover, lengths: Sequence[int], wanted: int) -> Figures:
    """Every figure of one question that has `wanted` places to find."""
    within = _union(covered[: _fitting(lengths)])
    first5, first10 = _union(covered[:5]), _union(covered[:10])
    return {
        "any@2k": float(bool(within)),
        "all@2k": float(len(within) == wanted),
        "any@5": float(bool(first5)),
        "any@10": float(bool(first10)),
        "all@5": float(len(first5) == wanted),
        "frac@5": len(first5) / wanted,
        "frac@10": len(first10) / wanted,
        "mrr": next((1 / rank for rank, places in enumerate(covered, 1) if places), 0.0),
        "ndcg@10": _ndcg(covered[:10], wanted),
    }


def _union(covered: Cover) -> frozenset[int]:
    return frozenset().union(*covered)


def _fitting(lengths: Sequence[int]) -> int:
    """How many hits, from the first on, fit into the budget."""
    spent = 0
    for nth, length in enumerate(lengths):
        spent += length
        if spent > BUDGET:
            return nth
    return len(lengths)


def _ndcg(covered: Cover, wanted: int) -> float:
    """Each wanted place gains once, at the first hit that covers it; the ideal has one place a rank."""
    gained, seen = 0.0, frozenset[int]()
    for rank, places in enumerate(covered, 1):
        gained += len(places - seen) / math.log2(rank + 1)
        seen |= places
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(wanted, 10) + 1))
    return min(1.0, gained / ideal)


def turns(hits: Sequence[ScoredHit], wanted: Sequence[LineSpan]) -> Figures:
    """The score for exact places, on the first ten hits."""
    first = hits[:TURN_DEPTH]
    return score(cover(first, wanted), [hit.length for hit in first], len(wanted))


def sessions(hits: Sequence[ScoredHit], wanted: Sequence[LineSpan], known: Iterable[LineSpan]) -> Figures:
    """The score for whole sections, after folding the hits of one into its best-ranked hit."""
    folded = fold(hits, known)
    return score(cover(folded, wanted), [hit.length for hit in folded], len(wanted))


def fold(hits: Sequence[ScoredHit], known: Iterable[LineSpan]) -> list[ScoredHit]:
    """One hit a session: the first. A hit outside every session stands for itself."""
    by_path: dict[str, list[LineSpan]] = {}
    for session in known:
        by_path.setdefault(session.path, []).append(session)
    kept: dict[LineSpan, ScoredHit] = {}
    for hit in hits:
        around = next((session for session in by_path.get(hit.span.path, ()) if session.overlaps(hit.span)), hit.span)
        kept.setdefault(around, hit)
    return list(kept.values())


def mean(scored: Sequence[Mapping[str, float]]) -> Figures:
    """The average of each figure over the questions."""
    return {name: math.fsum(one[name] for one in scored) / len(scored) for name in scored[0]} if scored else {}


def mean_length(answers: Iterable[Sequence[ScoredHit]]) -> float:
    """The mean length of the first ten hits."""
    lengths = [hit.length for hits in answers for hit in hits[:TURN_DEPTH]]
    return sum(lengths) / len(lengths) if lengths else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0.0


def area(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The AUC: how often a value of `right` is above one of `wrong`; equal values count half."""
    ranked = sorted([(value, 1) for value in right] + [(value, 0) for value in wrong])
    total, at = 0.0, 0
    while at < len(ranked):
        after = at
        while after < len(ranked) and ranked[after][0] == ranked[at][0]:
            after += 1
        total += sum(label for _, label in ranked[at:after]) * (at + 1 + after) / 2
        at = after
    pairs = len(right) * len(wrong)
    return (total - len(right) * (len(right) + 1) / 2) / pairs if pairs else 0.0
