"""Whoosh's own scorer, and the same formula over memd's arrays: the yardstick for what the arrays hold.

memd ranks by a formula of its own. That the arrays hold what Whoosh's files do is shown by scoring with Whoosh's
formula (BM25F) on both sides: tests/unit/test_postings.py compares the scores, benchmarks/queries.py the times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from whoosh import query, scoring

from memd.indexer.language.words import UNSPACED_RUN, Word, telling_words, words
from memd.indexer.store.postings import Postings
from memd.indexer.store.text import TextIndex

Doubles = NDArray[np.float64]

K1 = 1.2
B = 0.75
HEADING_BOOST = 2.0
EXACT_BOOST = 0.5


def query_terms(text: str) -> tuple[list[str], list[str]]:
    """The distinct terms and exact forms of a question, without stop words."""
    telling = telling_words(words(text))
    terms = dict.fromkeys(term for word in telling for term in word.terms)
    exact = dict.fromkeys(form for word in telling for form in word.exact if not _is_pair(word))
    return list(terms), list(exact)


def _is_pair(word: Word) -> bool:
    """A pair says more than its two characters, which stand in many other words."""
    return word.end - word.start == 2 and len(word.terms[0]) == 2 and bool(UNSPACED_RUN.fullmatch(word.terms[0]))


def search(index: TextIndex, terms: Sequence[str], exact: Sequence[str], limit: int | None) -> list[tuple[int, float]]:
    """Chunk numbers with their BM25F score from memd's arrays, best first; `None` means every chunk that matches."""
    postings = index.postings()
    scores = Scores(postings.size)
    for field, term, boost in _weighted(terms, exact):
        docs, often = postings.of(field, term)
        if len(docs):
            # As Whoosh counts: deleted documents included.
            df = sum(len(postings._in(run, field, term).docs) for run in postings.runs)
            mean = mean_length(index, postings, field)
            scores.add(docs, bm25(docs, often, lengths_of(postings, field), mean, postings.size, df), boost)
    found, sums = scores.best(limit)
    return list(zip(postings.chunks[found].tolist(), sums.tolist(), strict=True))


def lengths_of(postings: Postings, field: str) -> NDArray[np.float32]:
    """How many terms each document has in a field, rounded as Whoosh stores it."""
    return np.concatenate([np.zeros(0, np.float32), *(segment.lengths[field] for segment in postings.segments)])


_mean_lengths: WeakKeyDictionary[Postings, dict[str, float]] = WeakKeyDictionary()


def mean_length(index: TextIndex, postings: Postings, field: str) -> float:
    """As Whoosh has it: from the true lengths, of all documents, deleted ones included."""
    means = _mean_lengths.setdefault(postings, {})
    if field not in means:
        with index._index.reader() as reader:
            means[field] = reader.field_length(field) / (postings.size or 1) or 1.0
    return means[field]


def search_by_whoosh(
    index: TextIndex, terms: Sequence[str], exact: Sequence[str], limit: int | None
) -> list[tuple[int, float]]:
    """The same by Whoosh itself."""
    parts = [query.Term(field, term, boost=boost) for field, term, boost in _weighted(terms, exact)]
    if not parts:
        return []
    # The lock keeps a commit from removing the files that the searcher reads.
    with index._lock, index._index.searcher(weighting=scoring.BM25F(B=B, K1=K1)) as searcher:
        hits = searcher.search(query.Or(parts), limit=limit, scored=True)
        # A reader of an empty index has no columns.
        numbers = searcher.reader().column_reader("number") if len(hits) else ()
        return [(int(numbers[hit.docnum]), float(hit.score)) for hit in hits]


def _weighted(terms: Sequence[str], exact: Sequence[str]) -> list[tuple[str, str, float]]:
    """Field, term and weight of everything that a question looks for, once each."""
    asked = [("body", term, 1.0) for term in terms]
    asked += [("heading", term, HEADING_BOOST) for term in terms]
    asked += [("exact", form, EXACT_BOOST) for form in exact]
    return list(dict.fromkeys(asked))


def whoosh_idf(n_docs: int, df: int) -> float:
    """How telling a term is, by Whoosh's formula."""
    return math.log(n_docs / (df + 1)) + 1


def bm25(
    docs: NDArray[np.integer], tf: NDArray[np.number], lengths: NDArray[np.floating], mean: float, n_docs: int, df: int
) -> Doubles:
    """The score of each of `docs` for a term that it holds `tf` times; `lengths` are by document, `mean` is theirs."""
    often = tf.astype(np.float64)
    long = lengths[docs].astype(np.float64)
    # Step by step as Whoosh has it, so that every bit of the result is the same.
    earned: Doubles = whoosh_idf(n_docs, df) * ((often * (K1 + 1)) / (often + K1 * ((1 - B) + B * long / mean)))
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
