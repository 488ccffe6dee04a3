"""Makes hits of ranked candidates: one hit of what says the same, no file crowds out the rest, and why each came up."""

import json
from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import Any

import numpy as np

from memd.indexer.language.words import query_terms, words
from memd.indexer.query import certainty, lookup, signals
from memd.indexer.query.candidates import Candidate
from memd.indexer.record import history
from memd.indexer.store.columns import ChunkPlace
from memd.indexer.store.stores import Stores
from memd.models import TEAM, Answer, Ask, Filters, Hit, JsonObject, Workspace, pick

ALIKE = 0.9
"""The share of words that two chunks have in common when they say the same."""

FREE = 3
"""Hits of one file that keep their score."""

CROWDED = 0.02
"""The share that each further hit of the file loses."""

NEARLY = 0.5
"""The least share of the best score where the newest come first."""

LOOKED_AT = 3
"""How many candidates are looked at for each hit asked for."""

Folded = tuple[Candidate, list[ChunkPlace]]
"""A candidate, and the chunks that say the same."""

TINY = 1e-9
"""A smaller difference is rounding, not what a hit lost because its file has many."""


def answer(stores: Stores, ask: Ask, candidates: Sequence[Candidate], confidence: float) -> Answer:
    """The hits, how sure they are, and what comes near without being an answer."""
    alone = ask.mode == "exact"
    folded = [(candidate, []) for candidate in candidates[: ask.limit]] if alone else fold(candidates, ask.limit)
    chunks = {place.chunk for candidate, also in folded for place in (candidate.place, *also)}
    known = lookup.join(stores.reader, chunks, Filters())
    # What is gone by now is not shown, whatever the columns say.
    folded = [one for one in folded if one[0].place.chunk in known]
    rows = [known[candidate.place.chunk] for candidate, _ in folded]
    keys = lookup.keys_of(stores.reader, rows)
    authors = history.with_authors(stores.reader, [(row["memory"], {}) for row in rows])
    # As typed: the words of operators are marked too.
    terms = frozenset(query_terms(ask.query)) if ask.marks else frozenset()
    alike = [[known[place.chunk] for place in also if place.chunk in known] for _, also in folded]
    shown = zip(folded, rows, alike, keys, authors, strict=True)
    hits = [_hit(one, row, also, ask, terms, key=key, **by) for (one, _), row, also, key, by in shown]
    confidence = confidence if hits else 0.0
    end = end_of(folded, confidence)
    return Answer(hits[:end], certainty.verdict(bool(hits), confidence), confidence, len(candidates), near=hits[end:])


def end_of(folded: Sequence[Folded], confidence: float) -> int:
    """How many of these are an answer: what only ranks or filters chose is one, and so is the best unless none is.

    What has the question's very words is one, however far its meaning.
    """
    if certainty.verdict(bool(folded), confidence) == "none":
        return 0
    weighed = [relevance(candidate) for candidate, _ in folded]
    least = least_relevance(max(weighed, default=0.0))
    written = [bool(candidate.parts.get("written")) for candidate, _ in folded]
    return max((nth for nth, weight in enumerate(weighed, 1) if weight >= least or written[nth - 1]), default=1)


def relevance(candidate: Candidate) -> float:
    """How much a candidate is about the question; what only ranks or filters chose is an answer."""
    return signals.relevance(candidate.parts) if candidate.parts else 1.0


def least_relevance(best: float) -> float:
    """The least that a hit has beside the best one."""
    return max(signals.FAINT, signals.FAR * best)


def newest_first(answer: Answer, limit: int) -> Answer:
    """The newest of the hits that are nearly as good as the best one; MEMORY.md, which has no day, comes last."""
    best = max((hit.score for hit in answer.hits), default=0.0)
    good = [hit for hit in answer.hits if hit.score >= best * NEARLY]
    good.sort(key=lambda hit: "" if hit.role == "memory" else hit.date or "", reverse=True)
    return replace(answer, hits=good[:limit])


# --- folding ------------------------------------------------------------------------------------------------


def fold(candidates: Sequence[Candidate], limit: int) -> list[Folded]:
    """The hits in their final order, each with the chunks that say the same elsewhere in its workspace."""
    spread = _spread(candidates[: LOOKED_AT * limit])
    alike, kept = _alike(spread), list[tuple[int, list[ChunkPlace]]]()
    for nth, candidate in enumerate(spread):
        at = next((at for at, (other, _) in enumerate(kept) if (other, nth) in alike), None)
        if at is not None:
            first, also = spread[kept[at][0]], kept[at][1]
            if _is_team(first) and not _is_team(candidate):
                # The person's own wins; it is shown where the team's would have been.
                kept[at] = nth, [first.place, *also]
            else:
                also.append(candidate.place)
        elif len(kept) < limit:
            kept.append((nth, []))
    return _own_first([(spread[nth], also) for nth, also in kept])


def _own_first(folded: list[Folded]) -> list[Folded]:
    """The hits, with the person's own before what the team calls the same."""
    team = [_is_team(candidate) for candidate, _ in folded]
    if not any(team) or all(team):
        return folded
    names = {one.place.chunk: name for (one, _), name in zip(folded, _names([one for one, _ in folded]), strict=True)}
    for at, (candidate, _) in enumerate(folded):
        if _is_team(candidate):
            following = [(names[other.place.chunk], _is_team(other)) for other, _ in folded[at + 1 :]]
            if (name := (names[candidate.place.chunk], False)) in following:
                folded.insert(at, folded.pop(at + 1 + following.index(name)))
    return folded


def _is_team(candidate: Candidate) -> bool:
    return candidate.index.workspace.layer_of(candidate.place.path) == TEAM


def _names(candidates: Sequence[Candidate]) -> list[tuple[int, str]]:
    """The names of memories in their layers: a file of the team's may be a section of one's own."""
    slugs = lookup.slugs(candidates[0].index.reader, [one.place.memory for one in candidates])
    return [(one.index.id, slugs.get(one.place.memory) or one.place.stem) for one in candidates]


def _alike(candidates: Sequence[Candidate]) -> set[tuple[int, int]]:
    """The pairs that say the same, by their numbers; the smaller one comes first."""
    alike = set()
    for index in {candidate.index.id: candidate.index for candidate in candidates}.values():
        nths, postings = [nth for nth, one in enumerate(candidates) if one.index is index], index.text.postings()
        docs = postings.places(np.array([candidates[nth].place.chunk for nth in nths], np.int64))
        sketches, sizes = postings.sketches[docs], postings.term_counts[docs]
        differ = np.bitwise_count(sketches[:, None] ^ sketches).sum(2, dtype=np.int64)
        # Where more bits differ than terms may, the terms need no comparing; what has none yet is like no other.
        near = (differ <= (1 - ALIKE) * (sizes[:, None] + sizes)) & (sizes > 0)
        for one, other in np.argwhere(np.triu(near, 1)).tolist():
            ours, theirs = (postings.lines(*postings.line_spans(docs[[nth]])).terms for nth in (one, other))
            if len(np.intersect1d(ours, theirs)) >= ALIKE * len(np.union1d(ours, theirs)):
                alike.add((nths[one], nths[other]))
    return alike


def _spread(candidates: Sequence[Candidate]) -> list[Candidate]:
    """By score, with the later hits of a file a little lower each; a list that nothing ranked keeps its order."""
    seen: dict[tuple[int, str], int] = {}
    # Scores that are sums of 1 / (60 + rank) are small: a step for large ones would reverse their order.
    step = CROWDED * min(1.0, max((candidate.score for candidate in candidates), default=0.0))
    for candidate in candidates:
        if not (candidate.ranks or candidate.parts):
            continue
        file = candidate.index.id, candidate.place.path
        nth = seen[file] = seen.get(file, 0) + 1
        candidate.score -= max(0.0, step) * max(0, nth - FREE)
    return sorted(candidates, key=lambda candidate: -candidate.score)


# --- one hit ------------------------------------------------------------------------------------------------


SHOWN = ("id", "path", "start_line", "end_line", "title", "text", "kind", "tier", "role", "date")
"""The columns of a chunk that a hit shows as they are."""


def hit_of(
    workspace: Workspace, row: JsonObject, heading: Iterable[str], tags: list[str],
    score: float, ranks: dict[str, int], **more: Any,
) -> Hit:  # fmt: skip
    """A chunk as a hit."""
    return Hit(
        ns=workspace.ns,
        root=str(workspace.root),
        heading=" › ".join(part for part in heading if part),
        tags=tags,
        score=round(score, 6),
        ranks=ranks,
        layer=workspace.layer_of(row["path"]),
        **pick(row, *SHOWN),
        **more,
    )


def _hit(
    candidate: Candidate, row: JsonObject, also: Sequence[JsonObject], ask: Ask, terms: AbstractSet[str], **more: Any
) -> Hit:
    heading, tags = json.loads(row["heading"]), json.loads(row["tags"])
    return hit_of(
        candidate.index.workspace, row, heading, tags, candidate.score, candidate.ranks, **more,
        also=[pick(other, "path", "start_line", "end_line") for other in also],
        marks=_marks(row["text"], ask, terms) if ask.marks else None,
        explain=_explain(candidate, ask) if ask.explain else None,
    )  # fmt: skip


def _marks(text: str, ask: Ask, terms: AbstractSet[str]) -> list[tuple[int, int]]:
    """Where the question's words are in a hit, for highlighting."""
    if ask.mode != "exact":
        return _joined((word.start, word.end) for word in words(text) if not terms.isdisjoint(word.terms))
    needle, folded = ask.query.casefold(), text.casefold()
    # Folding can change the length ("ß"): the places would be wrong.
    if len(folded) != len(text) or not needle:
        return []
    return _joined((at, at + len(needle)) for at in range(len(folded)) if folded.startswith(needle, at))


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in their order, those that overlap as one: a word without blanks around it is pairs of characters."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        start = joined.pop()[0] if joined and start < joined[-1][1] else start
        joined.append((start, end))
    return joined


def _explain(candidate: Candidate, ask: Ask) -> dict[str, object]:
    """Each part of the score: what was found, and what it added."""
    if ask.fusion == "rrf":
        parts = {voice: (float(rank), 1.0 / (ask.rrf_k + rank)) for voice, rank in candidate.ranks.items()}
    else:
        parts = {name: (value, signals.WEIGHTS[name] * value) for name, value in candidate.parts.items()}
    crowded = candidate.score - sum(adds for _, adds in parts.values())
    if parts and crowded < -TINY:
        parts["crowded"] = (crowded, crowded)
    digits = 6 if ask.fusion == "rrf" else 4
    shown = {name: (round(value, 4), round(adds, digits)) for name, (value, adds) in parts.items() if value}
    return {name: {"value": value, "adds": adds} for name, (value, adds) in shown.items()}
