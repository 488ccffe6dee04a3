"""The read path: ask the voices, join the ledger, fuse, and hand over hits."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from sqlite3 import Row

from memd.errors import StoreBroken
from memd.indexer import grep, recall
from memd.indexer.fusion import Ranked, confidence, reciprocal_ranks, verdict
from memd.indexer.pooling import Vectors
from memd.indexer.stores import Shelf, Stores
from memd.indexer.words import query_terms, words
from memd.models import Answer, Ask, Filters, Hit

OVERFETCH = 5
AT_LEAST = 50
"""How deep each voice is heard: a hit that is second in both should beat one that is first in one."""

Scored = list[tuple[int, float]]


def search(stores: Stores, ask: Ask, k: int, max_bytes: int) -> Answer:
    """Answer a question from the workspaces it names."""
    shelves = [stores.shelf(ns) for ns in ask.ns]
    depth = max(AT_LEAST, OVERFETCH * ask.limit)
    voices = _voices(stores, shelves, ask, depth, max_bytes)
    rows = recall.join(stores.ledger.reader, {chunk for scored in voices.values() for chunk, _ in scored}, ask.filters)
    heard = {voice: [chunk for chunk, _ in scored if chunk in rows][:depth] for voice, scored in voices.items()}
    fused = reciprocal_ranks(heard, k)
    order = sorted(fused, key=lambda chunk: _place(fused[chunk], rows[chunk]))
    hits = _hits(stores, shelves, ask, [(rows[chunk], fused[chunk]) for chunk in order[: ask.limit]], voices)
    sure = _confidence(ask, hits, voices.get("vector", []))
    return Answer(hits, verdict(bool(hits), sure), sure, len(fused))


# --- the voices ---------------------------------------------------------------------------------------------


def _voices(stores: Stores, shelves: Sequence[Shelf], ask: Ask, depth: int, max_bytes: int) -> dict[str, Scored]:
    if ask.mode == "exact":
        return {"exact": _exact(stores, shelves, ask.query, max_bytes)}
    voices: dict[str, Scored] = {}
    if ask.mode in ("hybrid", "text"):
        voices["text"] = _text(shelves, ask, depth)
    model = stores.former or stores.model
    if ask.mode in ("hybrid", "vector") and model is not None:
        vector = model.embedder.embed([ask.query])[0]
        voices["vector"] = _vector(stores, shelves, ask.filters, vector, depth)
    return voices


def _text(shelves: Iterable[Shelf], ask: Ask, depth: int) -> Scored:
    terms, exact = query_terms(ask.query)
    # A filter is applied after the join, so that everything that matches must come along.
    limit = None if ask.filters else depth
    return _best_first(pair for shelf in shelves for pair in shelf.text.search(terms, exact, limit))


def _vector(stores: Stores, shelves: Iterable[Shelf], filters: Filters, vector: Vectors, depth: int) -> Scored:
    return _best_first(pair for shelf in shelves for pair in _nearest(stores, shelf, filters, vector, depth))


def _nearest(stores: Stores, shelf: Shelf, filters: Filters, vector: Vectors, depth: int) -> Scored:
    """Chroma for the open question; the exact search in memory for a filtered one, and while Chroma cannot answer."""
    mirror = shelf.former or shelf.mirror
    if filters and mirror is not None:
        return mirror.search(vector, depth, recall.allowed(stores.ledger.reader, shelf.id, filters))
    if shelf.collection is not None and shelf.former is None:
        try:
            return shelf.collection.search(vector, depth)
        except StoreBroken as error:
            stores.trouble = error.message
    return mirror.search(vector, depth) if mirror is not None else []


def _exact(stores: Stores, shelves: Iterable[Shelf], needle: str, max_bytes: int) -> Scored:
    found: dict[int, float] = {}
    for shelf in shelves:
        for path, lines in grep.lines_with(shelf, needle, max_bytes):
            for chunk in recall.chunks_at(stores.ledger.reader, shelf.id, path, lines).values():
                found.setdefault(chunk, 1.0)
    return list(found.items())


def _best_first(scored: Iterable[tuple[int, float]]) -> Scored:
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def _place(ranked: Ranked, row: Row) -> tuple[float, int, str, int]:
    """By score; among equals the one that has the very words, then by where it stands, so that order never wavers."""
    return -ranked.score, ranked.ranks.get("text", sys.maxsize), row["path"], row["start_line"]


# --- the hits -----------------------------------------------------------------------------------------------


def _hits(
    stores: Stores, shelves: Sequence[Shelf], ask: Ask, ranked: list[tuple[Row, Ranked]], voices: dict[str, Scored]
) -> list[Hit]:
    by_id = {shelf.id: shelf for shelf in shelves}
    shared = {
        shelf.id: recall.shared_stems(
            stores.ledger.reader, shelf.id, (row["stem"] for row, _ in ranked if row["workspace"] == shelf.id)
        )
        for shelf in shelves
    }
    wanted = set(query_terms(ask.query)[0])
    return [
        _hit(row, place, by_id[row["workspace"]], shared[row["workspace"]], wanted, ask, voices)
        for row, place in ranked
    ]


def _hit(
    row: Row, place: Ranked, shelf: Shelf, shared: set[str], wanted: set[str], ask: Ask, voices: dict[str, Scored]
) -> Hit:
    heading = [part for part in json.loads(row["heading"]) if part]
    return Hit(
        id=row["id"],
        ns=shelf.workspace.ns,
        root=str(shelf.workspace.root),
        key=recall.key_of(row["stem"], row["path"], row["slug"], shared),
        path=row["path"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        heading=" › ".join(heading),
        text=row["text"],
        score=round(place.score, 6),
        kind=row["kind"],
        tier=row["tier"],
        role=row["role"],
        tags=json.loads(row["tags"]),
        date=row["date"],
        ranks=place.ranks,
        marks=_marks(row["text"], wanted, ask) if ask.marks else None,
        explain=_explain(row["id"], voices) if ask.explain else None,
    )


def _marks(text: str, wanted: set[str], ask: Ask) -> list[tuple[int, int]]:
    """Where the question's words stand in a hit, for a reader's eye."""
    if ask.mode == "exact":
        needle, folded = ask.query.casefold(), text.casefold()
        # Folding can change the length ("ß"); then the places would be wrong and are left out.
        if len(folded) != len(text) or not needle:
            return []
        starts = [at for at in range(len(folded)) if folded.startswith(needle, at)]
        return [(at, at + len(needle)) for at in starts]
    return [(word.start, word.end) for word in words(text) if wanted.intersection(word.terms)]


def _explain(chunk: int, voices: dict[str, Scored]) -> dict[str, object]:
    return {voice: round(score, 4) for voice, scored in voices.items() for found, score in scored if found == chunk}


def _confidence(ask: Ask, hits: Sequence[Hit], nearest: Scored) -> float:
    """From the best hit's words and the nearest meaning."""
    if not hits:
        return 0.0
    if ask.mode == "exact":
        return 1.0
    wanted = set(query_terms(ask.query)[0])
    best = hits[0]
    had = {term for word in words(f"{best.heading} {best.text}") for term in word.terms}
    coverage = len(wanted & had) / len(wanted) if wanted else 0.0
    return confidence(coverage, dict(nearest).get(best.id, 0.0))
