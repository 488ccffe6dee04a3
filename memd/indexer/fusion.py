"""How the voices are heard together. Pure: ranks in, order out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ranked:
    """A chunk's score and its place in each voice, counted from 1."""

    score: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict)


def reciprocal_ranks(voices: Mapping[str, Sequence[int]], k: int) -> dict[int, Ranked]:
    """Reciprocal rank fusion: each voice gives 1 / (k + rank); what several voices know rises."""
    fused: dict[int, Ranked] = {}
    for voice, chunks in voices.items():
        for rank, chunk in enumerate(chunks, 1):
            ranked = fused.setdefault(chunk, Ranked())
            ranked.score += 1.0 / (k + rank)
            ranked.ranks[voice] = rank
    return fused


UNRELATED, RELATED = 0.60, 0.85
"""Cosines of the local model: what any two English notes have, and what a paraphrase has."""

WEAK, FOUND = 0.05, 0.5


def confidence(coverage: float, cosine: float) -> float:
    """How sure the best hit is the answer: the share of the question's words it has, or its nearness in meaning."""
    near = min(1.0, max(0.0, (cosine - UNRELATED) / (RELATED - UNRELATED)))
    return round(max(coverage, near), 3)


def verdict(found: bool, sure: float) -> str:
    if not found or sure < WEAK:
        return "none" if not found else "weak"
    return "found" if sure >= FOUND else "weak"
