"""Keeps the hits various: what says the same becomes one hit, and no file crowds out the rest."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Row
from typing import TYPE_CHECKING

from memd.indexer.units import units_of

if TYPE_CHECKING:
    from memd.indexer.search import Place

ALIKE = 0.9
"""The share of words that two chunks have in common when they say the same."""

FREE = 3
"""Hits of one file that stand where their score puts them."""

CROWDED = 0.02
"""What each further one gives up."""

LOOKED_AT = 3
"""How many candidates are looked at for each hit wanted."""


def fold(places: Sequence[Place], limit: int) -> list[tuple[Place, list[Row]]]:
    """The hits in their final order, each with the rows that say the same elsewhere."""
    kept: list[tuple[Place, list[Row], frozenset[str]]] = []
    for place in _spread(places[: LOOKED_AT * limit]):
        terms = frozenset(term for unit in units_of(place.row["id"], place.row["text"]) for term in unit.counts)
        twin = next((other for other in kept if _alike(terms, other[2])), None)
        if twin is not None:
            twin[1].append(place.row)
        elif len(kept) < limit:
            kept.append((place, [], terms))
    return [(place, also) for place, also, _ in kept]


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    if not one or not ALIKE <= len(one) / (len(other) or 1) <= 1 / ALIKE:
        return one == other
    return len(one & other) >= ALIKE * len(one | other)


def _spread(places: Sequence[Place]) -> list[Place]:
    """In order of score, where a file's later hits stand a little lower each."""
    seen: dict[tuple[int, str], int] = {}
    for place in places:
        file = place.shelf.id, place.row["path"]
        nth = seen[file] = seen.get(file, 0) + 1
        place.score -= CROWDED * max(0, nth - FREE)
    return sorted(places, key=lambda place: -place.score)
