"""Cuts chunks into lines that can answer by themselves, and reads what ranking looks at in each. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


def _asks(text: str) -> bool:
    """Whether it ends with a question mark, not counting an aside in brackets."""
    end = text.rstrip("*_ ")
    return (ASIDE.sub("", end).rstrip("*_ ") if end.endswith("]") else end).endswith("?")
