"""Finds memories that say nearly what someone is about to write: by words, and by meaning where a model is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from memd.indexer.language.words import query_terms, words
from memd.indexer.query import lookup, meaning
from memd.indexer.query.search import search
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Ask, Filters

LOOKED_AT = 500
"""Characters of a text that are searched for."""
CANDIDATES = 8
SAME_WORDS = 0.6
"""The share of all their words that two texts have in common to be nearly one, whatever they mean."""
SOME_WORDS, SAME_MEANING = 0.25, 1.1
"""The same where the model says so too: nearer than a paraphrase, and more than a common subject."""


def similar(stores: Stores, index: WorkspaceIndex, text: str, but: int | None, max_bytes: int) -> list[dict[str, Any]]:
    """The memories of a workspace that the text nearly repeats, the nearest first; never the one it is itself."""
    question = " ".join(text[word.start : word.end] for word in _each(text[:LOOKED_AT]))
    mine = set(query_terms(text)[0])
    if not question or not mine:
        return []
    mode = "text" if stores.model is None else "hybrid"
    answer = search(stores, Ask(question, (index.workspace.ns,), CANDIDATES, mode), max_bytes)
    rows = lookup.join(stores.ledger.reader, (hit.id for hit in answer.hits), Filters())
    sense = meaning.question_vector(stores, question)
    found: dict[int, dict[str, Any]] = {}
    for hit in answer.hits:
        row = rows.get(hit.id)
        if row is None or row["memory"] in found or row["memory"] == but:
            continue
        theirs = set(query_terms(_text(stores, row["memory"]))[0])
        overlap = len(mine & theirs) / len(mine | theirs)
        near = float(sense.near(index, [hit.id])[0]) if sense is not None else 0.0
        if overlap >= SAME_WORDS or (overlap >= SOME_WORDS and near >= SAME_MEANING):
            told = {"key": hit.key, "path": hit.path, "overlap": round(overlap, 2)}
            found[row["memory"]] = told | _cosine(index, sense, hit.id)
    return sorted(found.values(), key=lambda told: (-told["overlap"], told["key"]))


def _cosine(index: WorkspaceIndex, sense: meaning.QuestionVector | None, chunk: int) -> dict[str, float]:
    """How near a chunk is, where it has a vector already."""
    mirror = index.former or index.mirror
    if sense is None or mirror is None:
        return {}
    cosine = float(mirror.cosines(sense.vector, [chunk])[0])
    return {} if math.isnan(cosine) else {"cosine": round(cosine, 2)}


def _each(text: str) -> Iterable[Any]:
    """The words of a text, each place once: a text may hold what a question would take for an operator."""
    end = 0
    for word in words(text):
        if word.start >= end:
            end = word.end
            yield word


def _text(stores: Stores, memory: int) -> str:
    rows = stores.ledger.reader.execute("SELECT text FROM chunks WHERE memory = ? ORDER BY start_line, id", (memory,))
    return "\n".join(row["text"] for row in rows)
