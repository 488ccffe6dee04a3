"""Follows the edges of search results: adds their neighbours, contradictions and summaries. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memd.lifecycle.edges import BY_RULE, CONTAINS, CONTRADICTS, MERGED, REFINES, RELATED, Edge, components

PER_SEED = 5
"""Contradictions of one memory that are shown, the heaviest edges first."""

CONTRADICTION = 0.8
"""A contradiction is worth at least this share of what it contradicts."""

SLIGHTLY = 1e-6
"""By which share what replaces a memory stands above it."""

NOT_FOLLOWED = frozenset({CONTAINS, CONTRADICTS, MERGED})
"""Summaries and contradictions are handled separately; a merge only says where a text went."""

ALIKE_ORIGINS = frozenset({"similar", "declared"})
CROWD = 3
"""So many memories of one cluster need a summary."""


@dataclass(frozen=True, slots=True)
class EdgeExpansion:
    """How edges are followed."""

    edges: bool = True
    """Whether they are; contradictions and summaries come in anyway."""
    damping: float = 0.3
    """The share of a memory's score, times the edge's weight, that a neighbour gains."""
    edges_per_memory: int = PER_SEED
    """Edges that are followed from one memory, the heaviest first."""
    min_edge_weight: float = 0.1
    """A lighter edge is not followed."""
    max_from_edges: int = 50
    """The most memories that edges add."""
    max_boost: float = 0.5
    """The most that a search result gains from its edges, as a share of its own score."""


USUAL = EdgeExpansion()


@dataclass(slots=True)
class SpreadPool:
    """Everything that may be packed, with its score, and counts of how it got there."""

    scores: dict[int, float]
    expanded: int = 0
    boosted: int = 0
    parents: int = 0
    contradictions: int = 0
    suppressed: int = 0


def spread(
    seeds: Mapping[int, float], links: Sequence[Edge], may_enter: Collection[int], how: EdgeExpansion = USUAL
) -> SpreadPool:
    """The seeds with what their edges add; ordinary edges add only memories that `may_enter`."""
    pool = SpreadPool(dict(seeds))
    followed = [link for link in links if link.rel not in NOT_FOLLOWED and link.weight >= how.min_edge_weight]
    gains = _gains(seeds, _neighbours(followed), how) if how.edges else {}
    for memory, gain in sorted(gains.items(), key=lambda entry: (-entry[1], entry[0])):
        if memory in seeds:
            pool.scores[memory] += min(gain, how.max_boost * seeds[memory])
            pool.boosted += 1
        elif memory in may_enter and pool.expanded < how.max_from_edges:
            pool.scores[memory] = gain
            pool.expanded += 1
    return pool


def lift_newer(pool: SpreadPool, links: Iterable[Edge], may_enter: Collection[int]) -> None:
    """What replaces a memory of the pool comes in with it, and before it."""
    for link in links:
        if link.rel == REFINES and link.other in pool.scores and link.one in may_enter:
            above = pool.scores[link.other] * (1 + SLIGHTLY)
            pool.scores[link.one] = max(above, pool.scores.get(link.one, 0.0))


def _neighbours(links: Iterable[Edge]) -> dict[int, dict[int, float]]:
    """The neighbours of each memory with the heaviest weight between them; an edge counts from both of its ends."""
    neighbours: dict[int, dict[int, float]] = {}
    for link in links:
        for here, there in ((link.one, link.other), (link.other, link.one)):
            weights = neighbours.setdefault(here, {})
            weights[there] = max(link.weight, weights.get(there, 0.0))
    return neighbours


def _heaviest(weights: Mapping[int, float], most: int = PER_SEED) -> list[tuple[int, float]]:
    return sorted(weights.items(), key=lambda entry: (-entry[1], entry[0]))[:most]


def _gains(
    seeds: Mapping[int, float], neighbours: Mapping[int, Mapping[int, float]], how: EdgeExpansion
) -> dict[int, float]:
    """What each memory gains from the seeds next to it."""
    gains: dict[int, float] = {}
    for seed, score in seeds.items():
        for memory, weight in _heaviest(neighbours.get(seed, {}), how.edges_per_memory):
            gains[memory] = gains.get(memory, 0.0) + score * weight * how.damping
    return gains


# --- contradictions -----------------------------------------------------------------------------------------


def contradictions(links: Iterable[Edge], known: Collection[int]) -> dict[int, list[int]]:
    """The memories that contradict each one, the heaviest edges first and no more than are followed of others."""
    neighbours = _neighbours(link for link in links if link.rel == CONTRADICTS and link.one != link.other)
    return {
        here: [there for there, _ in heaviest]
        for here, weights in neighbours.items()
        if (heaviest := _heaviest({there: weight for there, weight in weights.items() if there in known}))
    }


def contradict(pool: SpreadPool, against: Mapping[int, Sequence[int]]) -> None:
    """Add what contradicts a memory of the pool, with at least its share of that memory's score."""
    before = dict(pool.scores)
    for memory in sorted(before):
        for other in against.get(memory, ()):
            pool.contradictions += other not in pool.scores
            pool.scores[other] = max(pool.scores.get(other, 0.0), CONTRADICTION * before[memory])


# --- summaries ----------------------------------------------------------------------------------------------


def parents_of(links: Iterable[Edge]) -> dict[int, set[int]]:
    """The memories that make each one redundant: summaries that contain it, a later note that refines it, one that
    says the same."""
    parents: dict[int, set[int]] = {}
    for link in links:
        refined = link.rel == REFINES and link.origin == BY_RULE
        if (link.rel == CONTAINS or refined) and link.one != link.other:
            parents.setdefault(link.other, set()).add(link.one)
        elif link.rel == MERGED:
            parents.setdefault(link.one, set()).add(link.other)
    return parents


def lift_parents(pool: SpreadPool, parents: Mapping[int, set[int]], may_enter: Collection[int]) -> None:
    """Give a summary at least the score of what it sums up: the words of the task may be only in that."""
    waiting, lifted = sorted(pool.scores), set[int]()
    while waiting:
        child = waiting.pop()
        for parent in sorted(parents.get(child, ())):
            if parent not in may_enter or pool.scores.get(parent, -1.0) >= pool.scores[child]:
                continue
            pool.scores[parent] = pool.scores[child]
            waiting.append(parent)
            lifted.add(parent)
    pool.parents = len(lifted)


def suppress(pool: SpreadPool, parents: Mapping[int, set[int]], shown: Collection[int] = ()) -> None:
    """Remove what a summary contains that is in the pool or already `shown`.

    Of summaries that contain each other the best one stays.
    """
    there = pool.scores.keys() | set(shown)
    children: dict[int, list[int]] = {}
    for child in pool.scores:
        for parent in parents.get(child, set()) & there:
            children.setdefault(parent, []).append(child)
    contained = {child for held in children.values() for child in held}
    kept: set[int] = set()
    gone: set[int] = {child for memory in shown for child in _below(memory, children)}
    for memory in sorted(pool.scores, key=lambda memory: (memory in contained, -pool.scores[memory], memory)):
        if memory not in gone:
            kept.add(memory)
            gone |= _below(memory, children) - kept
    pool.scores = {memory: score for memory, score in pool.scores.items() if memory not in gone}
    pool.suppressed = len(gone)


def _below(memory: int, children: Mapping[int, list[int]]) -> set[int]:
    below: set[int] = set()
    waiting = [memory]
    while waiting:
        fresh = [child for child in children.get(waiting.pop(), ()) if child not in below]
        below.update(fresh)
        waiting += fresh
    return below


# --- clusters -----------------------------------------------------------------------------------------------


def crowd(packed: Collection[int], links: Iterable[Edge], parents: Mapping[int, set[int]]) -> tuple[int, ...]:
    """The largest group of similar packed memories that no summary contains."""
    summaries = {parent for held in parents.values() for parent in held}
    loose = {memory for memory in packed if memory not in parents and memory not in summaries}
    pairs = [(link.one, link.other) for link in links if link.rel == RELATED and link.origin in ALIKE_ORIGINS]
    groups = components([(one, other) for one, other in pairs if one in loose and other in loose], CROWD)
    return groups[0] if groups else ()
