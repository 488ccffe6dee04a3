"""An embedder without a model: it knows the words of a text, and no more.

A process has it where the environment says `MEMD_TEST_EMBEDDER=tests.hash_embedder:HashEmbedder`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from memd.indexer.model.pooling import Vectors, encodable, unit
from memd.indexer.model.scale import ModelScale, Scale


class HashEmbedder:
    """Vectors of words alone: each word is hashed to one of 64 places and a sign."""

    name = "hash"
    fingerprint = "hash-64-1"
    dims = 64
    scale = ModelScale(Scale(0.086599, 0.317704), Scale(0.086599, 0.317704))

    def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
        """One row a text; texts that share words are near each other."""
        rows = np.zeros((len(texts), self.dims), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in self._words(text):
                place = int.from_bytes(hashlib.blake2b(encodable(word).encode(), digest_size=8).digest())
                row[place % self.dims] += 1 if place >> 63 else -1
        return unit(rows)

    def count_tokens(self, text: str) -> int:
        """The number of words."""
        return len(self._words(text))

    def _words(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())
