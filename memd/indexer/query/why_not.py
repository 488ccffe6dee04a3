"""Says why a passage did not come up: not indexed, filtered, or outranked, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from memd.errors import NotFound
from memd.indexer.language.question import ParsedQuestion, narrow, parse
from memd.indexer.query import candidates, fold, lookup, meaning, ranking
from memd.indexer.query.candidate import Candidate
from memd.indexer.query.search import WorkspaceCandidates, weighed_places
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Ask, Filters


def why_not(stores: Stores, index: WorkspaceIndex, path: str, line: int, ask: Ask) -> dict[str, Any]:
    """The place of the passage at a line for a question, and what stands in its way."""
    question = parse(ask.query, ask.day)
    filters = narrow(ask.filters, question.filters)
    chunk = _chunk(stores, index, path, line)
    if isinstance(chunk, str):
        return {"indexed": False, "shown": False, "reasons": [chunk]}
    row = lookup.join(stores.ledger.reader, [chunk], Filters(), expired=True)[chunk]
    told = {name: row[name] for name in ("path", "start_line", "end_line", "text")}
    if reasons := _left_out(stores, index, chunk, question, filters):
        return {"indexed": True, "shown": False, "reasons": reasons, **told}
    found, places = weighed_places(stores, [index], ask, question, filters, also=[chunk])
    mine = next((candidate for candidate in places if candidate.row["id"] == chunk), None)
    if mine is None:
        return {
            "indexed": True,
            "shown": False,
            "reasons": ["it is not in the index yet: ask again in a moment"],
            **told,
        }
    return {"indexed": True, **told, **_placed(stores, index, ask, question, found[index.id], places, mine)}


def _chunk(stores: Stores, index: WorkspaceIndex, path: str, line: int) -> int | str:
    """The chunk at a line, or why there is none."""
    known = index.files.get(path)
    if known is None:
        where = index.workspace.root / path
        if not where.exists():
            raise NotFound(f"{index.workspace.ns} has no file {path}", "memd list shows what it has")
        return f"{path} is not a memory file: {index.skipped.get(path) or 'no glob of the workspace takes it in'}"
    if known.problem:
        return f"{path} is left out: {known.problem}"
    found = lookup.chunks_at(stores.ledger.reader, index.id, path, [line])
    return found.get(line, f"line {line} of {path} is in no chunk: it is blank, past the end, or only an index line")


def _left_out(
    stores: Stores, index: WorkspaceIndex, chunk: int, question: ParsedQuestion, filters: Filters
) -> list[str]:
    """Filters, phrases and exclusions that the passage does not pass, one by one."""
    connection, reasons = stores.ledger.reader, []
    empty = Filters()
    if chunk not in lookup.join(connection, [chunk], empty):
        return ["its ttl has run out: memd gc lists it"]
    for name in ("kind", "tags", "role", "path", "since", "until", "tier"):
        wanted = getattr(filters, name)
        if wanted and chunk not in lookup.join(connection, [chunk], replace(empty, **{name: wanted})):
            shown = ",".join(wanted) if isinstance(wanted, tuple) else wanted
            reasons.append(f"filtered: it does not pass {name} {shown}")
    postings = index.text.postings()
    for phrase in question.phrases:
        if chunk not in _allowed(stores, index, ParsedQuestion(phrases=(phrase,)), postings):
            reasons.append(f"filtered: it does not have the phrase “{phrase}”")
    for phrase in question.without:
        if chunk not in _allowed(stores, index, ParsedQuestion(without=(phrase,)), postings):
            reasons.append(f"filtered: it has “{phrase}”, which the question excludes")
    return reasons


def _allowed(stores: Stores, index: WorkspaceIndex, question: ParsedQuestion, postings: Any) -> Sequence[int]:
    left = candidates.allowed(stores.ledger.reader, index, question, Filters(), postings)
    return [] if left is None else left.tolist()


def _placed(
    stores: Stores,
    index: WorkspaceIndex,
    ask: Ask,
    question: ParsedQuestion,
    found: WorkspaceCandidates,
    places: Sequence[Candidate],
    mine: Candidate,
) -> dict[str, Any]:
    rank = places.index(mine) + 1
    hits = fold.fold(places, ask.limit)
    twin = next((candidate for candidate, also in hits if any(row["id"] == mine.row["id"] for row in also)), None)
    shown = any(candidate is mine for candidate, _ in hits)
    ranks = _ranks(stores, index, ask, question, found, mine.row["id"])
    return {
        "shown": shown,
        "rank": rank,
        "ranks": ranks,
        "score": round(mine.score, 4),
        "parts": _parts(mine),
        "best": {
            "path": places[0].row["path"],
            "start_line": places[0].row["start_line"],
            "score": round(places[0].score, 4),
            "parts": _parts(places[0]),
        },
        "reasons": _reasons(found, ask, mine, rank, ranks, twin) if not shown else [],
    }


def _parts(candidate: Candidate) -> dict[str, float]:
    return {name: round(ranking.WEIGHTS[name] * value, 4) for name, value in candidate.parts.items() if value}


def _reasons(
    found: WorkspaceCandidates,
    ask: Ask,
    mine: Candidate,
    rank: int,
    ranks: dict[str, int | None],
    twin: Candidate | None,
) -> list[str]:
    if twin is not None:
        return [f"it says the same as {twin.row['path']}:{twin.row['start_line']} and is listed there under `also`"]
    reasons = [f"it is number {rank} and {ask.limit} were asked for"]
    for voice, candidate in ranks.items():
        said = f"number {candidate} by {voice}" if candidate else f"not found by {voice}"
        reasons.append(said)
    if found.wording is not None:
        lacking = found.wording.lacking(mine.row["id"])
        reasons += [f"it lacks: {', '.join(lacking)}"] if lacking else []
    return reasons


def _ranks(
    stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion, found: WorkspaceCandidates, chunk: int
) -> dict[str, int | None]:
    """The passage's place in each voice among all chunks, however far down."""
    ranks: dict[str, int | None] = {}
    if found.wording is not None:
        earned = found.wording.earned()
        doc = int(found.wording.postings.places(np.array([chunk]))[0])
        ranks["text"] = int((earned > earned[doc]).sum()) + 1 if doc >= 0 and earned[doc] else None
    sense = meaning.question_vector(stores, question.words) if ask.mode != "text" else None
    mirror = sense.mirror(index) if sense is not None else None
    if sense is not None and mirror is not None:
        ranks["vector"] = mirror.rank(sense.vector, chunk)
    return ranks
