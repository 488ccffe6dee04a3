"""Cuts chunks into lines that can answer by themselves, and reads what ranking looks at in each. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from memd.indexer.language.languages import foreign_language
from memd.indexer.language.words import only_terms, stems_of

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

ASIDE = re.compile(r"\s*\[[^\]]*\]\s*$")
NO_LABEL: frozenset[str] = frozenset()
CACHED = 10_000
"""Texts whose lines are cached: question after question reads the same notes."""
LINES_OF_A_TEXT = 3
"""On average."""


@dataclass(frozen=True, slots=True)
class LineUnit:
    """One line, with what ranking looks at in it."""

    text: str
    terms: tuple[str, ...]
    """Its terms, repetitions kept."""
    label: frozenset[str]
    asks: bool
    """It is a question itself, so the answer is in the line after it."""


@dataclass(frozen=True, slots=True)
class ChunkLines:
    """The lines of one chunk, with the line before and the line after it in its memory."""

    units: tuple[LineUnit, ...]
    before: LineUnit | None
    after: LineUnit | None
    day: date | None
    keeps_facts: bool = False
    """Whether its memory keeps what is known rather than what happened."""


def units_of(text: str, language: str | None = None) -> tuple[LineUnit, ...]:
    """The lines of a chunk that can answer by themselves: a turn of a conversation, an item, a few sentences.

    `language` is what the ledger knows of the text: empty for English, None if nobody has looked yet.
    """
    language = foreign_language(text) if language is None else language
    return tuple(_unit(line, language) for line in _pieces(text))


def unit_at(text: str, language: str | None, nth: int) -> LineUnit:
    """One of the lines; of the chunks beside a hit no more is needed."""
    return _unit(_pieces(text)[nth], foreign_language(text) if language is None else language)


@lru_cache(maxsize=CACHED)
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


@lru_cache(maxsize=LINES_OF_A_TEXT * CACHED)
def _unit(text: str, language: str) -> LineUnit:
    label = LABEL.match(text) if ":" in text[:40] else None
    return LineUnit(
        text=text,
        terms=tuple(only_terms(text) + stems_of(text, language)),
        label=frozenset(only_terms(label.group(1))) if label else NO_LABEL,
        asks=_asks(text),
    )


def _asks(text: str) -> bool:
    """Whether it ends with a question mark, not counting an aside in brackets."""
    end = text.rstrip("*_ ")
    return (ASIDE.sub("", end).rstrip("*_ ") if end.endswith("]") else end).endswith("?")
