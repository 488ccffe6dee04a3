"""Cuts chunks into lines, and finds the line of each that answers best: its words, its label, its times. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.question import ParsedQuestion
from memd.indexer.language.times import names_asked_days, spans_in_line
from memd.indexer.language.tongues import foreign_language, speaks_of_self
from memd.indexer.language.words import only_terms, stems_of, telling_words, terms_of
from memd.indexer.query import ranking
from memd.indexer.query.ranking import Floats
from memd.indexer.query.wording import WordMatches

Places = NDArray[np.int64]

LONG = 300
PIECE = 220
"""A longer paragraph is cut into pieces of about this many characters: an answer rarely needs more."""

PARAGRAPH = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d+[.)])[ \t])")
HEADINGS = re.compile(r"\A(?:\s*#{1,6}(?:[ \t][^\n]*)?(?:\n|\Z))+")
"""Not every writer leaves a blank line below a heading."""

SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+")
LABEL = re.compile(
    r"(?:[-*+]\s+|\d+[.)]\s+)?\*{0,2}([^\W_][\w .'’-]{0,30}?)\*{0,2}(?:\s\([^)]{1,30}\))?:\*{0,2}(?:\s|$)"
)
"""The text before the colon that opens a line: who speaks, or what it is about."""

CLOCK = re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b|\b1?\d\s?[ap]\.?m\b")
IS = frozenset(("is", "are", "was", "were", "mean"))

NEIGHBOURS = 4
"""Words of a line that stand so near to each other may belong together; 2 and 8 gave nearly the same."""

ASIDE = re.compile(r"\s*\[[^\]]*\]\s*$")
NO_LABEL: frozenset[str] = frozenset()
CACHED = 10_000
"""Texts whose lines are cached: question after question reads the same notes."""


@dataclass(frozen=True, slots=True)
class LineUnit:
    """One line, with what ranking looks at in it."""

    text: str
    terms: tuple[str, ...]
    """Its terms, repetitions kept."""
    label: frozenset[str]
    asks: bool
    """It is a question itself, so the answer is in the line after it."""


class _TextLines:
    """The lines of one text, each read when it is first needed: of the chunks beside a hit that is one."""

    __slots__ = ("_language", "_lines")

    def __init__(self, text: str, language: str | None) -> None:
        self._language = foreign_language(text) if language is None else language
        self._lines: list[str | LineUnit] = [*_pieces(text)]

    def at(self, nth: int) -> LineUnit:
        line = self._lines[nth]
        if isinstance(line, str):
            line = self._lines[nth] = _unit(line, self._language)
        return line

    def every(self) -> tuple[LineUnit, ...]:
        return tuple(map(self.at, range(len(self._lines))))


_lines_of = lru_cache(maxsize=CACHED)(_TextLines)


def units_of(text: str, language: str | None = None) -> tuple[LineUnit, ...]:
    """The lines of a chunk that can answer by themselves: a turn of a conversation, an item, a few sentences.

    `language` is what the ledger knows of the text: empty for English, None if nobody has looked yet.
    """
    return _lines_of(text, language).every()


def first_unit(text: str, language: str | None) -> LineUnit:
    return _lines_of(text, language).at(0)


def last_unit(text: str, language: str | None) -> LineUnit:
    return _lines_of(text, language).at(-1)


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for paragraph in PARAGRAPH.split(text):
        plain = HEADINGS.sub("", paragraph).strip()
        if plain:
            pieces += [plain] if len(plain) <= LONG else _sentences(plain)
    return pieces or [text.strip()]


def _sentences(paragraph: str) -> list[str]:
    """Sentences, joined up to the length of a piece."""
    pieces: list[str] = []
    for sentence in SENTENCE.split(paragraph):
        if pieces and len(pieces[-1]) + len(sentence) < PIECE:
            pieces[-1] += f" {sentence}"
        else:
            pieces.append(sentence)
    return pieces


def _unit(text: str, language: str) -> LineUnit:
    label = LABEL.match(text) if ":" in text[:40] else None
    return LineUnit(
        text=text,
        terms=tuple(only_terms(text) + stems_of(text, language)),
        label=frozenset(only_terms(label.group(1))) if label else NO_LABEL,
        asks=_asks(text),
    )


_is_own = lru_cache(maxsize=3 * CACHED)(speaks_of_self)
"""Asked only where the question is about who asks."""


def _asks(text: str) -> bool:
    """Whether it ends with a question mark, not counting an aside in brackets."""
    end = text.rstrip("*_ ")
    return (ASIDE.sub("", end).rstrip("*_ ") if end.endswith("]") else end).endswith("?")


# --- the best line ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChunkLines:
    """The lines of one chunk, with the line before and the line after it in its memory."""

    units: tuple[LineUnit, ...]
    before: LineUnit | None
    after: LineUnit | None
    day: date | None
    facts: bool = False
    """Whether its memory keeps what is known rather than what happened."""


class LineFinder:
    """Finds a question's words and times in lines."""

    def __init__(self, words: WordMatches, question: ParsedQuestion) -> None:
        self.times = question.times
        self.defines = question.defines
        self.own = question.own
        self.holds = question.holds
        self.asks_time = question.holds and question.times.temporal
        self.most = words.most
        self.weight = words.weight or 1.0
        self.mean = words.postings.mean_length("body")
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
        self._whole = {term for term, nth in self.word_of.items() if words.matches[nth].whole}

    def best(self, chunks: Sequence[ChunkLines]) -> dict[str, Floats]:
        """The parts of each chunk at its best line."""
        # All lines in one list, with a gap after each chunk, so that one pass of arithmetic does for all.
        run: list[LineUnit | None] = []
        owner: list[int] = []
        for nth, chunk in enumerate(chunks):
            run += [chunk.before, *chunk.units, chunk.after, None]
            owner += [-1, *[nth] * len(chunk.units), -1, -1]
        own = np.array([at for at, nth in enumerate(owner) if nth >= 0], int)
        of = np.array(owner, int)[own]
        parts = self._parts(run, own, [chunks[nth] for nth in of])
        worth = parts @ np.array([ranking.WEIGHTS[name] for name in ranking.OF_A_LINE])
        order = np.lexsort((-worth, of))
        firsts = order[np.searchsorted(of[order], np.arange(len(chunks)))]
        return {name: parts[firsts, nth] for nth, name in enumerate(ranking.OF_A_LINE)}

    def _parts(self, run: list[LineUnit | None], own: Places, chunks: Sequence[ChunkLines]) -> Floats:
        """A row for each line, a column for each part."""
        counts = np.array([self._counts(unit) for unit in run], float).reshape(len(run), len(self.worth))
        lengths = np.array([len(unit.terms) if unit else 0 for unit in run], float)
        around = [np.roll(rows, 1, 0) + rows + np.roll(rows, -1, 0) for rows in (counts, lengths)]
        often = around[0][own] / ranking.by_length(around[1][own], self.mean)[:, None]
        units = [unit for unit in (run[at] for at in own) if unit is not None]
        dated = [(unit, chunk.day) for unit, chunk in zip(units, chunks, strict=True)]
        labelled = [not self.word_of.keys().isdisjoint(unit.label) for unit in units]
        line = np.minimum(1.0, (counts[own] > 0) @ self.worth / self.weight)

        def only_if(asked: bool, values: Iterable[float]) -> Floats:
            """Most questions ask for few of these, and what they do not ask for is not looked for."""
            return np.fromiter(values, float, len(units)) if asked else np.zeros(len(units))

        return np.column_stack(
            (
                # A line may have a word and longer words that contain it: that is not more than all.
                np.minimum(1.0, ranking.dampened(often) @ self.worth / self.most),
                line,
                only_if(self.own, (_is_own(unit.text) and share for unit, share in zip(units, line, strict=True))),
                labelled,
                only_if(
                    self.times.temporal,
                    (day is not None and bool(spans_in_line(unit.text, day)) for unit, day in dated),
                ),
                only_if(bool(self.times.spans), (names_asked_days(unit.text, day, self.times) for unit, day in dated)),
                [unit.asks for unit in units],
                only_if(self.defines, map(self._is_defined, units)),
                only_if(self.holds, (chunk.facts and here for chunk, here in zip(chunks, labelled, strict=True))),
                only_if(self.asks_time, (bool(CLOCK.search(unit.text)) for unit in units)),
                [
                    several and self._paired(unit)
                    for unit, several in zip(units, (counts[own] > 0).sum(1) > 1, strict=True)
                ],
            )
        ).astype(float)

    def _counts(self, unit: LineUnit | None) -> list[int]:
        """How often a line has each word."""
        counts = [0] * len(self.worth)
        if unit is None or self.word_of.keys().isdisjoint(unit.terms):
            return counts
        for term in unit.terms:
            if term in self.word_of:
                counts[self.word_of[term]] += 1
        return counts

    def _paired(self, unit: LineUnit) -> float:
        """The share of the question's neighbouring words that are neighbours in a line, in the same order."""
        places = [(at, self.word_of[term]) for at, term in enumerate(unit.terms) if term in self.word_of]
        near = {(one, other) for (at, one), (after, other) in combinations(places, 2) if after - at <= NEIGHBOURS}
        return len(self.pairs & near) / max(1, len(self.pairs))

    def _is_defined(self, unit: LineUnit) -> bool:
        """Whether it says who or what the question asks for: `**Name**: …`, "Name is …"."""
        if unit.label:
            return self._whole.issuperset(unit.label) and bool(self._whole)
        first = next((nth for nth, term in enumerate(unit.terms) if term not in self._whole), 0)
        return first > 0 and unit.terms[first] in IS


def _terms(forms: Iterable[str]) -> tuple[str, ...]:
    """The terms that some forms have in a line; of "self-care" only the whole, since "self" is another word."""
    return tuple(dict.fromkeys(term for form in forms for term in (form, *terms_of(form)[0][:1])))
