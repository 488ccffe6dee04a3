"""How the voices are heard together. Pure: ranks in, order out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class FusedRank:
    """A chunk's score and its place in each voice, counted from 1."""

    score: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict)


def reciprocal_ranks(voices: Mapping[str, Sequence[int]], k: int) -> dict[int, FusedRank]:
    """Reciprocal rank fusion: each voice gives 1 / (k + rank); what several voices know rises."""
    fused: dict[int, FusedRank] = {}
    for voice, chunks in voices.items():
        for rank, chunk in enumerate(chunks, 1):
            ranked = fused.setdefault(chunk, FusedRank())
            ranked.score += 1.0 / (k + rank)
            ranked.ranks[voice] = rank
    return fused
