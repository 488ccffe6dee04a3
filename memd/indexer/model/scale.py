"""Measures what a model's cosines mean: those of unrelated texts, and those of paraphrases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder

PAIRS = (
    ("The kitchen tap drips at night.", "Water keeps leaking from the faucet in the kitchen after dark."),
    ("Backups run every Sunday at three.", "Once a week, early on Sunday morning, the data is saved."),
    ("She learned to play the cello as a child.", "When she was young she was taught the cello."),
    ("The release was delayed by a failing test.", "We shipped late because one of the tests broke."),
    ("Aspirin lowers the risk of a second stroke.", "Patients who take aspirin have fewer repeated strokes."),
    ("Our train to Vienna leaves from platform nine.", "The Vienna train departs at track 9."),
    ("He is allergic to peanuts.", "Peanuts make him ill, so he cannot eat them."),
    ("The database listens on port 5433.", "Connect to the database server through port 5433."),
    ("They adopted a grey cat last spring.", "A grey cat has lived with them since spring."),
    ("The roof must be mended before winter.", "Before the cold season the roof needs repair."),
    ("Use a mutex around the shared counter.", "Guard the counter that threads share with a lock."),
    ("Grandmother's bread needs two hours to rise.", "Let the dough of grandma's bread rest for two hours."),
)
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
