"""Scores memories for a task by relevance, recency, importance and use, and adds what their edges lead to. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from memd.config.schema import ContextSettings
from memd.lifecycle.lives import BASE, BY_RULE, CONTAINS, CONTRADICTS, MERGED, REFINES, RELATED, Edge, components
from memd.models import Kind, Tier, grouped

BY_KIND: dict[Kind, dict[str, float]] = {
    # What is known: whether it fits, and how much it matters.
    "semantic": {"relevance": 0.45, "recency": 0.10, "importance": 0.30, "use": 0.15},
    # What happened: how long ago.
    "episodic": {"relevance": 0.30, "recency": 0.40, "importance": 0.15, "use": 0.15},
    # How something is done: what was done so often before.
    "procedural": {"relevance": 0.35, "recency": 0.05, "importance": 0.15, "use": 0.45},
}
"""The weight of each factor; those of a kind add up to 1."""
BY_TIER: dict[Tier, float] = {"ltm": 1.0, "stm": 0.8, "dormant": 0.15, "sensory": 0.1}
RESTING: frozenset[Tier] = frozenset({"dormant", "sensory"})

HALF = 30.0
"""Days after which recency is halved."""

UNDATED = 0.5
"""A note without a date, and MEMORY.md, which never ages, are neither new nor old."""

MOST_USED = 50
"""Accesses beyond this add nothing: the number at which `promote-to-ltm` promotes."""

BY_FAR = 1.5
"""A resting memory this many times as relevant as any awake one is the answer, and is weighted as short-term."""

AS_MUCH = 0.8
"""A lasting fact that was only not asked for is left out beside the point, not where it is the point: with this
share of the relevance of the best awake memory it is weighted as short-term, too."""

NEAR = 0.65
"""A memory below this share of the best match's relevance is not about the task. With 0.4, new and much used notes
crowd out the answer: of single questions 20 % had their answer in the context, with 0.65 all of them do."""

DROP = 0.2
"""Where relevance falls by so much of the best match's from one memory to the next, the context ends."""

SHARP = 2
"""The power of that share by which relevance is scaled: half as relevant as the best counts an eighth."""

FAINT = 0.18
"""The least relevance of a memory about the task: any two notes have less than this in common."""

DOUBTFUL = 0.33
"""The same if the search itself doubts that anything answers."""


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory as the score sees it."""

    memory: int
    relevance: float
    """From 0 to 1."""
    kind: Kind
    tier: Tier
    importance: float
    accesses: int
    day: date | None
    """The note's own; None if it has none or never ages."""
    pinned: bool = False
    base: float = BASE
    """Its importance before it faded."""

    @property
    def resting(self) -> bool:
        """Dormant, or a raw capture; pinned memories never rest."""
        return self.tier in RESTING and not self.pinned

    @property
    def lasting(self) -> bool:
        """Whether it is a fact rather than an event; a raw capture is none yet."""
        return self.kind == "semantic" and self.tier == "dormant"


def recency(day: date | None, today: date) -> float:
    """1 today, half of it every month."""
    return float(0.5 ** (max(0, (today - day).days) / HALF)) if day is not None else UNDATED


def use(accesses: int) -> float:
    """0 for none, 1 for fifty and more; the first few count most."""
    return min(1.0, math.log1p(max(0, accesses)) / math.log1p(MOST_USED))


def score(one: MemoryStanding, today: date, as_tier: Tier | None = None, best: float = 0.0) -> float:
    """The score of a memory; `as_tier` weights it as if in another tier, `best` is the relevance of the best match."""
    relevance = one.relevance * (one.relevance / best) ** SHARP if best else one.relevance
    # What is as much about the task as anything is not held back by having faded.
    beside = 1 - one.relevance / best if best else 1.0
    importance = max(one.importance, one.base - (one.base - one.importance) * beside)
    factors = {"relevance": relevance, "recency": recency(one.day, today), "importance": importance,
               "use": use(one.accesses)}  # fmt: skip
    tier: Tier = as_tier or ("ltm" if one.pinned else one.tier)
    return BY_TIER[tier] * sum(weight * factors[name] for name, weight in BY_KIND[one.kind].items())


def about_the_task(relevance: Mapping[int, float], doubtful: bool = False) -> dict[int, float]:
    """The search results that are relevant enough to be about the task, up to where relevance drops."""
    ordered = sorted(relevance.values(), reverse=True)
    best = ordered[0] if ordered else 0.0
    drops = (above for above, below in pairwise(ordered) if above - below > DROP * best)
    enough = max(DOUBTFUL if doubtful else FAINT, NEAR * best, next(drops, 0.0))
    return {memory: value for memory, value in relevance.items() if value >= enough}


def scores_of(standings: Sequence[MemoryStanding], today: date, all_tiers: bool = False) -> dict[int, float]:
    """The score of each search result; resting memories are left out, unless they answer best or `all_tiers` are asked.

    Fading never hides the only answer: a resting memory that is more relevant than every awake one stays, with the low
    weight of its tier; one that is so by far, or known for good and nearly as relevant, is weighted as short-term.
    """
    awake = max((one.relevance for one in standings if not one.resting), default=0.0)
    best = max((one.relevance for one in standings), default=0.0)
    scores = {}
    for one in standings:
        answers = one.resting and one.relevance >= (AS_MUCH if one.lasting else BY_FAR) * awake
        if not one.resting or answers or all_tiers or one.relevance > awake:
            scores[one.memory] = score(one, today, "stm" if answers else None, best)
    return scores


# --- what their edges add -----------------------------------------------------------------------------------


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


USUAL = ContextSettings()


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
    seeds: Mapping[int, float], links: Sequence[Edge], may_enter: Collection[int], how: ContextSettings = USUAL
) -> SpreadPool:
    """The seeds with what their edges add; ordinary edges add only memories that `may_enter`.

    Without `how.edges` contradictions and summaries come in anyway.
    """
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
    """A memory that replaces one of the pool comes in with it, and before it."""
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
    seeds: Mapping[int, float], neighbours: Mapping[int, Mapping[int, float]], how: ContextSettings
) -> dict[int, float]:
    """The gain of each memory from the seeds next to it."""
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
    children = grouped((parent, child) for child in pool.scores for parent in parents.get(child, set()) & there)
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
