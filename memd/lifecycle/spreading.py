"""Follows the edges of what a search found: neighbours come in, contradictions and summaries with them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memd.lifecycle.clusters import components
from memd.lifecycle.edges import BY_RULE, CONTAINS, REFINES, RELATED, Edge

DAMPING = 0.3
"""What is left of a memory's score, times the edge's weight, when it is handed on."""

PER_SEED = 5
"""Edges that are followed from one memory, the heaviest first."""

MIN_WEIGHT = 0.1
"""A lighter edge is not followed."""

IN_ALL = 50
"""Memories that edges bring in, at most."""

MAX_BOOST = 0.5
"""What a memory that was found anyway can gain by its edges, as a share of its own score."""

CONTRADICTION = 0.8
"""A contradiction is worth at least this share of what it contradicts."""

AGAINST = "contradicts"
NOT_FOLLOWED = frozenset({CONTAINS, AGAINST, "merged_into"})
"""Summaries and contradictions have rules of their own; a merge only says where a text went."""

ALIKE_ORIGINS = frozenset({"similar", "declared"})
CROWD = 3
"""So many memories of one cluster ask for a summary."""


@dataclass(slots=True)
class SpreadPool:
    """Everything that may be packed, with its score, and how it came to be there."""

    scores: dict[int, float]
    expanded: int = 0
    boosted: int = 0
    parents: int = 0
    contradictions: int = 0
    suppressed: int = 0


def spread(seeds: Mapping[int, float], links: Sequence[Edge], may_enter: Collection[int]) -> SpreadPool:
    """The seeds with what their edges bring; only what `may_enter` comes in by an ordinary edge."""
    pool = SpreadPool(dict(seeds))
    ordinary = [link for link in links if link.rel not in NOT_FOLLOWED and link.weight >= MIN_WEIGHT]
    handed = _handed(seeds, _around(ordinary))
    for memory, extra in sorted(handed.items(), key=lambda entry: (-entry[1], entry[0])):
        if memory in seeds:
            pool.scores[memory] += min(extra, MAX_BOOST * seeds[memory])
            pool.boosted += 1
        elif memory in may_enter and pool.expanded < IN_ALL:
            pool.scores[memory] = extra
            pool.expanded += 1
    return pool


def _around(links: Iterable[Edge]) -> dict[int, list[tuple[float, int]]]:
    """The neighbours of each memory, by weight; an edge is followed from both of its ends."""
    found: dict[int, dict[int, float]] = {}
    for link in links:
        for here, there in ((link.one, link.other), (link.other, link.one)):
            known = found.setdefault(here, {})
            known[there] = max(link.weight, known.get(there, 0.0))
    return {here: [(weight, there) for there, weight in near.items()] for here, near in found.items()}


def _handed(seeds: Mapping[int, float], around: Mapping[int, list[tuple[float, int]]]) -> dict[int, float]:
    """What each memory is handed by the seeds next to it."""
    handed: dict[int, float] = {}
    for seed, score in seeds.items():
        heaviest = sorted(around.get(seed, ()), key=lambda near: (-near[0], near[1]))[:PER_SEED]
        for weight, memory in heaviest:
            handed[memory] = handed.get(memory, 0.0) + score * weight * DAMPING
    return handed


# --- contradictions -----------------------------------------------------------------------------------------


def contradictions(links: Iterable[Edge], known: Collection[int]) -> dict[int, list[int]]:
    """Which memories contradict each one, the weightiest first and no more than are followed of other edges."""
    found: dict[int, dict[int, float]] = {}
    for link in links:
        if link.rel != AGAINST or link.one == link.other:
            continue
        for here, there in ((link.one, link.other), (link.other, link.one)):
            if there in known:
                found.setdefault(here, {})[there] = max(link.weight, found.get(here, {}).get(there, 0.0))
    return {
        here: [there for there, _ in sorted(near.items(), key=lambda entry: (-entry[1], entry[0]))][:PER_SEED]
        for here, near in found.items()
    }


def contradict(pool: SpreadPool, against: Mapping[int, Sequence[int]]) -> None:
    """Bring in what contradicts a memory of the pool, at no less than its share of that memory's score."""
    before = dict(pool.scores)
    for memory in sorted(before):
        for other in against.get(memory, ()):
            pool.contradictions += other not in pool.scores
            pool.scores[other] = max(pool.scores.get(other, 0.0), CONTRADICTION * before[memory])


# --- summaries ----------------------------------------------------------------------------------------------


def parents_of(links: Iterable[Edge]) -> dict[int, set[int]]:
    """What each memory need not be shown beside: the summaries that contain it, the later note that renews it."""
    found: dict[int, set[int]] = {}
    for link in links:
        renewed = link.rel == REFINES and link.origin == BY_RULE
        if (link.rel == CONTAINS or renewed) and link.one != link.other:
            found.setdefault(link.other, set()).add(link.one)
    return found


def lift_parents(pool: SpreadPool, parents: Mapping[int, set[int]], may_enter: Collection[int]) -> None:
    """A summary is worth at least as much as what it sums up, also when the task's words are only in that."""
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
    """Take out what a summary contains that is in the pool or `shown` already.

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
    found: set[int] = set()
    waiting = [memory]
    while waiting:
        fresh = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(fresh)
        waiting += fresh
    return found


# --- clusters -----------------------------------------------------------------------------------------------


def crowd(packed: Collection[int], links: Iterable[Edge], parents: Mapping[int, set[int]]) -> tuple[int, ...]:
    """The largest group of packed memories that hang together by likeness and that nobody has summed up."""
    summaries = {parent for held in parents.values() for parent in held}
    loose = {memory for memory in packed if memory not in parents and memory not in summaries}
    pairs = [(link.one, link.other) for link in links if link.rel == RELATED and link.origin in ALIKE_ORIGINS]
    groups = components([(one, other) for one, other in pairs if one in loose and other in loose], CROWD)
    return groups[0] if groups else ()
