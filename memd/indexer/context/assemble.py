"""Assembles what an agent should know for a task: one search, one look at edges and lives, packed into a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from memd.indexer.context import render
from memd.indexer.context.inputs import ContextInputs, ContextTask
from memd.indexer.context.render import AssembledContext
from memd.indexer.language.question import parse
from memd.indexer.lifecycle import edges
from memd.indexer.query import certainty, lookup, ranking, search
from memd.indexer.query.candidates import Candidate
from memd.indexer.store.stores import Stores
from memd.lifecycle import composite, spreading
from memd.lifecycle.composite import MemoryStanding
from memd.lifecycle.edges import CONTAINS, Edge
from memd.lifecycle.packing import PackedContext
from memd.lifecycle.spreading import SpreadPool
from memd.models import Ask

DEEP = 30
"""Hits that are read line by line, as for any question."""

MOST_PLACES = 200
CORE = ("words", "lines", "line", "section", "meaning", "section_meaning")
"""The parts of a score that say how much a hit is about the question; their maximum is relevance 1."""

EXTRA = ("name", "label", "date", "timed", "told_date")
"""Parts that only some questions have: they add to it."""

VOICES = 2
"""A hit can have two ranks: by words and by meaning."""


def assemble(stores: Stores, task: ContextTask) -> AssembledContext:
    """The memories that matter for a task, as text to be pasted into a prompt."""
    indexes = [stores.index(ns) for ns in task.ask.ns]
    inputs = ContextInputs(stores, {index.id: index for index in indexes}, task)
    pinned = _pinned(inputs)
    found = _search(inputs)
    near = composite.about_the_task(found.relevance, found.verdict == "none")
    scores = composite.scores_of(_standings(inputs, near), task.ask.day)
    web = _neighbourhood(inputs, [*scores, *pinned])
    pool = _spread(inputs, scores, web)
    packer, estimated = render.packer(inputs, [*pool.scores, *pinned], web.against)
    bundle = packer.pinned(pinned, task.budget)
    at_first, overflowed = len(bundle.packed), bundle.overflowed
    spreading.suppress(pool, web.parents, bundle.memories)
    ranked, left_out = _ranked(inputs, pool, scores, bundle.memories)
    bundle.dropped = 0
    packer.fill(bundle, ranked, task.budget)
    why = _compaction(inputs, bundle, overflowed, web)
    explain = {
        "pinned": {"found": len(pinned), "packed": sum(one.phase == "pinned" for one in bundle.packed[:at_first])},
        "search": {"chunks": found.chunks, "memories": len(found.relevance), "far": len(found.relevance) - len(near),
                   "resting": len(near) - len(scores), "passed": len(scores)},
        "edges": {"followed": len(web.links), "expanded": pool.expanded, "boosted": pool.boosted,
                  "parents": pool.parents, "contradictions": pool.contradictions, "suppressed": pool.suppressed},
        "filters": left_out,
        "packing": {"packed": len(bundle.packed), "excerpted": sum(one.excerpt for one in bundle.packed),
                    "dropped": bundle.dropped},
        "compaction": why,
    }  # fmt: skip
    return render.context(inputs, bundle, {"verdict": found.verdict, "tokens_estimated": estimated,
                                    "compaction_suggested": bool(why), "explain": explain})  # fmt: skip


# --- what is found ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchRelevance:
    """The relevance of each memory that the search found."""

    relevance: dict[int, float]
    verdict: str
    chunks: int


def _pinned(inputs: ContextInputs) -> list[int]:
    """The pinned memories, most important first."""
    inputs.read_pinned()
    return sorted(inputs.rows, key=lambda memory: (-inputs.rows[memory]["importance"], *inputs.place(memory)))


def _search(inputs: ContextInputs) -> SearchRelevance:
    """Search as for any question; a memory is as relevant as its best chunk."""
    ask = replace(inputs.task.ask, limit=DEEP)
    question = parse(ask.query, ask.day, ask.filters)
    found = search.find(inputs.stores, list(inputs.indexes.values()), ask, question)
    places = found.candidates if question.has_words else found.candidates[:MOST_PLACES]
    best: dict[int, float] = {}
    for place, relevance in zip(places, relevances(places, ask), strict=True):
        memory = place.row["memory"]
        best[memory] = max(best.get(memory, 0.0), relevance)
    return SearchRelevance(best, certainty.verdict(bool(places), found.confidence), len(places))


def relevances(places: Sequence[Candidate], ask: Ask) -> list[float]:
    """How much each chunk is about the question, from 0 to 1, on one scale for all questions.

    The parts of its score that come from words and meaning, as a share of their maximum; `1 - (1 - share)²` of that,
    since a passage that has every word once earns about half. Recency, importance and tier do not count. With rank
    fusion, the ranks count instead.
    """
    return [_relevance(place.parts) if place.parts else _rank_relevance(place, ask) for place in places]


def _rank_relevance(place: Candidate, ask: Ask) -> float:
    return min(1.0, place.score * (ask.rrf_k + 1) / VOICES) if place.ranks else 1.0


def _relevance(parts: Mapping[str, float]) -> float:
    most = sum(ranking.WEIGHTS[name] for name in CORE if name in parts)
    total = sum(ranking.WEIGHTS[name] * parts[name] for name in (*CORE, *EXTRA) if name in parts)
    share = min(1.0, max(0.0, total / most)) if most else 0.0
    return 1 - (1 - share) ** 2


def _standings(inputs: ContextInputs, relevant: Mapping[int, float]) -> list[MemoryStanding]:
    inputs.read(relevant)
    return [inputs.standing(memory, relevance) for memory, relevance in relevant.items() if memory in inputs.rows]


# --- the edges around it ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EdgeNeighbourhood:
    """The edges around what was found."""

    links: list[Edge]
    against: dict[int, list[int]]
    parents: dict[int, set[int]]


def _neighbourhood(inputs: ContextInputs, memories: Sequence[int]) -> EdgeNeighbourhood:
    links = edges.of(inputs.connection, memories)
    inputs.read({end for link in links for end in (link.one, link.other)})
    summaries = [link.one for link in links if link.rel == CONTAINS]
    # The other memories of a summary may come in by another edge.
    more = edges.of(inputs.connection, summaries) if summaries else []
    return EdgeNeighbourhood(
        links, spreading.contradictions(links, inputs.rows.keys()), spreading.parents_of([*links, *more])
    )


def _spread(inputs: ContextInputs, seeds: Mapping[int, float], web: EdgeNeighbourhood) -> SpreadPool:
    awake = {memory for memory in inputs.rows if not inputs.standing(memory).resting}
    passing = _passing(inputs, awake - seeds.keys())
    pool = spreading.spread(seeds, web.links, passing)
    spreading.contradict(pool, web.against)
    spreading.lift_parents(pool, web.parents, awake)
    return pool


def _passing(inputs: ContextInputs, memories: AbstractSet[int]) -> AbstractSet[int]:
    """The memories that pass the filters of the task."""
    ask = inputs.task.ask
    filters = parse(ask.query, ask.day, ask.filters).filters
    if not filters or not memories:
        return memories
    chunks = [chunk for chunk, _ in lookup.siblings(inputs.connection, memories)]
    return {row["memory"] for row in lookup.join(inputs.connection, chunks, filters).values()}


def _ranked(
    inputs: ContextInputs, pool: SpreadPool, found: Mapping[int, float], shown: AbstractSet[int]
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    """What may be packed, best first, with how it was found; and how many are left out, by the reason."""
    task = inputs.task
    enough = {memory: score for memory, score in pool.scores.items() if score >= task.min_score}
    spread = max(enough.values(), default=0.0) - min(enough.values(), default=0.0)
    flat = len(enough) > 1 and spread < task.min_spread
    order = sorted(enough, key=lambda memory: (-enough[memory], *inputs.place(memory)))
    # The same text under another heading is not worth its tokens; what is shown already is left to the packer.
    first = {_body(inputs, memory): memory for memory in (*reversed(order), *shown)}
    new = [memory for memory in order if memory in shown or first[_body(inputs, memory)] == memory]
    left_out = {"min_score": len(pool.scores) - len(enough), "min_spread": len(enough) if flat else 0,
                "same": len(order) - len(new)}  # fmt: skip
    return [(memory, "search" if memory in found else "edge") for memory in new if not flat], left_out


def _body(inputs: ContextInputs, memory: int) -> tuple[int, str]:
    return inputs.rows[memory]["workspace"], inputs.rows[memory]["body"]


def _compaction(inputs: ContextInputs, bundle: PackedContext, overflowed: bool, web: EdgeNeighbourhood) -> str:
    """Why a summary would help; empty when it would not."""
    if overflowed:
        return "the pinned memories do not fit into a third of the budget"
    found = [one.memory for one in bundle.packed if one.phase in ("search", "edge")]
    crowd = spreading.crowd(found, web.links, web.parents)
    keys = ", ".join(inputs.keys[memory] for memory in crowd)
    return f"{len(crowd)} memories are much alike: {keys}" if crowd else ""
