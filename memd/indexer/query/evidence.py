"""Gathers what speaks for each candidate of one workspace: the parts that ranking adds up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from itertools import islice, takewhile
from sqlite3 import Connection, Row

import numpy as np

from memd.indexer.language import times
from memd.indexer.language.question import ParsedQuestion
from memd.indexer.query import lookup, ranking
from memd.indexer.query.candidates import Ids, Voices
from memd.indexer.query.lines import ChunkLines, LineFinder, LineUnit, first_unit, last_unit, units_of
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.ranking import Floats
from memd.indexer.store.stores import WorkspaceIndex
from memd.lifecycle.lives import BASE

READ = 30
"""How many of the best are read line by line: reading 60 or all of them found next to nothing more."""

READ_DEEP = 80
"""The same where the line decides more than the chunk around it."""

READ_FIRST = 10.0
"""More than all other parts of a score together."""

PRIORITY = {"low": -1.0, "high": 0.6, "critical": 1.0}
TIER = {"dormant": -1.0, "sensory": -0.5}
"""Enough to put the other of two equals first, never to hide an only answer."""


@dataclass(slots=True)
class Evidence:
    """What speaks for each row, part by part, and the scores; best first."""

    rows: list[Row]
    parts: dict[str, Floats]
    scores: Floats
    ties: Ids
    """Their order among equals, so that it never wavers."""

    def sorted(self) -> Evidence:
        return self._only(np.lexsort((self.ties, -self.scores)))

    def _only(self, places: Ids) -> Evidence:
        return Evidence(
            [self.rows[at] for at in places],
            {name: values[places] for name, values in self.parts.items()},
            self.scores[places],
            self.ties[places],
        )

    def parts_by_row(self) -> list[dict[str, float]]:
        columns = np.column_stack(list(self.parts.values())).tolist()
        return [dict(zip(self.parts, values, strict=True)) for values in columns]


@dataclass(frozen=True, slots=True)
class CandidateMemories:
    """The chunks of the memories that the candidates belong to, in the order of their files."""

    siblings: Sequence[tuple[int, int]]
    """Each chunk with the number of its memory."""
    chunks: Ids
    memory: Ids
    """By place: which of the memories, counted from 0."""
    place: dict[int, int]

    @property
    def count(self) -> int:
        return int(self.memory.max(initial=-1)) + 1

    def next_to(self, chunk: int, step: int) -> int | None:
        """The chunk before or after another one in its memory."""
        at = self.place[chunk]
        other = at + step
        inside = 0 <= other < len(self.siblings) and self.siblings[other][1] == self.siblings[at][1]
        return self.siblings[other][0] if inside else None


def weigh(
    connection: Connection,
    index: WorkspaceIndex,
    rows: Iterable[Row],
    question: ParsedQuestion,
    voices: Voices,
    limit: int,
) -> Evidence:
    """Everything that speaks for these rows; the best of them, at least `limit`, are read line by line."""
    rows = list(rows)
    memories = _memories(connection, rows)
    # A chunk may have gone, or moved to another memory, since its row was read.
    known = (row for row in rows if row["id"] in memories.place)
    rows = sorted(known, key=lambda row: (row["path"], row["start_line"], row["id"]))
    parts = _parts(index, rows, memories, question, voices)
    # What has the very words is read whatever the rest means.
    promise = ranking.score(parts) + READ_FIRST * parts.get("written", np.zeros(len(rows)))
    found = Evidence(rows, parts, promise, np.arange(len(rows))).sorted()
    if voices.words is None or not rows:
        return found
    # What defines a name, and what someone says of themselves, is one line beside others that have the words often.
    read = found.rows[: max(READ_DEEP if question.defines or question.own else READ, limit)]
    best = LineFinder(voices.words, question).best(_lines(connection, read, memories))
    for name, values in best.items():
        found.parts[name] = np.concatenate((values, np.zeros(len(found.rows) - len(read))))
    return replace(found, scores=ranking.score(found.parts)).sorted()


# --- the parts of a chunk -----------------------------------------------------------------------------------


def _parts(
    index: WorkspaceIndex, rows: Sequence[Row], memories: CandidateMemories, question: ParsedQuestion, voices: Voices
) -> dict[str, Floats]:
    own = np.array([memories.place[row["id"]] for row in rows], np.int64)
    days = [_day(row) for row in rows]
    ages = [times.newness(day, question.today, row["role"] == "memory") for row, day in zip(rows, days, strict=True)]
    parts = {
        "date": np.array([times.nearness(day, question.times) if question.times.spans else 0.0 for day in days]),
        "recency": np.array(ages),
        "importance": np.array([_importance(row["declared"]) for row in rows]),
        "tier": np.array([TIER.get(row["tier"], 0.0) for row in rows]),
        "outdated": np.array([float(row["outdated"]) for row in rows]),
    }
    if question.times.recent:
        parts["newest"] = parts["recency"]
    if question.holds:
        parts["holds"] = np.array([_facts(row) for row in rows], float)
    if question.times.temporal:
        parts["episode"] = np.array([row["kind"] == "episodic" for row in rows], float)
    earned = np.zeros(len(memories.chunks))
    if voices.words is not None:
        docs = voices.words.postings.places(memories.chunks)
        known = docs >= 0
        earned[known] = voices.words.earned()[docs[known]]
        sections = voices.words.of_sections(docs[known], memories.memory[known], memories.count)
        parts |= {"words": earned[own], "section": sections[memories.memory[own]]}
        stems = [row["stem"] for row in rows]
        named = {stem: voices.words.in_name(stem) for stem in set(stems)}
        if len(voices.words.written):
            parts["written"] = np.isin(docs[own], voices.words.written).astype(float)
        if voices.words.coded:
            parts["code"] = voices.words.codes_in(docs[own])
        parts["name"] = np.array([named[stem] for stem in stems])
    if voices.meaning is not None:
        parts |= _by_meaning(index, memories, own, voices.meaning, earned)
        if (translated := voices.meaning.translated(index, memories.chunks[own].tolist())) is not None:
            near = (parts["meaning"] + parts["section_meaning"]) / 2
            parts["translated"] = translated * near.clip(0.0, 1.0)
    return parts


def _by_meaning(
    index: WorkspaceIndex, memories: CandidateMemories, own: Ids, meaning: QuestionVector, earned: Floats
) -> dict[str, Floats]:
    near = _completed(meaning.near(index, memories.chunks.tolist()), earned)
    best = np.full(memories.count, -1.0)
    np.maximum.at(best, memories.memory, near)
    return {"meaning": near[own], "section_meaning": best[memories.memory[own]]}


def _completed(near: Floats, earned: Floats) -> Floats:
    """A chunk without a vector yet is judged by its words: as near as the nearest that has no more of them."""
    unknown = np.isnan(near)
    complete = np.where(unknown, 0.0, near)
    for at in np.flatnonzero(unknown & (earned > 0)):
        complete[at] = near[~unknown & (earned <= earned[at])].max(initial=0.0)
    return complete


def _day(row: Row) -> date | None:
    """The note's own day; MEMORY.md has none, whenever it was last changed."""
    return None if row["role"] == "memory" else lookup.day_of(row)


def _facts(row: Row) -> bool:
    return bool(row["kind"] == "semantic")


@lru_cache(maxsize=1_000)
def _importance(facts: str) -> float:
    """From -1 to 1: the priority and the importance that the note declares. What fading leaves counts in contexts."""
    declared = json.loads(facts)
    importance = declared.get("importance")
    base = BASE if importance is None else float(importance)
    return max(-1.0, min(1.0, PRIORITY.get(declared.get("priority") or "", 0.0) + 2 * base - 1))


# --- the lines ----------------------------------------------------------------------------------------------


def read_ahead(rows: Iterable[Row], enough: Callable[[], bool]) -> None:
    """Read the lines of rows that are likely to be weighed, until it is enough."""
    for row in takewhile(lambda _: not enough(), islice(rows, READ)):
        units_of(row["text"], row["language"])


def _memories(connection: Connection, rows: Sequence[Row]) -> CandidateMemories:
    siblings = lookup.siblings(connection, {row["memory"] for row in rows})
    chunks = np.array([chunk for chunk, _ in siblings], np.int64)
    _, memory = np.unique(np.array([number for _, number in siblings], np.int64), return_inverse=True)
    return CandidateMemories(siblings, chunks, memory, {chunk: at for at, (chunk, _) in enumerate(siblings)})


def _lines(connection: Connection, rows: Sequence[Row], memories: CandidateMemories) -> list[ChunkLines]:
    """The lines of each chunk, with the nearest line of the chunks beside it."""
    known = {row["id"]: row for row in rows}
    beside = [(memories.next_to(chunk, -1), memories.next_to(chunk, 1)) for chunk in known]
    around = {chunk for chunks in beside for chunk in chunks if chunk is not None}
    known |= lookup.texts_in_language(connection, around - known.keys())

    def one(chunk: int | None, unit: Callable[[str, str | None], LineUnit]) -> LineUnit | None:
        row = known.get(chunk or 0)
        return unit(row["text"], row["language"]) if row is not None and row["text"] else None

    return [
        ChunkLines(
            units_of(row["text"], row["language"]),
            one(before, last_unit),
            one(after, first_unit),
            _day(row),
            _facts(row),
        )
        for row, (before, after) in zip(rows, beside, strict=True)
    ]
