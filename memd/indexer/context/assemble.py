"""Assembles what an agent should know for a task: one search, one look at edges and lives, packed into a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from sqlite3 import Connection, Row

from memd.config.schema import ContextSettings
from memd.indexer.language.question import ParsedQuestion, parse
from memd.indexer.language.words import only_terms, query_terms
from memd.indexer.lifecycle import edges
from memd.indexer.query import candidates, certainty, lookup, search, signals
from memd.indexer.record import history
from memd.indexer.store.postings import SizedCache
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle import packing, spreading
from memd.lifecycle.lives import BY_RULE, CONTAINS, REFINES, Edge, base_importance
from memd.models import Ask, JsonObject, grouped, pick
from memd.notes.sections import QUOTE_LEVEL, quoted
from memd.prose import estimate_tokens, flat_line

DEEP = 30
"""Hits that are read line by line, as for any question."""

MOST_PLACES = 200
FAINT = 0.24
"""A neighbour with less than this share of the best score would only fill the budget."""

VOICES = 2
"""A hit can have two ranks: by words and by meaning."""


def assemble(stores: Stores, task: ContextTask) -> AssembledContext:
    """The memories that matter for a task, as text to be pasted into a prompt."""
    indexes = [stores.index(ns) for ns in task.ask.ns]
    question = parse(task.ask.query, task.ask.day, task.ask.filters)
    inputs = ContextInputs(stores, {index.id: index for index in indexes}, task, question)
    pinned = inputs.read_pinned()
    found = _search(inputs)
    inputs.read(found.near)
    standings = [inputs.standing(memory, near) for memory, near in found.near.items() if memory in inputs.rows]
    scores = spreading.scores_of(standings, task.ask.day, task.ask.all_tiers)
    web = _neighbourhood(inputs, [*scores, *pinned], found.near)
    pool = _spread(inputs, scores, web)
    packer, estimated = packer_for(inputs, [*pool.scores, *pinned], web.against)
    bundle = packer.pinned(pinned, task.budget)
    at_first, overflowed = len(bundle.packed), bundle.overflowed
    spreading.suppress(pool, web.parents, bundle.memories)
    ranked, left_out = _ranked(inputs, pool, scores, bundle.memories)
    bundle.dropped = 0
    packer.fill(bundle, ranked, task.budget)
    why = _compaction(inputs, bundle, overflowed, web)
    pins, about = bundle.packed[:at_first], bundle.packed[at_first:]
    explain = {
        "pinned": {"found": len(pinned), "packed": sum(one.phase == "pinned" for one in pins)},
        "search": {"chunks": found.chunks, "memories": len(found.relevance),
                   "far": len(found.relevance) - len(found.near), "resting": len(found.near) - len(scores),
                   "passed": len(scores)},
        "edges": {"followed": len(web.links), "expanded": pool.expanded, "boosted": pool.boosted,
                  "parents": pool.parents, "contradictions": pool.contradictions, "suppressed": pool.suppressed},
        "filters": left_out,
        "packing": {"packed": len(bundle.packed), "excerpted": sum(one.excerpt for one in bundle.packed),
                    "dropped": bundle.dropped},
        "compaction": why,
    }  # fmt: skip
    # What the task is about comes first; what always holds follows.
    bundle.packed = [*about, *pins]
    text = "".join(one.text for one in bundle.packed).rstrip("\n")
    memories = [_memory(inputs, one) for one in bundle.packed]
    result = {"text": f"{text}\n" if text else "", "memories": memories, "tokens": bundle.tokens,
              "budget": task.budget, "verdict": certainty.verdict(bool(found.relevance), found.confidence),
              "tokens_estimated": estimated, "compaction_suggested": bool(why), "explain": explain}  # fmt: skip
    return AssembledContext(result, tuple(one.memory for one in bundle.packed), found.unheard)


# --- what is found ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchRelevance:
    """The relevance of each memory that the search found, and of those that are about the task."""

    relevance: dict[int, float]
    near: dict[int, float]
    confidence: float
    chunks: int
    unheard: str = ""
    """Why the question went without its meaning."""


def _search(inputs: ContextInputs) -> SearchRelevance:
    """Search as for any question; while vectors are being made, by words alone too: meaning takes nothing away."""
    ask = replace(inputs.task.ask, limit=DEEP)
    found = _searched(inputs, ask)
    if ask.mode != "hybrid" or not any(map(inputs.stores.is_partly_embedded, inputs.indexes.values())):
        return found
    words = _searched(inputs, replace(ask, mode="text"))
    either = {**words.relevance, **found.relevance}, {**words.near, **found.near}
    return SearchRelevance(*either, max(words.confidence, found.confidence), found.chunks, found.unheard)


def _searched(inputs: ContextInputs, ask: Ask) -> SearchRelevance:
    """The result of one search; a memory is as relevant as its best chunk."""
    found = search.find(inputs.stores, list(inputs.indexes.values()), ask, inputs.question)
    places = found.candidates if inputs.question.has_words else found.candidates[:MOST_PLACES]
    by_memory = grouped((one.place.memory, _relevance(one, ask)) for one in places)
    best = {memory: max(0.0, *relevances) for memory, relevances in by_memory.items()}
    doubtful = certainty.verdict(bool(places), found.confidence) == "none"
    near = spreading.about_the_task(best, doubtful)
    return SearchRelevance(best, near, found.confidence, len(places), found.unheard)


def _relevance(place: candidates.Candidate, ask: Ask) -> float:
    """How much a chunk is about the question, from 0 to 1; with rank fusion, the ranks count."""
    if place.parts:
        return signals.relevance(place.parts)
    return min(1.0, place.score * (ask.rrf_k + 1) / VOICES) if place.ranks else 1.0


# --- the edges around it ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EdgeNeighbourhood:
    """The edges around what was found."""

    links: list[Edge]
    against: dict[int, list[int]]
    parents: dict[int, set[int]]


def _neighbourhood(inputs: ContextInputs, memories: Sequence[int], near: Collection[int]) -> EdgeNeighbourhood:
    """The edges of some memories; what a rule took for the renewal of one counts only if it is about the task, too.

    Notes of one heading that come every week say nearly the same, each about something else.
    """

    def followed(link: Edge) -> bool:
        return link.rel != REFINES or link.origin != BY_RULE or link.one in near

    links = [link for link in edges.of(inputs.connection, memories) if followed(link)]
    inputs.read({end for link in links for end in (link.one, link.other)})
    summaries = [link.one for link in links if link.rel == CONTAINS]
    # The other memories of a summary may come in by another edge.
    more = filter(followed, edges.of(inputs.connection, summaries)) if summaries else ()
    against = spreading.contradictions(links, inputs.rows.keys())
    return EdgeNeighbourhood(links, against, spreading.parents_of([*links, *more]))


def _spread(inputs: ContextInputs, seeds: Mapping[int, float], web: EdgeNeighbourhood) -> spreading.SpreadPool:
    awake = {memory for memory in inputs.rows if inputs.task.ask.all_tiers or not inputs.standing(memory).resting}
    passing = _passing(inputs, awake - seeds.keys())
    pool = spreading.spread(seeds, web.links, passing, inputs.task.expansion)
    spreading.contradict(pool, web.against)
    spreading.lift_parents(pool, web.parents, awake)
    spreading.lift_newer(pool, web.links, awake)
    return pool


def _passing(inputs: ContextInputs, memories: AbstractSet[int]) -> AbstractSet[int]:
    """The memories that pass the filters of the task."""
    filters = inputs.question.filters
    if not filters or not memories:
        return memories
    chunks = [chunk for _, _, chunk in lookup.siblings(inputs.connection, memories)]
    return {row["memory"] for row in lookup.join(inputs.connection, chunks, filters).values()}


def _ranked(
    inputs: ContextInputs, pool: spreading.SpreadPool, found: Mapping[int, float], shown: AbstractSet[int]
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    """The memories to pack, best first, with how each was found; and how many are left out, by the reason."""
    task = inputs.task
    least, faint = task.min_score, FAINT * max(found.values(), default=0.0)
    scores = pool.scores.items()
    enough = {one: score for one, score in scores if score >= least and (one in found or score >= faint)}
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


def _compaction(inputs: ContextInputs, bundle: packing.PackedContext, overflowed: bool, web: EdgeNeighbourhood) -> str:
    """Why a summary would help; empty when it would not."""
    if overflowed:
        return "the pinned memories do not fit into a quarter of the budget"
    found = [one.memory for one in bundle.packed if one.phase in ("search", "edge")]
    crowd = spreading.crowd(found, web.links, web.parents)
    keys = ", ".join(inputs.keys[memory] for memory in crowd)
    return f"{len(crowd)} memories are much alike: {keys}" if crowd else ""


# --- what a task looks at -------------------------------------------------------------------------------------


COLUMNS = (
    "m.heading, m.start_line, m.end_line, m.digest, m.body, m.kind, m.tier, m.role, m.date,"
    f" m.declared, m.importance, m.accesses, {lookup.IS_PINNED} AS pinned"
)


@dataclass(frozen=True, slots=True)
class ContextTask:
    """A task, and how many tokens its context may have."""

    ask: Ask
    budget: int
    min_score: float = 0.0
    min_spread: float = 0.0
    memory_tokens: int = packing.MOST_TOKENS
    """The most tokens of one memory."""
    expansion: ContextSettings = spreading.USUAL


@dataclass(slots=True)
class ContextInputs:
    """The memories that a task looks at."""

    stores: Stores
    indexes: dict[int, WorkspaceIndex]
    task: ContextTask
    question: ParsedQuestion
    rows: dict[int, Row] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    authors: dict[int, JsonObject] = field(default_factory=dict)
    """The `written_by` of the memories that may be shown, where others than a person wrote some of it."""

    @property
    def connection(self) -> Connection:
        return self.stores.reader

    def read(self, memories: Iterable[int]) -> None:
        """Read memories that are not known yet, without those that are gone or have expired."""
        new = json.dumps([memory for memory in memories if memory not in self.rows])
        self._select("m.id IN (SELECT value FROM json_each(?))", new)

    def read_pinned(self) -> list[int]:
        """The pinned memories, most important first; nothing else has been read before."""
        for workspace in self.indexes:
            self._select(f"m.workspace = ? AND {lookup.IS_PINNED}", workspace)
        return sorted(self.rows, key=lambda memory: (-self.rows[memory]["importance"], *self.place(memory)))

    def _select(self, clause: str, value: object) -> None:
        for key, row in lookup.keyed_rows(self.connection, COLUMNS, f"{clause} AND {lookup.ALIVE}", (value,)):
            self.rows[row["id"]], self.keys[row["id"]] = row, key

    def ns(self, memory: int) -> str:
        return self.indexes[self.rows[memory]["workspace"]].workspace.ns

    def place(self, memory: int) -> tuple[str, int, int]:
        """Where it stands: the order of memories with equal scores."""
        row = self.rows[memory]
        return row["path"], row["start_line"], memory

    def standing(self, memory: int, relevance: float = 0.0) -> spreading.MemoryStanding:
        row = self.rows[memory]
        base = base_importance(json.loads(row["declared"]).get("importance"))
        return spreading.MemoryStanding(
            memory, relevance, row["kind"], row["tier"], row["importance"], row["accesses"], lookup.own_day(row),
            bool(row["pinned"]), base,
        )  # fmt: skip


# --- how memories are shown in a prompt: under their titles, with where they stand ----------------------------


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """The result for the wire, and the numbers of the memories in it."""

    result: JsonObject
    memories: tuple[int, ...] = ()
    unheard: str = ""
    """Why it goes without the meaning of the task; empty where it does not."""


def packer_for(
    inputs: ContextInputs, memories: Sequence[int], against: Mapping[int, Sequence[int]]
) -> tuple[packing.Packer, bool]:
    """A packer for these memories, and whether its tokens are only estimated."""
    count, estimated = token_counter(inputs.stores)
    terms = set(query_terms(inputs.task.ask.query))
    numbers = list({*memories, *(other for memory in memories for other in against.get(memory, ()))})
    authors = history.with_authors(inputs.connection, [(number, {}) for number in numbers])
    inputs.authors = dict(zip(numbers, authors, strict=True))

    def body(memory: int) -> str:
        text = quoted(lookup.text_of(inputs.connection, memory, inputs.rows[memory]["digest"]))
        return f"{text}\n\n" if text else "\n"

    beginnings = [term[: max(3, len(term) - 2)] for term in terms]

    def worth(piece: str) -> float:
        # Most lines of a long memory have no word of the task, and that is quickly seen.
        lowered = piece.lower()
        if piece.isascii() and not any(beginning in lowered for beginning in beginnings):
            return 0.0
        return float(len(terms & _terms(piece)))

    return packing.Packer(partial(_head, inputs), body, count, worth, against, inputs.task.memory_tokens), estimated


@lru_cache(maxsize=5_000)
def _terms(piece: str) -> frozenset[str]:
    """Cached: every task looks at the same pinned lines."""
    return frozenset(only_terms(piece))


def _head(inputs: ContextInputs, memory: int, beside: int | None) -> str:
    row = inputs.rows[memory]
    lines = f"{row['start_line']}-{row['end_line']}" if row["end_line"] > row["start_line"] else row["start_line"]
    place = f"{inputs.ns(memory)}:{row['path']}" if len(inputs.indexes) > 1 else row["path"]
    parts = [f"{place}:{lines}", row["date"], inputs.keys[memory]]
    if row["pinned"]:
        parts.append("pinned")
    if beside is not None:
        parts.append(f"contradicts {inputs.keys[beside]}")
    if authors := inputs.authors[memory].get("written_by"):
        parts.append(f"written by {', '.join(authors)}")
    about = flat_line(" · ".join(filter(None, parts)))
    return f"{'#' * QUOTE_LEVEL} {flat_line(row['heading'])}\n{about}\n\n"


def _memory(inputs: ContextInputs, one: packing.PackedMemory) -> JsonObject:
    row = inputs.rows[one.memory]
    columns = pick(row, "path", "start_line", "end_line", "date", "tier", "kind")
    memory = {"ns": inputs.ns(one.memory), "key": inputs.keys[one.memory], **columns, "phase": one.phase,
              "excerpt": one.excerpt, "tokens": one.tokens, **inputs.authors[one.memory]}  # fmt: skip
    return memory | ({"contradicts": inputs.keys[one.against]} if one.against is not None else {})


# --- tokens -------------------------------------------------------------------------------------------------

MOST_CACHED, EACH = 1_000_000, 100
"""Tokens of the texts whose counts are cached, and how many more each text counts for."""

FOLLOWING = "."
"""Counted behind every text and subtracted again, so that the counts of pieces add up.

A whole text has marks around it that belong to no piece, and line ends at its very end are fewer tokens than inside.
"""


_counts: SizedCache[tuple[str, str], int] = SizedCache(MOST_CACHED, lambda tokens: tokens + EACH)
"""Token counts by model and text: the same notes are packed for task after task."""


def token_counter(stores: Stores) -> tuple[Callable[[str], int], bool]:
    """The function that counts tokens with the model's tokenizer, and whether it only estimates."""
    model = stores.serving
    if model is None:
        return estimate_tokens, True
    embedder = model.embedder
    end = embedder.count_tokens(FOLLOWING)

    def count(text: str) -> int:
        return _counts.get((embedder.fingerprint, text), lambda: embedder.count_tokens(text + FOLLOWING) - end)

    return count, False
