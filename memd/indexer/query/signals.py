"""The signals that ranking weighs, each with its reason, its weight and how it is computed: a new one is an entry here.

Below them, the facts about each candidate of a workspace are gathered and the signals added up.

A chunk's score is the sum of its signals, each on a scale of its own that means the same in every workspace: a share of
what the question's words could earn at most, a nearness in meaning, a nearness in days. Scaling each voice to the best
and worst of its own list, as is common, makes a voice that found nothing loud; docs/retrieval.md says what each gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice, pairwise, takewhile
from sqlite3 import Connection, Row
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.languages import speaks_of_self
from memd.indexer.language.question import ParsedQuestion
from memd.indexer.language.words import telling_words, terms_of
from memd.indexer.query import lookup, wording
from memd.indexer.query.candidates import Candidate
from memd.indexer.query.lines import CACHED, LINES_OF_A_TEXT, ChunkLines, LineUnit, unit_at, units_of
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.wording import Floats, WordMatches
from memd.indexer.store.stores import WorkspaceIndex
from memd.lifecycle.lives import BASE

CORE, EXTRA = "core", "extra"
"""How a signal counts for relevance: the core ones are what it is a share of, others only add to it."""

Values = Floats | Iterable[float] | None


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks for a chunk, or against it."""

    name: str
    weight: float
    values: Callable[[Any], Values]
    """For each candidate, or each line; None where there is nothing to look for."""
    relevance: str = ""


# --- of a chunk ---------------------------------------------------------------------------------------------

PRIORITY = {"low": -1.0, "high": 0.6, "critical": 1.0}
TIER = {"dormant": -1.0, "sensory": -0.5}
"""Enough to put the other of two equals first, never to hide an only answer."""


class ChunkFacts:
    """What is known of the candidates, each in its place."""

    def __init__(
        self, index: WorkspaceIndex, rows: Sequence[Row], memories: CandidateMemories, question: ParsedQuestion,
        words: WordMatches | None, meaning: QuestionVector | None,
    ) -> None:  # fmt: skip
        self.question, self.rows, self.words = question, rows, words
        self.days = [lookup.own_day(row) for row in rows]
        """The day of each note; MEMORY.md has none, whenever it was last changed."""
        dated = zip(rows, self.days, strict=True)
        self.newness = [times.newness(day, question.today, row["role"] == "memory") for row, day in dated]
        own = np.array([memories.place[row["id"]] for row in rows], np.int64)
        docs, earned = np.full(len(memories.chunks), -1), np.zeros(len(memories.chunks))
        self.earned: Floats | None = None
        """What the question's words earn in each, as a share of what they could earn."""
        self.section_earned: Floats | None = None
        """The same in the whole memory of each."""
        if words is not None:
            docs = words.postings.places(np.array(memories.chunks, np.int64))
            known = docs >= 0
            earned[known] = words.earned()[docs[known]]
            sections = words.of_sections(docs[known], memories.memory[known], memories.count)
            self.earned, self.section_earned = earned[own], sections[memories.memory[own]]
        self.docs = docs[own]
        """Their places in the text index, or -1."""
        self.near: Floats | None = None
        """How near each is in meaning, on the model's own scale: 0 is any two notes, 1 a paraphrase, everywhere."""
        self.section_near: Floats | None = None
        """The same of the nearest chunk of its memory."""
        self.translated: NDArray[np.bool_] | None = None
        """Whether each is in another language than the question."""
        if meaning is not None:
            near = _completed(meaning.near(index, memories.chunks), earned)
            best = np.full(memories.count, -1.0)
            np.maximum.at(best, memories.memory, near)
            self.near, self.section_near = near[own], best[memories.memory[own]]
            self.translated = meaning.translated(index, [memories.chunks[at] for at in own])


def _completed(near: Floats, earned: Floats) -> Floats:
    """A chunk without a vector yet is judged by its words: as near as the nearest that has no more of them."""
    unknown = np.isnan(near)
    complete = np.where(unknown, 0.0, near)
    for at in np.flatnonzero(unknown & (earned > 0)):
        complete[at] = np.max(near[~unknown & (earned <= earned[at])], initial=0.0)
    return complete


def _named(chunks: ChunkFacts) -> Values:
    words = chunks.words
    return (words.in_name(row["stem"]) for row in chunks.rows) if words is not None else None


def _written(chunks: ChunkFacts) -> Values:
    written = chunks.words.written if chunks.words is not None else ()
    return np.isin(chunks.docs, written) if len(written) else None


def _codes(chunks: ChunkFacts) -> Values:
    return chunks.words.codes_in(chunks.docs) if chunks.words is not None and chunks.words.coded else None


def _credit(chunks: ChunkFacts) -> Values:
    if chunks.translated is None or chunks.near is None or chunks.section_near is None:
        return None
    credit: Floats = chunks.translated * ((chunks.near + chunks.section_near) / 2).clip(0.0, 1.0)
    return credit


@lru_cache(maxsize=1_000)
def _importance(facts: str) -> float:
    """From -1 to 1: the priority and the importance that the note declares. What fading leaves counts in contexts."""
    declared = json.loads(facts)
    importance = declared.get("importance")
    base = BASE if importance is None else float(importance)
    return max(-1.0, min(1.0, PRIORITY.get(declared.get("priority") or "", 0.0) + 2 * base - 1))


def _kind(chunks: ChunkFacts, kind: str) -> Values:
    return (row["kind"] == kind for row in chunks.rows)


OF_A_CHUNK = (
    # How near the note's day is to a time that the question names.
    Signal("date", 0.7, lambda chunks: (times.nearness(day, chunks.question.times) for day in chunks.days), EXTRA),
    # How new the note is; MEMORY.md and what has no date are neither new nor old.
    Signal("recency", 0.03, lambda chunks: chunks.newness),
    # The priority that a note declares, and its importance, which fades while nobody asks for it.
    Signal("importance", 0.05, lambda chunks: (_importance(row["declared"]) for row in chunks.rows)),
    # A dormant memory stands a little lower.
    Signal("tier", 0.1, lambda chunks: (TIER.get(row["tier"], 0.0) for row in chunks.rows)),
    # So does one that a later memory refines.
    Signal("outdated", -0.15, lambda chunks: (row["outdated"] for row in chunks.rows)),
    # The question asks for the newest.
    Signal("newest", 0.3, lambda chunks: chunks.newness if chunks.question.times.recent else None),
    # The question asks for what is true now, and the note keeps what is known rather than what happened.
    Signal("holds", 0.3, lambda chunks: _kind(chunks, "semantic") if chunks.question.holds else None),
    # A question about time asks for what happened rather than for what is known.
    Signal("episode", 0.05, lambda chunks: _kind(chunks, "episodic") if chunks.question.times.temporal else None),
    # The question's words in the chunk, as a share of what they could earn: the voice that is right most often.
    Signal("words", 1.2, lambda chunks: chunks.earned, CORE),
    # The question's words in the whole memory: what the section is about helps to tell like lines apart.
    Signal("section", 0.9, lambda chunks: chunks.section_earned, CORE),
    # The chunk has every word as the question writes it: no other form of a word, no time that it means, outranks it.
    Signal("written", 1.0, _written, EXTRA),
    # The share of the codes in the question that the chunk has: who names a code wants what is said of it.
    Signal("code", 2.0, _codes, EXTRA),
    # The share of the question's words that the file is called by.
    Signal("name", 0.5, _named, EXTRA),
    # How near the chunk is in meaning.
    Signal("meaning", 0.85, lambda chunks: chunks.near, CORE),
    # The nearest chunk of the memory: what the section means.
    Signal("section_meaning", 1.35, lambda chunks: chunks.section_near, CORE),
    # What a chunk in another language than the question is credited with for the words that it cannot have: as much as
    # chunks of its nearness have in the question's own language.
    Signal("translated", 1.6, _credit, EXTRA),
)

# --- of a line ----------------------------------------------------------------------------------------------

CLOCK = re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b|\b1?\d\s?[ap]\.?m\b")
IS = frozenset(("is", "are", "was", "were", "mean"))

NEIGHBOURS = 4
"""Words of a line that stand so near to each other may belong together; 2 and 8 gave nearly the same."""

_is_own = lru_cache(maxsize=LINES_OF_A_TEXT * CACHED)(speaks_of_self)
"""Asked only where the question is about who asks."""


class AskedWords:
    """The question's words as lines may have them."""

    def __init__(self, words: WordMatches, question: ParsedQuestion) -> None:
        self.most = words.most
        self.weight = words.weight or 1.0
        self.mean_length = words.postings.mean_length("body")
        self.worth = np.array([match.idf * match.share for match in words.matches])
        self.word_of: dict[str, int] = {}
        """Which of the words each form belongs to."""
        # Whole words first: "building" in a line is "build", and not also a longer word that contains "build".
        for nth in sorted(range(len(words.matches)), key=lambda nth: -words.matches[nth].share):
            for term in _terms(words.matches[nth].forms):
                self.word_of.setdefault(term, nth)
        asked = [word.terms[0] for word in telling_words(question.words)]
        self.pairs = {(self.word_of.get(one, -1), self.word_of.get(other, -1)) for one, other in pairwise(asked)}
        """The words that stand beside each other in the question."""
        self.whole = {term for term, nth in self.word_of.items() if words.matches[nth].whole}

    def counts_in(self, unit: LineUnit | None) -> list[int]:
        """How often a line has each word."""
        counts = [0] * len(self.worth)
        if unit is None or self.word_of.keys().isdisjoint(unit.terms):
            return counts
        for term in unit.terms:
            if term in self.word_of:
                counts[self.word_of[term]] += 1
        return counts


def _terms(forms: Iterable[str]) -> tuple[str, ...]:
    """The terms that some forms have in a line; of "self-care" only the whole, since "self" is another word."""
    return tuple(dict.fromkeys(term for form in forms for term in (form, *terms_of(form)[0][:1])))


class LineFacts:
    """What is known of the lines of some chunks, each in its place."""

    def __init__(self, words: AskedWords, question: ParsedQuestion, chunks: Sequence[ChunkLines]) -> None:
        self.question, self.words = question, words
        # All lines in one list, with a gap after each chunk, so that one pass of arithmetic does for all.
        run: list[LineUnit | None] = []
        owner: list[int] = []
        for nth, chunk in enumerate(chunks):
            run += [chunk.before, *chunk.units, chunk.after, None]
            owner += [-1, *[nth] * len(chunk.units), -1, -1]
        own = np.array([at for at, nth in enumerate(owner) if nth >= 0], int)
        self.owner = np.array(owner, int)[own]
        """The number of the chunk that each stands in."""
        self.chunks = [chunks[nth] for nth in self.owner]
        self.units = [unit for unit in (run[at] for at in own) if unit is not None]
        counts = np.array([words.counts_in(unit) for unit in run], float).reshape(len(run), len(words.worth))
        lengths = np.array([len(unit.terms) if unit else 0 for unit in run], float)
        around = [np.roll(rows, 1, 0) + rows + np.roll(rows, -1, 0) for rows in (counts, lengths)]
        self.counts = counts[own]
        """How often each has each word of the question."""
        self.often = around[0][own] / wording.by_length(around[1][own], words.mean_length)[:, None]
        """The same in three lines in a row, by their length."""
        self.had = np.minimum(1.0, (self.counts > 0) @ words.worth / words.weight)
        """The share of the question's words that each has."""
        self.labelled = [not words.word_of.keys().isdisjoint(unit.label) for unit in self.units]
        """Whether each begins with a label that the question names."""


def _own(lines: LineFacts) -> Values:
    if not lines.question.own:
        return None
    return (_is_own(unit.text) and share for unit, share in zip(lines.units, lines.had, strict=True))


def _timed(lines: LineFacts) -> Values:
    dated = ((unit.text, chunk.day) for unit, chunk in zip(lines.units, lines.chunks, strict=True))
    if not lines.question.times.temporal:
        return None
    return (day is not None and bool(times.spans_in_line(text, day)) for text, day in dated)


def _told_date(lines: LineFacts) -> Values:
    asked, both = lines.question.times, zip(lines.units, lines.chunks, strict=True)
    return (times.names_asked_days(unit.text, chunk.day, asked) for unit, chunk in both) if asked.spans else None


def _defines(lines: LineFacts) -> Values:
    return (_is_defined(unit, lines.words.whole) for unit in lines.units) if lines.question.defines else None


def _is_defined(unit: LineUnit, sought: set[str]) -> bool:
    """Whether it says who or what the question asks for: `**Name**: …`, "Name is …"."""
    if unit.label:
        return sought.issuperset(unit.label) and bool(sought)
    first = next((nth for nth, term in enumerate(unit.terms) if term not in sought), 0)
    return first > 0 and unit.terms[first] in IS


def _fact(lines: LineFacts) -> Values:
    both = zip(lines.chunks, lines.labelled, strict=True)
    return (chunk.keeps_facts and labelled for chunk, labelled in both) if lines.question.holds else None


def _clock(lines: LineFacts) -> Values:
    asked = lines.question.holds and lines.question.times.temporal
    return (bool(CLOCK.search(unit.text)) for unit in lines.units) if asked else None


def _pairs(lines: LineFacts) -> Values:
    several = (lines.counts > 0).sum(1) > 1
    return (here and _paired(unit, lines.words) for unit, here in zip(lines.units, several, strict=True))


def _paired(unit: LineUnit, words: AskedWords) -> float:
    """The share of the question's neighbouring words that are neighbours in a line, in the same order."""
    places = [(at, words.word_of[term]) for at, term in enumerate(unit.terms) if term in words.word_of]
    near = {(one, other) for (at, one), (after, other) in combinations(places, 2) if after - at <= NEIGHBOURS}
    return len(words.pairs & near) / max(1, len(words.pairs))


OF_A_LINE = (
    # The question's words in the best three lines in a row, which may reach into the next chunk: an answer is a line or
    # two, and its subject often stands in the line before. A line may have a word and longer words that contain it:
    # that is not more than all.
    Signal(
        "lines",
        1.5,
        lambda lines: np.minimum(1.0, wording.dampened(lines.often) @ lines.words.worth / lines.words.most),
        CORE,
    ),
    # The share of the question's words that a single line has.
    Signal("line", 0.45, lambda lines: lines.had, CORE),
    # The same where the question and the line both speak in the first person: what someone said of themselves is half
    # a sentence of theirs, beside pages of others on the same subject.
    Signal("own", 2.5, _own),
    # The line begins with a label that the question names: who speaks, or what is told.
    Signal("label", 0.15, lambda lines: lines.labelled, EXTRA),
    # A question about time, and the line names one.
    Signal("timed", 0.2, _timed, EXTRA),
    # The line speaks of the very days that the question names, seen from the note's own date.
    Signal("told_date", 0.12, _told_date, EXTRA),
    # The line is a question itself: it asks for what is wanted rather than telling it.
    Signal("asks", -0.04, lambda lines: (unit.asks for unit in lines.units)),
    # The question asks who or what something is, and the line says it: "**Maren**: partner, nurse".
    Signal("defines", 1.5, _defines, EXTRA),
    # It asks for what is true now, and the line of a note of facts is labelled so: "- Backups: restic at 04:15".
    Signal("fact", 0.7, _fact, EXTRA),
    # It asks when something happens that happens again and again, and the line has a time of the day.
    Signal("clock", 0.5, _clock, EXTRA),
    # The share of words beside each other in the question that are neighbours in the line too.
    Signal("pairs", 0.3, _pairs),
)
"""Taken together at the line where they are best together."""

FAINT = 0.18
"""The least relevance of what is about the question: any two notes have less than this in common."""

FAR = 0.25
"""What has less than this share of the best hit's relevance is no answer beside it."""

# --- together -----------------------------------------------------------------------------------------------

WEIGHTS = {signal.name: signal.weight for signal in (*OF_A_CHUNK, *OF_A_LINE)}
RELEVANT = {signal.name: signal.relevance for signal in (*OF_A_CHUNK, *OF_A_LINE) if signal.relevance}


def values_of(signals: Iterable[Signal], facts: ChunkFacts | LineFacts, count: int) -> dict[str, Floats]:
    """The values of each signal that looks for something, for so many chunks or lines."""
    computed = {signal.name: signal.values(facts) for signal in signals}
    return {
        name: np.fromiter(values, float, count) if not isinstance(values, np.ndarray) else values.astype(float)
        for name, values in computed.items()
        if values is not None
    }


def score(values: Mapping[str, Floats]) -> Floats:
    """The sum of all signals, each with its weight."""
    total: Floats = np.sum([WEIGHTS[name] * each for name, each in values.items()], axis=0)
    return total


def relevance(values: Mapping[str, float]) -> float:
    """How much a chunk is about the question, from 0 to 1, on one scale for all questions.

    The signals that come from words and meaning, as a share of their maximum; `1 - (1 - share)²` of that, since a
    passage that has every word once earns about half. Recency, importance and tier do not count.
    """
    most = sum(WEIGHTS[name] for name in values if RELEVANT.get(name) == CORE)
    total = sum(WEIGHTS[name] * value for name, value in values.items() if name in RELEVANT)
    share = min(1.0, max(0.0, total / most)) if most else 0.0
    return 1 - (1 - share) ** 2


# --- weighing the candidates of one workspace ---------------------------------------------------------------

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
    facts = ChunkFacts(index, rows, memories, question, words, meaning)
    parts = values_of(OF_A_CHUNK, facts, len(rows))
    # What has the very words is read whatever the rest means.
    scores = score(parts) + READ_FIRST * parts.get("written", np.zeros(len(rows)))
    if words is not None and rows:
        # What defines a name, or someone says of themselves, is one line beside others that have the words often.
        most = max(READ_DEEP if question.defines or question.own else READ, limit)
        read = np.argsort(-scores, kind="stable")[:most]
        best = best_lines(words, question, _lines(connection, [rows[at] for at in read], memories))
        for name, values in best.items():
            parts[name] = np.zeros(len(rows))
            parts[name][read] = values
        scores = score(parts)
    by_row = np.column_stack(list(parts.values())).tolist()
    return [
        Candidate(index, rows[at], float(scores[at]), {}, dict(zip(parts, by_row[at], strict=True)))
        for at in np.argsort(-scores, kind="stable")
    ]


def best_lines(words: WordMatches, question: ParsedQuestion, chunks: Sequence[ChunkLines]) -> dict[str, Floats]:
    """The signals of each chunk at its best line."""
    lines = LineFacts(AskedWords(words, question), question, chunks)
    found = values_of(OF_A_LINE, lines, len(lines.units))
    order = np.lexsort((-score(found), lines.owner))
    firsts = order[np.searchsorted(lines.owner[order], np.arange(len(chunks)))]
    nothing = np.zeros(len(chunks))
    return {one.name: found[one.name][firsts] if one.name in found else nothing for one in OF_A_LINE}


def read_ahead(rows: Iterable[Row], enough: Callable[[], bool]) -> None:
    """Read the lines of rows that are likely to be weighed, until it is enough."""
    for row in takewhile(lambda _: not enough(), islice(rows, READ)):
        units_of(row["text"], row["language"])


def _lines(connection: Connection, rows: Sequence[Row], memories: CandidateMemories) -> list[ChunkLines]:
    """The lines of each chunk, with the nearest line of the chunks beside it."""
    known = {row["id"]: row for row in rows}
    beside = [(memories.next_to(chunk, -1), memories.next_to(chunk, 1)) for chunk in known]
    around = {chunk for chunks in beside for chunk in chunks if chunk is not None}
    known |= lookup.texts(connection, around - known.keys())

    def line(chunk: int | None, nth: int) -> LineUnit | None:
        row = known.get(chunk or 0)
        return unit_at(row["text"], row["language"], nth) if row is not None and row["text"] else None

    return [
        ChunkLines(
            units_of(row["text"], row["language"]),
            line(before, -1),
            line(after, 0),
            lookup.own_day(row),
            row["kind"] == "semantic",
        )
        for row, (before, after) in zip(rows, beside, strict=True)
    ]
