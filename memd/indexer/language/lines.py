"""Cuts chunks into lines that can answer by themselves, and reads what ranking looks at in each. Pure."""

import re
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from memd.indexer.language.languages import speaks_of_self
from memd.indexer.language.times import spans
from memd.indexer.language.words import only_terms, stems_of, terms_of

LONG = 300
PIECE = 219
"""A longer paragraph is cut into pieces of about this many characters: an answer rarely needs more."""

PARAGRAPH = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d+[.)])[ \t])")
HEADINGS = re.compile(r"\A(?:\s*#{1,6}(?:[ \t][^\n]*)?(?:\n|\Z))+")
"""Not every writer leaves a blank line below a heading."""

SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+")
LABEL = re.compile(
    r"(?:[-*+]\s+|(\d+)[.)]\s+)?\*{0,2}([^\W_][\w .'’-]{0,30}?)\*{0,2}(?:\s\([^)]{1,30}\))?:\*{0,2}(?:\s|$)"
)
"""The text before the colon that opens a line: who speaks, or what it is about; before it, the number of an item."""
MOST_LABEL = 255

ASIDE = re.compile(r"\s*\[[^\]]*\]\s*$")
CLOCK = re.compile(r"(?=\d)\b(?:(?:[01]?\d|2[0-3]):[0-5]\d|1?\d\s?[ap]\.?m)\b")
LEAP_DAY = date(2024, 2, 29)
"""A line names a time whatever the day of its note; this one makes every day of the calendar one."""

ASKS, HAS_CLOCK, IS_OWN, NAMES_TIME, NUMBERED = (1 << bit for bit in range(5))
"""A line is a question itself, so the answer is in the line after it; it has a time of the day; it speaks in the first
person; it names a day or a span of time; its first term is the number of an item, before its label."""


class Line(NamedTuple):
    """One line, with what ranking looks at in it."""

    terms: list[str]
    """Its terms, repetitions kept."""
    label: int = 0
    """So many of its first terms are its label."""
    flags: int = 0


def read_lines(text: str, language: str) -> tuple[list[Line], list[str]]:
    """The lines of a chunk, before them its headings as one, and the exact forms of all its words."""
    headings, pieces = cut(text)
    every: list[str] = []
    lines: list[Line] = []
    for piece, flags in zip((headings, *pieces), (0, *(_flags(piece, language) for piece in pieces)), strict=True):
        terms, exact = terms_of(piece)
        label = LABEL.match(piece) if ":" in piece[:40] else None
        named = min(MOST_LABEL, len(only_terms(label.group(2)))) if label else 0
        number = NUMBERED if label and label.group(1) else 0
        lines.append(Line(terms + stems_of(piece, language), named, flags | number))
        every += exact
    return lines, every


def cut(text: str) -> tuple[str, list[str]]:
    """The headings of a chunk, and its lines that can answer by themselves: a turn of a talk, an item, a few sentences.

    There is at least one line.
    """
    headings, pieces = "", list[str]()
    for paragraph in PARAGRAPH.split(text):
        if above := HEADINGS.match(paragraph):
            headings += above.group()
        plain = paragraph[above.end() if above else 0 :].strip()
        if plain:
            pieces += [plain] if len(plain) <= LONG else joined(SENTENCE.split(plain), PIECE)
    return (headings, pieces) if pieces else ("", [text.strip()])


def joined(sentences: Iterable[str], most: int) -> list[str]:
    """Sentences; short ones in a row are one piece, up to a length."""
    pieces: list[str] = []
    for sentence in sentences:
        if pieces and len(pieces[-1]) + len(sentence) <= most:
            pieces[-1] += f" {sentence}"
        elif sentence.strip():
            pieces.append(sentence)
    return pieces


def _flags(line: str, language: str) -> int:
    return (
        ASKS * _asks(line)
        | HAS_CLOCK * bool(CLOCK.search(line))
        | IS_OWN * speaks_of_self(line)
        | NAMES_TIME * bool(spans(line, LEAP_DAY, language))
    )


def _asks(text: str) -> bool:
    """Whether it ends with a question mark, not counting an aside in brackets."""
    end = text.rstrip("*_ ")
    return (ASIDE.sub("", end).rstrip("*_ ") if end.endswith("]") else end).endswith("?")
