"""Scores hits against the places of a labelled collection: single turns, or whole sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from memd.exam import LONGEST, TURN_DEPTH, Figures, LineSpan, score

NAMES = ("any@2k", "all@2k", "any@5", "any@10", "all@5", "frac@5", "frac@10", "mrr", "ndcg@10")


@dataclass(frozen=True, slots=True)
class ScoredHit:
    """A hit, as far as it matters for the score: where it is and how much there is to read."""

    span: LineSpan
    length: int


def cover(hits: Sequence[ScoredHit], wanted: Sequence[LineSpan], longest: float) -> list[frozenset[int]]:
    """Which of the wanted places each hit covers; one that is longer covers nothing."""
    return [
        frozenset(nth for nth, span in enumerate(wanted) if hit.length <= longest and hit.span.overlaps(span))
        for hit in hits
    ]


def turns(hits: Sequence[ScoredHit], wanted: Sequence[LineSpan], longest: float = LONGEST) -> Figures:
    """The score for exact places, on the first ten hits."""
    first = hits[:TURN_DEPTH]
    return score(cover(first, wanted, longest), [hit.length for hit in first], len(wanted))


def sessions(
    hits: Sequence[ScoredHit], wanted: Sequence[LineSpan], known: Iterable[LineSpan], longest: float = LONGEST
) -> Figures:
    """The score for whole sessions, on all hits, after folding the hits of one into its best-ranked hit."""
    folded = fold(hits, known)
    return score(cover(folded, wanted, longest), [hit.length for hit in folded], len(wanted))


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


def mean_length(answers: Iterable[Sequence[ScoredHit]]) -> float:
    """The mean length of the first ten hits."""
    return fmean([hit.length for hits in answers for hit in hits[:TURN_DEPTH]] or [0])


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
