"""The read path: ask the voices, join the ledger, weigh what was found, and hand over hits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from sqlite3 import Row

from memd.indexer.language import times
from memd.indexer.language.question import ParsedQuestion, narrow, parse
from memd.indexer.language.words import says_something
from memd.indexer.query import candidates, certainty, evidence, fold, grep, lookup, meaning
from memd.indexer.query.candidate import Candidate
from memd.indexer.query.candidates import CandidatePool
from memd.indexer.query.evidence import EvidenceQuery, WeighedCandidates
from memd.indexer.query.fusion import reciprocal_ranks
from memd.indexer.query.hits import hit_of
from memd.indexer.query.wording import QuestionWords, question_words
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Answer, Ask, Filters, Hit

DEPTH = 50
"""How deep each voice is heard."""

DEPTH_DATED = 200
"""The same where a question names a time: what is right by its date may be far down by its words."""


@dataclass(slots=True)
class WorkspaceCandidates:
    """What one workspace has to say."""

    places: list[Candidate] = field(default_factory=list)
    wording: QuestionWords | None = None
    near: float | None = None
    """How near the nearest chunk is in meaning."""
    judged: QuestionWords | None = None
    """The question's words without those that name a time: "last week" stands in no note of last week."""
    only_time: bool = False
    """It asks for nothing but a time: "what did we do last week"."""


def search(stores: Stores, ask: Ask, max_bytes: int) -> Answer:
    """Answer a question from the workspaces it names."""
    indexes = [stores.index(ns) for ns in ask.ns]
    question = parse(ask.query, ask.day)
    filters = narrow(ask.filters, question.filters)
    if ask.mode == "exact":
        exact, unread = _exact(stores, indexes, ask, max_bytes)
        return replace(answered(stores, ask, exact, 1.0), unread=unread)
    if not (question.words or question.prefixes):
        return answered(stores, ask, newest(stores, indexes, question, filters), 1.0)
    found, places = weighed_places(stores, indexes, ask, question, filters)
    answer = answered(stores, ask, places, sure(places, found))
    wordings = [part.wording for part in found.values() if part.wording is not None]
    corrected = {word: near for wording in wordings for word, near in wording.corrected.items()}
    missing = tuple(dict.fromkeys(word for wording in wordings for word in (*wording.missing, *wording.corrected)))
    return replace(answer, corrected=corrected, missing=missing)


def weighed_places(
    stores: Stores,
    indexes: Sequence[WorkspaceIndex],
    ask: Ask,
    question: ParsedQuestion,
    filters: Filters,
    also: Sequence[int] = (),
) -> tuple[dict[int, WorkspaceCandidates], list[Candidate]]:
    """What each workspace has to say, and all candidates, best first; the chunks in `also` are among them."""
    found = {index.id: _in_index(stores, index, ask, question, filters, also) for index in indexes}
    return found, sorted((candidate for part in found.values() for candidate in part.places), key=_order)


def _order(candidate: Candidate) -> tuple[float, str, int]:
    return -candidate.score, candidate.row["path"], candidate.row["start_line"]


def sure(places: Sequence[Candidate], found: Mapping[int, WorkspaceCandidates]) -> float:
    """How sure the best hit is."""
    if not places:
        return 0.0
    part = found[places[0].index.id]
    dated = places[0].parts.get("date", 0.0)
    if part.judged is None:
        return max(dated if part.only_time else 0.0, certainty.confidence(None, 0.0, part.near))
    if part.only_time:
        return dated
    judged = part.judged
    had = max(judged.had_by(places[0].row["id"]), judged.in_name(places[0].row["stem"]))
    return certainty.confidence(max(judged.known, had), had, part.near, guessed=bool(judged.corrected))


# --- one workspace ------------------------------------------------------------------------------------------


def _in_index(
    stores: Stores, index: WorkspaceIndex, ask: Ask, question: ParsedQuestion, filters: Filters, also: Sequence[int]
) -> WorkspaceCandidates:
    connection = stores.ledger.reader
    postings = index.text.postings()
    wording = question_words(postings, question.words, question.prefixes) if ask.mode != "vector" else None
    sense = meaning.question_vector(stores, _as_meant(question.words, wording)) if ask.mode != "text" else None
    asked = EvidenceQuery(wording, sense, times.asked(question.words, ask.day), ask.day)
    among = candidates.allowed(connection, index, question, filters, postings)
    depth = max(DEPTH_DATED if asked.times.spans else DEPTH, 2 * ask.limit)
    pool = candidates.gather(stores, index, wording, sense, question.words, asked.times, depth, among)
    rows = lookup.join(connection, pool.ids.union(also), filters)
    near = None if sense is None else sense.nearness(pool.voices["vector"][0][1] if pool.voices["vector"] else None)
    rest = times.without(question.words, asked.times)
    judged = question_words(postings, rest, question.prefixes) if wording is not None and asked.times.spans else wording
    only_time = bool(asked.times.spans) and not (question.prefixes or says_something(rest))
    if ask.fusion == "rrf":
        return WorkspaceCandidates(_by_ranks(index, pool, rows, ask.rrf_k), wording, near, judged, only_time)
    weighed = evidence.weigh(connection, index, list(rows.values()), asked, ask.limit)
    return WorkspaceCandidates(_places(index, pool, weighed), wording, near, judged, only_time)


def _as_meant(text: str, wording: QuestionWords | None) -> str:
    """The question with its slips of the hand mended: to the model a mistyped word means nothing."""
    for typed, near in (wording.corrected if wording else {}).items():
        text = re.sub(rf"(?i)\b{re.escape(typed)}\b", near[0], text)
    return text


def _places(index: WorkspaceIndex, pool: CandidatePool, weighed: WeighedCandidates) -> list[Candidate]:
    ranks = _ranks(pool, [row["id"] for row in weighed.rows])
    return [
        Candidate(index, row, float(score), ranks[row["id"]], weighed, at)
        for at, (row, score) in enumerate(zip(weighed.rows, weighed.scores, strict=True))
    ]


def _by_ranks(index: WorkspaceIndex, pool: CandidatePool, rows: dict[int, Row], k: int) -> list[Candidate]:
    heard = {voice: [chunk for chunk, _ in scored if chunk in rows] for voice, scored in pool.voices.items()}
    for only_names in ("name", "day"):
        heard.pop(only_names, None)
    fused = reciprocal_ranks(heard, k)
    return [Candidate(index, rows[chunk], ranked.score, ranked.ranks) for chunk, ranked in fused.items()]


def _ranks(pool: CandidatePool, known: Sequence[int]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {chunk: {} for chunk in known}
    for voice in ("text", "vector"):
        for chunk, rank in pool.ranks(voice, known).items():
            found[chunk][voice] = rank
    return found


# --- without words, and letter by letter --------------------------------------------------------------------


def newest(
    stores: Stores, indexes: Sequence[WorkspaceIndex], question: ParsedQuestion, filters: Filters
) -> list[Candidate]:
    """A question of filters only: what passes them, the newest first."""
    connection = stores.ledger.reader
    places = []
    for index in indexes:
        passing = lookup.allowed(connection, index.id, filters)
        if question.without:
            left = candidates.allowed(connection, index, question, filters, index.text.postings())
            passing = [] if left is None else left.tolist()
        rows = lookup.join(connection, passing, filters).values()
        places += [Candidate(index, row, 1.0, {}) for row in rows]
    places.sort(key=lambda candidate: (candidate.row["path"], candidate.row["start_line"]))
    places.sort(key=lambda candidate: str(candidate.row["date"]), reverse=True)
    return places


def _exact(
    stores: Stores, indexes: Sequence[WorkspaceIndex], ask: Ask, max_bytes: int
) -> tuple[list[Candidate], dict[str, list[str]]]:
    """Every chunk that has the very letters, in the order in which the files tell it, and the files not taken in."""
    connection = stores.ledger.reader
    order: list[tuple[WorkspaceIndex, int]] = []
    unread: dict[str, list[str]] = {}
    for index in indexes:
        for path, lines, digest in grep.lines_with(index, ask.query, max_bytes):
            # Asked before the chunks are: what is taken in between the two is there, not missed.
            if lookup.digest_of(connection, index.id, path) != digest:
                unread.setdefault(index.workspace.ns, []).append(path)
            chunks = lookup.chunks_at(connection, index.id, path, lines).values()
            order += [(index, chunk) for chunk in dict.fromkeys(chunks)]
    rows = lookup.join(connection, (chunk for _, chunk in order), ask.filters)
    found = [(index, rows[chunk]) for index, chunk in order if chunk in rows]
    return [Candidate(index, row, 1.0, {"exact": rank}) for rank, (index, row) in enumerate(found, 1)], unread


# --- the answer ---------------------------------------------------------------------------------------------


def answered(stores: Stores, ask: Ask, places: Sequence[Candidate], sure: float) -> Answer:
    folded = (
        fold.fold(places, ask.limit) if ask.mode != "exact" else [(candidate, []) for candidate in places[: ask.limit]]
    )
    stems: dict[int, set[str]] = {}
    for candidate, _ in folded:
        stems.setdefault(candidate.index.id, set()).add(candidate.row["stem"])
    shared = {number: lookup.shared_stems(stores.ledger.reader, number, names) for number, names in stems.items()}
    hits: list[Hit] = [hit_of(candidate, also, shared[candidate.index.id], ask) for candidate, also in folded]
    sure = sure if hits else 0.0
    return Answer(hits, certainty.verdict(bool(hits), sure), sure, len(places))
