"""Finds memories that nearly say what someone is about to write: by words, and by meaning if a model is loaded."""

import math
from typing import Any

from memd.indexer.language.words import query_terms, words
from memd.indexer.query import lookup
from memd.indexer.query.meaning import question_vector
from memd.indexer.query.search import search
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Ask, Filters

LOOKED_AT = 500
"""Characters of a text that are searched for."""
CANDIDATES = 8
SAME_WORDS = 0.6
"""Two texts with this share of their words in common are nearly the same, whatever they mean."""
SOME_WORDS, SAME_MEANING = 0.25, 1.1
"""The same if the model agrees: nearer than a paraphrase, and more than a common subject."""


def similar(
    stores: Stores, index: WorkspaceIndex, text: str, but: int | None, max_bytes: int
) -> tuple[list[dict[str, Any]], str]:
    """The memories of a workspace that the text nearly repeats, the nearest first, but for the one it belongs to.

    And why the text went unheard, without its meaning; empty where it did not.
    """
    question = _as_question(text[:LOOKED_AT])
    own = set(query_terms(text))
    if not question or not own:
        return [], ""
    mode = "text" if stores.model is None else "hybrid"
    answer = search(stores, Ask(question, (index.workspace.ns,), CANDIDATES, mode), max_bytes)
    rows = lookup.join(stores.reader, (hit.id for hit in answer.hits), Filters())
    vector, unheard = question_vector(stores, question)
    found: dict[int, dict[str, Any]] = {}
    for hit in answer.hits:
        row = rows.get(hit.id)
        if row is None or row["memory"] in found or row["memory"] == but:
            continue
        parts = stores.reader.execute(lookup.SQL["parts_of_memory"], (row["memory"],))
        other = set(query_terms("\n".join(part["text"] for part in parts)))
        overlap = len(own & other) / len(own | other)
        # A chunk without a vector yet is NaN, which is not near.
        cosine = float(vector.cosines(index, [hit.id])[0]) if vector is not None else math.nan
        near = (vector is not None and vector.nearness(cosine)) or 0.0
        if overlap >= SAME_WORDS or (overlap >= SOME_WORDS and near >= SAME_MEANING):
            result = {"key": hit.key, "path": hit.path, "overlap": round(overlap, 2)}
            found[row["memory"]] = result | ({} if math.isnan(cosine) else {"cosine": round(cosine, 2)})
    return sorted(found.values(), key=lambda result: (-result["overlap"], result["key"])), unheard or answer.unheard


def _as_question(text: str) -> str:
    """The words of a text, each place once, without anything that a question would take for an operator."""
    plain, end = [], 0
    for word in words(text):
        if word.start >= end:
            end = word.end
            plain.append(text[word.start : end])
    return " ".join(plain)
