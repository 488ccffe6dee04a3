"""Measures what a model's cosines mean: those of unrelated texts, and those of paraphrases."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder

PAIRS: list[list[str]] = json.loads(Path(__file__).with_name("paraphrases.json").read_text(encoding="utf-8"))
"""Each pair says one thing twice; different pairs have nothing in common."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The mean cosine of unrelated texts, and of paraphrases."""

    unrelated: float
    related: float

    def near(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """0 for unrelated texts, 1 for a paraphrase, whatever the model."""
        nearness: NDArray[np.float64] = (cosines - self.unrelated) / (self.related - self.unrelated)
        return nearness


_measured: dict[str, Scale] = {}


def scale_of(embedder: Embedder) -> Scale:
    """The scale of a model; measuring it the first time takes a fifth of a second."""
    if embedder.fingerprint not in _measured:
        _measured[embedder.fingerprint] = measure(embedder.embed)
    return _measured[embedder.fingerprint]


def remember_scale(fingerprint: str, scale: Scale) -> None:
    """Take over what another process measured."""
    _measured[fingerprint] = scale


def measure(embed: Callable[[Sequence[str]], Vectors]) -> Scale:
    """Embed the pairs and compare them all."""
    vectors = embed([text for pair in PAIRS for text in pair]).astype(np.float64)
    cosines = vectors @ vectors.T
    pair = np.arange(len(vectors)) // 2
    same = pair[:, None] == pair[None, :]
    alone = ~np.eye(len(vectors), dtype=bool)
    unrelated, related = float(cosines[~same].mean()), float(cosines[same & alone].mean())
    # A model that cannot tell them apart must not get a scale that magnifies noise.
    return Scale(unrelated, max(related, unrelated + 0.05))
