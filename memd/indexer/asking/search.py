"""The read path: ask the voices, join the ledger, weigh what was found, and hand over hits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from sqlite3 import Row

from memd.indexer.asking import candidates, certainty, evidence, fold, grep, meaning, recall
from memd.indexer.asking.candidates import Pool
from memd.indexer.asking.evidence import Asked, Weighed
from memd.indexer.asking.fusion import reciprocal_ranks
from memd.indexer.asking.hits import hit_of
from memd.indexer.asking.place import Place
from memd.indexer.asking.wording import Wording, listen
from memd.indexer.language import times
from memd.indexer.language.question import Question, narrow, parse
from memd.indexer.language.words import says_something
from memd.indexer.store.stores import Shelf, Stores
from memd.models import Answer, Ask, Filters, Hit

DEPTH = 50
"""How deep each voice is heard."""

DEPTH_DATED = 200
"""The same where a question names a time: what is right by its date may be far down by its words."""


@dataclass(slots=True)
class Found:
    """What one workspace has to say."""

    places: list[Place] = field(default_factory=list)
    wording: Wording | None = None
    near: float | None = None
    """How near the nearest chunk is in meaning."""
    judged: Wording | None = None
    """The question's words without those that name a time: "last week" stands in no note of last week."""
    only_time: bool = False
    """It asks for nothing but a time: "what did we do last week"."""


def search(stores: Stores, ask: Ask, max_bytes: int) -> Answer:
    """Answer a question from the workspaces it names."""
    shelves = [stores.shelf(ns) for ns in ask.ns]
    question = parse(ask.query, ask.day)
    filters = narrow(ask.filters, question.filters)
    if ask.mode == "exact":
        exact, unread = _exact(stores, shelves, ask, max_bytes)
        return replace(answered(stores, ask, exact, 1.0), unread=unread)
    if not (question.words or question.prefixes):
        return answered(stores, ask, newest(stores, shelves, question, filters), 1.0)
    found, places = weighed_places(stores, shelves, ask, question, filters)
    answer = answered(stores, ask, places, sure(places, found))
    wordings = [part.wording for part in found.values() if part.wording is not None]
    corrected = {word: near for wording in wordings for word, near in wording.corrected.items()}
    missing = tuple(dict.fromkeys(word for wording in wordings for word in (*wording.missing, *wording.corrected)))
    return replace(answer, corrected=corrected, missing=missing)


def weighed_places(
    stores: Stores, shelves: Sequence[Shelf], ask: Ask, question: Question, filters: Filters, also: Sequence[int] = ()
) -> tuple[dict[int, Found], list[Place]]:
    """What each workspace has to say, and all candidates, best first; the chunks in `also` are among them."""
    found = {shelf.id: _on_shelf(stores, shelf, ask, question, filters, also) for shelf in shelves}
    return found, sorted((place for part in found.values() for place in part.places), key=_order)


def _order(place: Place) -> tuple[float, str, int]:
    return -place.score, place.row["path"], place.row["start_line"]


def sure(places: Sequence[Place], found: Mapping[int, Found]) -> float:
    """How sure the best hit is."""
    if not places:
        return 0.0
    part = found[places[0].shelf.id]
    dated = places[0].parts.get("date", 0.0)
    if part.judged is None:
        return max(dated if part.only_time else 0.0, certainty.confidence(None, 0.0, part.near))
    if part.only_time:
        return dated
    judged = part.judged
    had = max(judged.had_by(places[0].row["id"]), judged.in_name(places[0].row["stem"]))
    return certainty.confidence(max(judged.known, had), had, part.near, guessed=bool(judged.corrected))


# --- one workspace ------------------------------------------------------------------------------------------


def _on_shelf(
    stores: Stores, shelf: Shelf, ask: Ask, question: Question, filters: Filters, also: Sequence[int]
) -> Found:
    connection = stores.ledger.reader
    postings = shelf.text.postings()
    wording = listen(postings, question.words, question.prefixes) if ask.mode != "vector" else None
    sense = meaning.sense_of(stores, _as_meant(question.words, wording)) if ask.mode != "text" else None
    asked = Asked(wording, sense, times.asked(question.words, ask.day), ask.day)
    among = candidates.allowed(connection, shelf, question, filters, postings)
    depth = max(DEPTH_DATED if asked.times.spans else DEPTH, 2 * ask.limit)
    pool = candidates.gather(stores, shelf, wording, sense, question.words, asked.times, depth, among)
    rows = recall.join(connection, pool.ids.union(also), filters)
    near = None if sense is None else sense.nearness(pool.voices["vector"][0][1] if pool.voices["vector"] else None)
    rest = times.without(question.words, asked.times)
    judged = listen(postings, rest, question.prefixes) if wording is not None and asked.times.spans else wording
    only_time = bool(asked.times.spans) and not (question.prefixes or says_something(rest))
    if ask.fusion == "rrf":
        return Found(_by_ranks(shelf, pool, rows, ask.rrf_k), wording, near, judged, only_time)
    weighed = evidence.weigh(connection, shelf, list(rows.values()), asked, ask.limit)
    return Found(_places(shelf, pool, weighed), wording, near, judged, only_time)


def _as_meant(text: str, wording: Wording | None) -> str:
    """The question with its slips of the hand mended: to the model a mistyped word means nothing."""
    for typed, near in (wording.corrected if wording else {}).items():
        text = re.sub(rf"(?i)\b{re.escape(typed)}\b", near[0], text)
    return text


def _places(shelf: Shelf, pool: Pool, weighed: Weighed) -> list[Place]:
    ranks = _ranks(pool, [row["id"] for row in weighed.rows])
    return [
        Place(shelf, row, float(score), ranks[row["id"]], weighed, at)
        for at, (row, score) in enumerate(zip(weighed.rows, weighed.scores, strict=True))
    ]


def _by_ranks(shelf: Shelf, pool: Pool, rows: dict[int, Row], k: int) -> list[Place]:
    heard = {voice: [chunk for chunk, _ in scored if chunk in rows] for voice, scored in pool.voices.items()}
    for only_names in ("name", "day"):
        heard.pop(only_names, None)
    fused = reciprocal_ranks(heard, k)
    return [Place(shelf, rows[chunk], ranked.score, ranked.ranks) for chunk, ranked in fused.items()]


def _ranks(pool: Pool, known: Sequence[int]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {chunk: {} for chunk in known}
    for voice in ("text", "vector"):
        for chunk, rank in pool.ranks(voice, known).items():
            found[chunk][voice] = rank
    return found


# --- without words, and letter by letter --------------------------------------------------------------------


def newest(stores: Stores, shelves: Sequence[Shelf], question: Question, filters: Filters) -> list[Place]:
    """A question of filters only: what passes them, the newest first."""
    connection = stores.ledger.reader
    places = []
    for shelf in shelves:
        passing = recall.allowed(connection, shelf.id, filters)
        if question.without:
            left = candidates.allowed(connection, shelf, question, filters, shelf.text.postings())
            passing = [] if left is None else left.tolist()
        rows = recall.join(connection, passing, filters).values()
        places += [Place(shelf, row, 1.0, {}) for row in rows]
    places.sort(key=lambda place: (place.row["path"], place.row["start_line"]))
    places.sort(key=lambda place: str(place.row["date"]), reverse=True)
    return places


def _exact(
    stores: Stores, shelves: Sequence[Shelf], ask: Ask, max_bytes: int
) -> tuple[list[Place], dict[str, list[str]]]:
    """Every chunk that has the very letters, in the order in which the files tell it, and the files not taken in."""
    connection = stores.ledger.reader
    order: list[tuple[Shelf, int]] = []
    unread: dict[str, list[str]] = {}
    for shelf in shelves:
        for path, lines, digest in grep.lines_with(shelf, ask.query, max_bytes):
            # Asked before the chunks are: what is taken in between the two is there, not missed.
            if recall.digest_of(connection, shelf.id, path) != digest:
                unread.setdefault(shelf.workspace.ns, []).append(path)
            chunks = recall.chunks_at(connection, shelf.id, path, lines).values()
            order += [(shelf, chunk) for chunk in dict.fromkeys(chunks)]
    rows = recall.join(connection, (chunk for _, chunk in order), ask.filters)
    found = [(shelf, rows[chunk]) for shelf, chunk in order if chunk in rows]
    return [Place(shelf, row, 1.0, {"exact": rank}) for rank, (shelf, row) in enumerate(found, 1)], unread


# --- the answer ---------------------------------------------------------------------------------------------


def answered(stores: Stores, ask: Ask, places: Sequence[Place], sure: float) -> Answer:
    folded = fold.fold(places, ask.limit) if ask.mode != "exact" else [(place, []) for place in places[: ask.limit]]
    stems: dict[int, set[str]] = {}
    for place, _ in folded:
        stems.setdefault(place.shelf.id, set()).add(place.row["stem"])
    shared = {number: recall.shared_stems(stores.ledger.reader, number, names) for number, names in stems.items()}
    hits: list[Hit] = [hit_of(place, also, shared[place.shelf.id], ask) for place, also in folded]
    sure = sure if hits else 0.0
    return Answer(hits, certainty.verdict(bool(hits), sure), sure, len(places))
