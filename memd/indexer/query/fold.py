"""Keeps the hits various: what says the same becomes one hit, and no file crowds out the rest."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Row

from memd.indexer.language.line_units import units_of
from memd.indexer.language.words import terms_of
from memd.indexer.query.candidate import Candidate

ALIKE = 0.9
"""The share of words that two chunks have in common when they say the same."""

FREE = 3
"""Hits of one file that stand where their score puts them."""

CROWDED = 0.02
"""What each further one gives up."""

LOOKED_AT = 3
"""How many candidates are looked at for each hit wanted."""


def fold(places: Sequence[Candidate], limit: int) -> list[tuple[Candidate, list[Row]]]:
    """The hits in their final order, each with the rows that say the same elsewhere in its workspace."""
    kept: list[tuple[Candidate, list[Row], frozenset[str]]] = []
    for candidate in _spread(places[: LOOKED_AT * limit]):
        terms = _terms(candidate.row)
        twin = next((other for other in kept if other[0].index is candidate.index and _alike(terms, other[2])), None)
        if twin is not None:
            twin[1].append(candidate.row)
        elif len(kept) < limit:
            kept.append((candidate, [], terms))
    return [(candidate, also) for candidate, also, _ in kept]


def _terms(row: Row) -> frozenset[str]:
    """The words of a chunk and of its headings: the same line under another one tells something else."""
    headings = (line for line in row["text"].split("\n") if line.startswith("#"))
    terms = {term for unit in units_of(row["text"]) for term in unit.counts}
    terms.update(terms_of(" ".join(headings))[0])
    # Of what has no words (an emoji, a rule of dashes) the text itself tells whether it is the same.
    return frozenset(terms or (row["text"],))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    few, many = sorted((len(one), len(other)))
    # Sets of too different sizes need no comparing, and most are.
    if few < ALIKE * many:
        return False
    both = len(one & other)
    return both >= ALIKE * (few + many - both)


def _spread(places: Sequence[Candidate]) -> list[Candidate]:
    """In order of score, where a file's later hits stand a little lower each; what nothing ranked stays as it is."""
    seen: dict[tuple[int, str], int] = {}
    # Scores that are sums of 1 / (60 + rank) are small, and a step for large ones would turn them around.
    step = CROWDED * min(1.0, max((candidate.score for candidate in places), default=0.0))
    for candidate in places:
        if not (candidate.ranks or candidate.weighed):
            continue
        file = candidate.index.id, candidate.row["path"]
        nth = seen[file] = seen.get(file, 0) + 1
        candidate.score -= max(0.0, step) * max(0, nth - FREE)
    return sorted(places, key=lambda candidate: -candidate.score)
