"""Makes a hit of a candidate: where it stands, what it says, and why it came up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from sqlite3 import Row

from memd.indexer.language.words import query_terms, words
from memd.indexer.query import lookup, ranking
from memd.indexer.query.candidate import Candidate
from memd.models import Ask, Hit

TINY = 1e-9
"""Less than this is a rounding, and not what a hit gave up because its file has many."""


def hit_of(candidate: Candidate, also: Sequence[Row], shared: set[str], ask: Ask) -> Hit:
    row, workspace = candidate.row, candidate.index.workspace
    return Hit(
        id=row["id"],
        ns=workspace.ns,
        root=str(workspace.root),
        key=lookup.key_of(row["stem"], row["path"], row["slug"], shared),
        path=row["path"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        heading=" › ".join(part for part in json.loads(row["heading"]) if part),
        text=row["text"],
        score=round(candidate.score, 6),
        kind=row["kind"],
        tier=row["tier"],
        role=row["role"],
        tags=json.loads(row["tags"]),
        date=row["date"],
        ranks=candidate.ranks,
        also=[{name: other[name] for name in ("path", "start_line", "end_line")} for other in also],
        marks=_marks(row["text"], ask) if ask.marks else None,
        explain=_explain(candidate, ask) if ask.explain else None,
    )


def _marks(text: str, ask: Ask) -> list[tuple[int, int]]:
    """Where the question's words stand in a hit, for a reader's eye."""
    if ask.mode == "exact":
        needle, folded = ask.query.casefold(), text.casefold()
        # Folding can change the length ("ß"); then the places would be wrong and are left out.
        if len(folded) != len(text) or not needle:
            return []
        starts = [at for at in range(len(folded)) if folded.startswith(needle, at)]
        return [(at, at + len(needle)) for at in starts]
    wanted = set(query_terms(ask.query)[0])
    return [(word.start, word.end) for word in words(text) if wanted.intersection(word.terms)]


def _explain(candidate: Candidate, ask: Ask) -> dict[str, object]:
    """Each part of the score: what was found, and what it added."""
    if ask.fusion == "rrf":
        parts = {voice: (float(rank), 1.0 / (ask.rrf_k + rank)) for voice, rank in candidate.ranks.items()}
    else:
        parts = {name: (value, ranking.WEIGHTS[name] * value) for name, value in candidate.parts.items()}
    crowded = candidate.score - sum(adds for _, adds in parts.values())
    if parts and crowded < -TINY:
        parts["crowded"] = (crowded, crowded)
    digits = 6 if ask.fusion == "rrf" else 4
    shown = {name: (round(value, 4), round(adds, digits)) for name, (value, adds) in parts.items() if value}
    return {name: {"value": value, "adds": adds} for name, (value, adds) in shown.items()}
