"""Says why a passage did not come up: not indexed, filtered, or outranked, and by what."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memd.errors import NotFound
from memd.indexer.language.question import ParsedQuestion, parse
from memd.indexer.query import candidates, hits, lookup, search, signals
from memd.indexer.query.candidates import Candidate
from memd.indexer.query.search import SearchResult, WorkspaceResult
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Ask, Filters, JsonObject, pick


def why_not(stores: Stores, index: WorkspaceIndex, path: str, line: int, ask: Ask) -> dict[str, Any]:
    """The place of the passage at a line for a question, and what stands in its way."""
    chunks = _chunks(stores, index, path, line)
    if isinstance(chunks, str):
        return {"indexed": False, "shown": False, "reasons": [chunks]}
    rows = lookup.join(stores.reader, chunks, Filters(), expired=True)
    question = parse(ask.query, ask.day, ask.filters)
    found = search.find(stores, [index], ask, question, also=chunks)
    # Of a line that is longer than a chunk, what answers best.
    own = next((candidate for candidate in found.candidates if candidate.place.chunk in chunks), None)
    row = rows[own.place.chunk if own is not None else chunks[0]]
    passage = {
        "indexed": True,
        "shown": False,
        **pick(row, "path", "start_line", "end_line", "text"),
        **history.authors_at(stores.reader, index.id, path, row["start_line"], row["end_line"]),
    }
    if reasons := _filtered_by(stores, index, row, question):
        return {**passage, "reasons": reasons}
    passage["unheard"] = found.unheard
    if own is None:
        if reasons := _filtered_by(stores, index, row, found.question):
            return {**passage, "reasons": [*reasons, "the question names that time, and notes of it answer"]}
        return {**passage, "reasons": ["it is not in the index yet: ask again in a moment"]}
    awake, _ = search.without_resting(found, ask)
    if not any(one is own for one in awake.candidates):
        reason = f"it rests ({row['tier']}), and awake memories answer as well: --all shows it"
        return {**passage, "reasons": [reason]}
    return {**passage, **_place(ask, awake, own)}


def _chunks(stores: Stores, index: WorkspaceIndex, path: str, line: int) -> list[int] | str:
    """The chunks at a line, or why there is none."""
    known = index.files.get(path)
    if known is None:
        place = os.path.normpath(index.workspace.root / path)
        # Of what lies elsewhere nothing is told, not even whether it is there.
        if not (os.path.lexists(place) and Path(place).is_relative_to(index.workspace.root)):
            raise NotFound(f"{index.workspace.ns} has no file {path}", "memd list shows what it has")
        return f"{path} is not a memory file: {index.skipped.get(path) or 'no glob of the workspace takes it in'}"
    if known.left_out:
        return f"{path} is left out: {known.problem}"
    chunks = lookup.chunks_at(stores.reader, index.id, path, [line])
    why = "it is blank, past the end, a title of the file, front matter, or only an index line"
    return chunks.get(line, f"line {line} of {path} is in no chunk: {why}")


def _filtered_by(stores: Stores, index: WorkspaceIndex, row: JsonObject, question: ParsedQuestion) -> list[str]:
    """The filters, phrases and exclusions that the passage does not pass."""
    connection, chunk, reasons = stores.reader, row["id"], list[str]()
    if chunk not in lookup.join(connection, [chunk], Filters()):
        why = "it was deleted" if row["deleted"] else "its ttl has run out"
        return [f"{why}: memd gc lists it"]
    for name in ("kind", "tags", "role", "path", "since", "until", "tier"):
        value = getattr(question.filters, name)
        if value and chunk not in lookup.join(connection, [chunk], replace(Filters(), **{name: value})):
            shown = ",".join(value) if isinstance(value, tuple) else value
            reasons.append(f"filtered: it does not pass {name} {shown}")
    postings, passage = index.text.postings(), np.array([chunk])
    for phrase in question.phrases:
        if not len(candidates.having(connection, postings, phrase, passage)):
            reasons.append(f"filtered: it does not have the phrase “{phrase.text}”")
    for phrase in question.without:
        if len(candidates.excluded(connection, postings, phrase, passage)):
            reasons.append(f"filtered: it has “{phrase.text}”, which the question excludes")
    return reasons


def _place(ask: Ask, found: SearchResult, own: Candidate) -> dict[str, Any]:
    rank, best = found.candidates.index(own) + 1, found.candidates[0]
    folded = hits.fold(found.candidates, ask.limit)
    same = next((candidate for candidate, also in folded if own.place in also), None)
    end = hits.end_of(folded, found.confidence)
    shown = any(candidate is own for candidate, _ in folded[:end])
    near = any(candidate is own for candidate, _ in folded[end:])
    here = found.by_workspace.get(own.index.id)
    ranks, lacking = _ranks(here, own), here.words.lacking(own.place.chunk) if here and here.words else []
    lacks = [f"it lacks: {', '.join(lacking)}"] if lacking else []
    reasons: list[str] = []
    if same is not None:
        where = f"{same.place.path}:{same.place.line}"
        reasons = [f"it says the same as {where} and is listed there under `also`"]
    elif near:
        reasons = ["it is close to the question without answering it: `near` has it, and --all shows it", *lacks]
    elif not shown:
        reasons = [f"it is number {rank} and {ask.limit} were asked for"]
        reasons += [f"number {nth} by {voice}" if nth else f"not found by {voice}" for voice, nth in ranks.items()]
        reasons += lacks
    return {
        "shown": shown,
        "rank": rank,
        "ranks": ranks,
        **_scored(own),
        "best": {"path": best.place.path, "start_line": best.place.line, **_scored(best)},
        "reasons": reasons,
    }


def _scored(candidate: Candidate) -> dict[str, Any]:
    parts = {name: round(signals.WEIGHTS[name] * value, 4) for name, value in candidate.parts.items() if value}
    return {"score": round(candidate.score, 4), "parts": parts}


def _ranks(here: WorkspaceResult | None, own: Candidate) -> dict[str, int | None]:
    """The passage's place in each voice among all chunks, however far down; a time alone asks no voice."""
    ranks: dict[str, int | None] = {}
    if here is not None and here.words is not None:
        ranks["text"] = here.words.rank(own.place.chunk)
    if here is not None and here.meaning is not None and here.meaning.mirror(own.index) is not None:
        ranks["vector"] = here.meaning.rank(own.index, own.place.chunk)
    return ranks
