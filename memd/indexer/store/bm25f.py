"""BM25F in numpy: what each document earns from one term of one field, and the sum over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Idf = Callable[[int, int], float]

K1 = 1.2
B = 0.75


def whoosh_idf(n_docs: int, df: int) -> float:
    """How telling a term is, by Whoosh's formula."""
    return math.log(n_docs / (df + 1)) + 1


def probabilistic_idf(n_docs: int, df: int) -> float:
    """How telling a term is: the odds of meeting it by chance, never below zero."""
    return math.log(1 + (n_docs - df + 0.5) / (df + 0.5))


def bm25(
    docs: NDArray[np.integer],
    tf: NDArray[np.number],
    lengths: NDArray[np.floating],
    mean: float,
    n_docs: int,
    df: int,
    k1: float = K1,
    b: float = B,
    idf: Idf = probabilistic_idf,
) -> Doubles:
    """What each of `docs` earns from a term that it holds `tf` times; `lengths` are by document, `mean` is theirs."""
    often = tf.astype(np.float64)
    long = lengths[docs].astype(np.float64)
    # Step by step as Whoosh has it, so that every bit of the result is the same.
    earned: Doubles = idf(n_docs, df) * ((often * (k1 + 1)) / (often + k1 * ((1 - b) + b * long / mean)))
    return earned


class Scores:
    """A score for every document; zero is not a match."""

    def __init__(self, size: int) -> None:
        self.by_doc: Doubles = np.zeros(size, np.float64)

    def add(self, docs: NDArray[np.integer], earned: Doubles, weight: float = 1.0) -> None:
        """`docs` name each document once, as a posting list does."""
        self.by_doc[docs] += earned * weight

    def best(self, limit: int | None) -> tuple[NDArray[np.int64], Doubles]:
        """Documents and their scores, best first, equals in order; `None` means all that match."""
        docs = np.flatnonzero(self.by_doc)
        found = self.by_doc[docs]
        if limit is not None and limit < len(docs):
            # Equals of the last place stay in until they are in order.
            least = np.partition(found, len(found) - limit)[len(found) - limit] if limit else np.inf
            docs, found = docs[found >= least], found[found >= least]
        order = np.lexsort((docs, -found))[:limit]
        return docs[order], found[order]
