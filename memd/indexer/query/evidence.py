"""Gathers what speaks for each candidate of one workspace: the parts that ranking adds up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from sqlite3 import Connection, Row

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.line_units import LineUnit, first_unit, last_unit, units_of
from memd.indexer.query import lookup, meaning, ranking
from memd.indexer.query.best_lines import ChunkLines, LineFinder
from memd.indexer.query.ranking import Floats
from memd.indexer.query.wording import QuestionWords
from memd.indexer.store.stores import WorkspaceIndex

Ids = NDArray[np.int64]

READ = 30
"""How many of the best are read line by line: reading 60 or all of them found next to nothing more."""

PRIORITY = {"low": -1.0, "high": 0.6, "critical": 1.0}
TIER = {"dormant": -1.0, "sensory": -0.5}
"""Enough to let the other of two equals be first, never to hide an only answer."""


@dataclass(frozen=True, slots=True)
class EvidenceQuery:
    """A question as the evidence for it is gathered: its words, its meaning, its times."""

    wording: QuestionWords | None
    sense: meaning.QuestionVector | None
    times: times.AskedTimes
    today: date


@dataclass(slots=True)
class WeighedCandidates:
    """Candidates with the parts of their scores, best first."""

    rows: list[Row]
    parts: dict[str, Floats]
    scores: Floats

    def only(self, places: Ids) -> WeighedCandidates:
        return WeighedCandidates(
            [self.rows[at] for at in places],
            {name: values[places] for name, values in self.parts.items()},
            self.scores[places],
        )


@dataclass(frozen=True, slots=True)
class CandidateMemories:
    """The chunks of the memories that the candidates belong to, in the order of their files."""

    chunks: Ids
    memory: Ids
    """By place: which of the memories, counted from 0."""
    place: dict[int, int]

    def next_to(self, chunk: int, step: int) -> int | None:
        """The chunk before or after one in its memory."""
        at = self.place[chunk]
        other = at + step
        inside = 0 <= other < len(self.chunks) and self.memory[other] == self.memory[at]
        return int(self.chunks[other]) if inside else None


def weigh(
    connection: Connection, index: WorkspaceIndex, rows: Sequence[Row], asked: EvidenceQuery, most: int
) -> WeighedCandidates:
    """Everything that speaks for these candidates; the best of them, at least `most`, are read line by line."""
    family = _family(connection, rows)
    # A chunk may have gone, or moved to another memory, since its row was read.
    rows = [row for row in rows if row["id"] in family.place]
    parts = _parts(index, rows, family, asked)
    found = WeighedCandidates(rows, parts, ranking.score(parts))
    found = found.only(_order(found))
    if asked.wording is None or not rows:
        return found
    read = found.rows[: max(READ, most)]
    best = LineFinder(asked.wording, asked.times).best(_passages(connection, read, family))
    for name, values in best.items():
        found.parts[name] = np.concatenate((values, np.zeros(len(found.rows) - len(read))))
    found.scores = ranking.score(found.parts)
    return found.only(_order(found))


def _order(found: WeighedCandidates) -> Ids:
    """By score; among equals by where they stand, so that order never wavers."""
    where = [(-found.scores[at], row["path"], row["start_line"], row["id"]) for at, row in enumerate(found.rows)]
    return np.array(sorted(range(len(where)), key=where.__getitem__), np.int64)


# --- the parts of a chunk -----------------------------------------------------------------------------------


def _parts(
    index: WorkspaceIndex, rows: Sequence[Row], family: CandidateMemories, asked: EvidenceQuery
) -> dict[str, Floats]:
    own = np.array([family.place[row["id"]] for row in rows], np.int64)
    days = [_day(row) for row in rows]
    parts = {
        "date": np.array([times.nearness(day, asked.times) for day in days]),
        "recency": np.array([_newness(row, day, asked) for row, day in zip(rows, days, strict=True)]),
        "importance": np.array([_importance(row["declared"], row["importance"]) for row in rows]),
        "tier": np.array([TIER.get(row["tier"], 0.0) for row in rows]),
        "outdated": np.array([float(row["outdated"]) for row in rows]),
    }
    if asked.times.recent:
        parts["newest"] = parts["recency"]
    if asked.times.temporal:
        parts["episode"] = np.array([row["kind"] == "episodic" for row in rows], float)
    if asked.wording is not None:
        parts |= _by_words(family, own, asked.wording)
        parts["name"] = np.array([asked.wording.in_name(row["stem"]) for row in rows])
    if asked.sense is not None:
        parts |= _by_meaning(index, family, own, asked.sense)
    return parts


def _by_words(family: CandidateMemories, own: Ids, wording: QuestionWords) -> dict[str, Floats]:
    docs = wording.postings.places(family.chunks)
    known = docs >= 0
    earned = np.zeros(len(docs))
    earned[known] = wording.earned()[docs[known]]
    count = int(family.memory.max(initial=-1)) + 1
    sections = wording.of_sections(docs[known], family.memory[known], count)
    return {"words": earned[own], "section": sections[family.memory[own]]}


def _by_meaning(
    index: WorkspaceIndex, family: CandidateMemories, own: Ids, sense: meaning.QuestionVector
) -> dict[str, Floats]:
    near = sense.near(index, family.chunks.tolist())
    best = np.full(int(family.memory.max(initial=-1)) + 1, -1.0)
    np.maximum.at(best, family.memory, near)
    return {"meaning": near[own], "section_meaning": best[family.memory[own]]}


def _day(row: Row) -> date | None:
    """The note's own day; MEMORY.md has none, whenever it was last changed."""
    return None if row["role"] == "memory" else lookup.day_of(row)


def _newness(row: Row, day: date | None, asked: EvidenceQuery) -> float:
    return times.newness(day, asked.today, row["role"] == "memory")


def _importance(facts: str, importance: float) -> float:
    """From -1 to 1: the priority that the note declares, and its importance as fading has left it."""
    return max(-1.0, min(1.0, _priority(facts) + 2 * importance - 1))


@lru_cache(maxsize=1_000)
def _priority(facts: str) -> float:
    return PRIORITY.get(json.loads(facts).get("priority") or "", 0.0)


# --- the lines ----------------------------------------------------------------------------------------------


def _family(connection: Connection, rows: Sequence[Row]) -> CandidateMemories:
    found = lookup.siblings(connection, {row["memory"] for row in rows})
    chunks = np.array([chunk for chunk, _ in found], np.int64)
    _, memory = np.unique(np.array([number for _, number in found], np.int64), return_inverse=True)
    return CandidateMemories(chunks, memory, {chunk: at for at, (chunk, _) in enumerate(found)})


def _passages(connection: Connection, rows: Sequence[Row], family: CandidateMemories) -> list[ChunkLines]:
    texts = {row["id"]: row["text"] for row in rows}
    around = {other for row in rows for step in (-1, 1) if (other := family.next_to(row["id"], step)) is not None}
    texts |= lookup.texts(connection, around - texts.keys())

    def beside(row: Row, step: int, unit: Callable[[str], LineUnit]) -> LineUnit | None:
        text = texts.get(family.next_to(row["id"], step) or 0)
        return unit(text) if text else None

    return [
        ChunkLines(units_of(row["text"]), beside(row, -1, last_unit), beside(row, 1, first_unit), _day(row))
        for row in rows
    ]
