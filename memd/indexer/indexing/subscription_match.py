"""The rule of a standing query: whether what was just saved of a memory has the words that are waited for.

A telling word of the query stands in a text when the text has its term (the stem, in English), or, where the
word is made of parts (`ErsatzTV`, `home-network`), its parts side by side. No index is asked: what was saved
is in the hand, and the answer depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memd.indexer.language.words import query_terms, words
from memd.models import Chunk


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The words of one chunk, of its headings, and of its tags and aliases."""

    terms: frozenset[str]
    run: str
    """Every word by its parts, in order, a space before and after each."""


def chunk_terms(chunk: Chunk) -> ChunkTerms:
    terms: set[str] = set()
    run: list[str] = []
    for word in words("\n".join((*chunk.heading, chunk.context, chunk.text))):
        terms.update(word.terms)
        # A single sign of a script without spaces is no term, but it can be asked for.
        terms.update(form for form in word.exact if len(form) == 1)
        run += word.terms[1:] or word.terms
    return ChunkTerms(frozenset(terms), f" {' '.join(run)} ")


@dataclass(frozen=True, slots=True)
class AwaitedTerms:
    """What is waited for: the terms of each telling word, the whole word's first."""

    words: tuple[tuple[str, ...], ...]
    every: bool = True
    """Whether all of the words must stand there, or one is enough."""

    def best(self, pieces: Sequence[ChunkTerms]) -> tuple[int, float] | None:
        """Which piece shows it best, and which share of the words there is; None when it does not match."""
        if not self.words:
            return 0, 1.0
        had = [{word for word in self.words if _stands(word, one)} for one in pieces]
        found = set().union(*had)
        if not found or (self.every and len(found) < len(set(self.words))):
            return None
        place = max(range(len(pieces)), key=lambda nth: (len(had[nth]), -nth))
        return place, len(found) / len(set(self.words))

    def marks(self, text: str) -> list[tuple[int, int]]:
        """Where the words stand in a text, for a reader's eye."""
        terms = {term for word in self.words for term in word}
        return [(word.start, word.end) for word in words(text) if terms.intersection(word.terms)]


def awaited_terms(query: str, every: bool) -> AwaitedTerms:
    """The telling words of a query: without those that every text has."""
    telling = set(query_terms(query))
    return AwaitedTerms(tuple(word.terms for word in words(query) if telling.intersection(word.terms)), every)


def _stands(word: tuple[str, ...], there: ChunkTerms) -> bool:
    return word[0] in there.terms or (len(word) > 1 and f" {' '.join(word[1:])} " in there.run)
