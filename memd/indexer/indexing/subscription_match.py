"""Matches standing queries: whether a memory that was just saved has the words that a subscriber waits for.

A text has a word of the query if it has its term (the stem, in English) or, for a compound (`ErsatzTV`,
`home-network`), its parts side by side. Stop words of the query do not count. No index is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memd.indexer.language.words import query_terms, words
from memd.models import Chunk


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The terms of one chunk, with its headings, tags and aliases."""

    terms: frozenset[str]
    run: str
    """The parts of every word, in order, with spaces around each."""


def chunk_terms(chunk: Chunk) -> ChunkTerms:
    terms: set[str] = set()
    run: list[str] = []
    for word in words("\n".join((*chunk.heading, chunk.context, chunk.text))):
        terms.update(word.terms)
        # A single character of a script without spaces is no term, but can be a query.
        terms.update(form for form in word.exact if len(form) == 1)
        run += word.terms[1:] or word.terms
    return ChunkTerms(frozenset(terms), f" {' '.join(run)} ")


@dataclass(frozen=True, slots=True)
class AwaitedTerms:
    """The terms of each word of a query, the whole word's first."""

    words: tuple[tuple[str, ...], ...]
    every: bool = True
    """Whether all of the words are needed, or one is enough."""

    def best(self, chunks: Sequence[ChunkTerms]) -> tuple[int, float] | None:
        """The best chunk and the share of the words that are there; None without a match."""
        if not self.words:
            return 0, 1.0
        matches = [{word for word in self.words if _has(chunk, word)} for chunk in chunks]
        matched = set().union(*matches)
        if not matched or (self.every and len(matched) < len(set(self.words))):
            return None
        best = max(range(len(chunks)), key=lambda nth: (len(matches[nth]), -nth))
        return best, len(matched) / len(set(self.words))

    def marks(self, text: str) -> list[tuple[int, int]]:
        """Where the words are in a text, to highlight them."""
        terms = {term for word in self.words for term in word}
        return [(word.start, word.end) for word in words(text) if terms.intersection(word.terms)]


def awaited_terms(query: str, every: bool) -> AwaitedTerms:
    """The words of a query without its stop words."""
    terms = set(query_terms(query))
    return AwaitedTerms(tuple(word.terms for word in words(query) if terms.intersection(word.terms)), every)


def _has(chunk: ChunkTerms, word: tuple[str, ...]) -> bool:
    return word[0] in chunk.terms or (len(word) > 1 and f" {' '.join(word[1:])} " in chunk.run)
