"""How words are weighed, and how ranks are fused. Pure: counts or ranks in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# --- words --------------------------------------------------------------------------------------------------

K1 = 1.2
"""How soon a repeated word stops counting: the usual value; 0.9 and 2.0 gave the same results."""

B = 0.4
"""The penalty for length: less than the usual 0.75, since chunks are of about one size."""

HEADING = 2.0
"""A heading says what the text below is about: a word there counts as two in the text."""

PART = 0.2
"""A word found only inside another one ("build" in "rebuild") earns this share of the whole word."""

PART_ONLY = 0.6
"""The same where no note has the whole word: then the part is what was meant ("fjor", "100.114")."""

MISSPELT = 0.7
"""A word that no note has earns this share when a near spelling of it is found."""


def idf(count: int, holders: int) -> float:
    """How telling a word is that so many of all chunks hold."""
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))


def dampened(often: Floats) -> Floats:
    """BM25's curve: the second mention says less than the first."""
    curve: Floats = often * (K1 + 1) / (often + K1)
    return curve


def by_length(lengths: Floats, mean: float) -> Floats:
    """What a word's count is divided by in a text of this length."""
    share: Floats = 1 - B + B * lengths / mean
    return share


# --- by ranks only ------------------------------------------------------------------------------------------


def ranks_of(voices: Mapping[str, Sequence[int]]) -> dict[int, dict[str, int]]:
    """The place of each chunk in each voice that found it, counted from 1."""
    ranks: dict[int, dict[str, int]] = {}
    for voice, chunks in voices.items():
        for rank, chunk in enumerate(chunks, 1):
            ranks.setdefault(chunk, {})[voice] = rank
    return ranks


def reciprocal(ranks: Mapping[str, int], k: int) -> float:
    """Reciprocal rank fusion: each voice gives 1 / (k + rank); what several voices found rises."""
    return sum(1.0 / (k + rank) for rank in ranks.values())
