"""Gathers what speaks for each candidate of one workspace: the parts that ranking adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice, takewhile
from sqlite3 import Connection, Row

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.question import ParsedQuestion
from memd.indexer.query import lookup, ranking, signals
from memd.indexer.query.candidates import Candidate, Ids
from memd.indexer.query.lines import LineUnit, first_unit, last_unit, units_of
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.ranking import Floats
from memd.indexer.query.signals import AskedWords, ChunkFacts, LineFacts
from memd.indexer.query.wording import WordMatches
from memd.indexer.store.stores import WorkspaceIndex

READ = 30
"""How many of the best are read line by line: reading 60 or all of them found next to nothing more."""

READ_DEEP = 80
"""The same where the line decides more than the chunk around it."""

READ_FIRST = 10.0
"""More than all other parts of a score together."""


class CandidateMemories:
    """The chunks of the memories that the candidates belong to, in the order of their files."""

    def __init__(self, connection: Connection, rows: Iterable[Row]) -> None:
        siblings = lookup.siblings(connection, {row["memory"] for row in rows})
        self.chunks = [chunk for chunk, _ in siblings]
        self.place = {chunk: at for at, chunk in enumerate(self.chunks)}
        numbers, self.memory = np.unique(np.array([number for _, number in siblings], np.int64), return_inverse=True)
        """By place: which of the memories, counted from 0."""
        self.count = len(numbers)

    def next_to(self, chunk: int, step: int) -> int | None:
        """The chunk before or after another one in its memory."""
        at = self.place[chunk]
        other = at + step
        inside = 0 <= other < len(self.chunks) and self.memory[other] == self.memory[at]
        return self.chunks[other] if inside else None


def weigh(
    connection: Connection, index: WorkspaceIndex, rows: Sequence[Row], question: ParsedQuestion,
    words: WordMatches | None, meaning: QuestionVector | None, limit: int,
) -> list[Candidate]:  # fmt: skip
    """The rows with what speaks for each, best first; the best, at least `limit`, are read line by line."""
    memories = CandidateMemories(connection, rows)
    # A chunk may have gone, or moved to another memory, since its row was read.
    known = (row for row in rows if row["id"] in memories.place)
    rows = sorted(known, key=lambda row: (row["path"], row["start_line"], row["id"]))
    parts = _of_chunks(index, rows, memories, question, words, meaning)
    # What has the very words is read whatever the rest means.
    scores = signals.score(parts) + READ_FIRST * parts.get("written", np.zeros(len(rows)))
    if words is not None and rows:
        # What defines a name, or someone says of themselves, is one line beside others that have the words often.
        most = max(READ_DEEP if question.defines or question.own else READ, limit)
        read = np.argsort(-scores, kind="stable")[:most]
        best = best_lines(words, question, _lines(connection, [rows[at] for at in read], memories))
        for name, values in best.items():
            parts[name] = np.zeros(len(rows))
            parts[name][read] = values
        scores = signals.score(parts)
    by_row = np.column_stack(list(parts.values())).tolist()
    return [
        Candidate(index, rows[at], float(scores[at]), {}, dict(zip(parts, by_row[at], strict=True)))
        for at in np.argsort(-scores, kind="stable")
    ]


# --- the chunks ---------------------------------------------------------------------------------------------


def _of_chunks(
    index: WorkspaceIndex, rows: Sequence[Row], memories: CandidateMemories, question: ParsedQuestion,
    words: WordMatches | None, meaning: QuestionVector | None,
) -> dict[str, Floats]:  # fmt: skip
    own = np.array([memories.place[row["id"]] for row in rows], np.int64)
    days = [lookup.own_day(row) for row in rows]
    earned, sections = np.zeros(len(memories.chunks)), None
    docs = np.full(len(memories.chunks), -1)
    if words is not None:
        docs = words.postings.places(np.array(memories.chunks, np.int64))
        known = docs >= 0
        earned[known] = words.earned()[docs[known]]
        sections = words.of_sections(docs[known], memories.memory[known], memories.count)[memories.memory[own]]
    near = _by_meaning(index, memories, own, meaning, earned) if meaning is not None else (None,) * 3
    facts = ChunkFacts(
        question,
        rows,
        days,
        [times.newness(day, question.today, row["role"] == "memory") for row, day in zip(rows, days, strict=True)],
        words,
        docs[own],
        earned[own] if words is not None else None,
        sections,
        *near,
    )
    return signals.values_of(signals.OF_A_CHUNK, facts, len(rows))


def _by_meaning(
    index: WorkspaceIndex, memories: CandidateMemories, own: Ids, meaning: QuestionVector, earned: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_] | None]:
    """How near each chunk is, how near its memory is, and whether it is in another language than the question."""
    near = _completed(meaning.near(index, memories.chunks), earned)
    best = np.full(memories.count, -1.0)
    np.maximum.at(best, memories.memory, near)
    return near[own], best[memories.memory[own]], meaning.translated(index, [memories.chunks[at] for at in own])


def _completed(near: Floats, earned: Floats) -> Floats:
    """A chunk without a vector yet is judged by its words: as near as the nearest that has no more of them."""
    unknown = np.isnan(near)
    complete = np.where(unknown, 0.0, near)
    for at in np.flatnonzero(unknown & (earned > 0)):
        complete[at] = np.max(near[~unknown & (earned <= earned[at])], initial=0.0)
    return complete


# --- the lines ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChunkLines:
    """The lines of one chunk, with the line before and the line after it in its memory."""

    units: tuple[LineUnit, ...]
    before: LineUnit | None
    after: LineUnit | None
    day: date | None
    keeps_facts: bool = False
    """Whether its memory keeps what is known rather than what happened."""


def best_lines(words: WordMatches, question: ParsedQuestion, chunks: Sequence[ChunkLines]) -> dict[str, Floats]:
    """The signals of each chunk at its best line."""
    # All lines in one list, with a gap after each chunk, so that one pass of arithmetic does for all.
    run: list[LineUnit | None] = []
    owner: list[int] = []
    for nth, chunk in enumerate(chunks):
        run += [chunk.before, *chunk.units, chunk.after, None]
        owner += [-1, *[nth] * len(chunk.units), -1, -1]
    own = np.array([at for at, nth in enumerate(owner) if nth >= 0], int)
    of = np.array(owner, int)[own]
    found = _of_lines(AskedWords(words, question), question, run, own, [chunks[nth] for nth in of])
    order = np.lexsort((-signals.score(found), of))
    firsts = order[np.searchsorted(of[order], np.arange(len(chunks)))]
    nothing = np.zeros(len(chunks))
    return {one.name: found[one.name][firsts] if one.name in found else nothing for one in signals.OF_A_LINE}


def _of_lines(
    words: AskedWords, question: ParsedQuestion, run: list[LineUnit | None], own: Ids, chunks: Sequence[ChunkLines]
) -> dict[str, Floats]:
    counts = np.array([words.counts_in(unit) for unit in run], float).reshape(len(run), len(words.worth))
    lengths = np.array([len(unit.terms) if unit else 0 for unit in run], float)
    around = [np.roll(rows, 1, 0) + rows + np.roll(rows, -1, 0) for rows in (counts, lengths)]
    units = [unit for unit in (run[at] for at in own) if unit is not None]
    facts = LineFacts(
        question,
        words,
        units,
        [chunk.day for chunk in chunks],
        [chunk.keeps_facts for chunk in chunks],
        counts[own],
        around[0][own] / ranking.by_length(around[1][own], words.mean_length)[:, None],
        np.minimum(1.0, (counts[own] > 0) @ words.worth / words.weight),
        [not words.word_of.keys().isdisjoint(unit.label) for unit in units],
    )
    return signals.values_of(signals.OF_A_LINE, facts, len(units))


def read_ahead(rows: Iterable[Row], enough: Callable[[], bool]) -> None:
    """Read the lines of rows that are likely to be weighed, until it is enough."""
    for row in takewhile(lambda _: not enough(), islice(rows, READ)):
        units_of(row["text"], row["language"])


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
            lookup.own_day(row),
            row["kind"] == "semantic",
        )
        for row, (before, after) in zip(rows, beside, strict=True)
    ]
