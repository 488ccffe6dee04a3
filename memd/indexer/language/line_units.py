"""Cuts a chunk into the lines that can answer by themselves: a turn of a talk, an item, a few sentences. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from memd.indexer.language.words import only_terms

LONG = 300
PIECE = 220
"""A longer paragraph is taken in pieces of about this many characters: one answer rarely needs more."""

PARAGRAPH = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d+[.)])[ \t])")
HEADINGS = re.compile(r"\A(?:\s*#{1,6}(?:[ \t][^\n]*)?(?:\n|\Z))+")
"""Not every writer leaves a blank line below a heading."""

SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+")
LABEL = re.compile(r"(?:[-*+]\s+|\d+[.)]\s+)?\*{0,2}([^\W_][\w .'’-]{0,30}?)\*{0,2}:\*{0,2}(?:\s|$)")
"""What stands before the colon that opens a line: who speaks, or what is told."""

ASIDE = re.compile(r"\s*\[[^\]]*\]\s*$")
CACHED = 20_000
"""Texts that are kept as they were cut: the same notes are read for question after question."""


@dataclass(frozen=True, slots=True)
class LineUnit:
    """One line, with what a question may ask of it."""

    text: str
    counts: Mapping[str, int]
    """How often it has each term."""
    length: int
    label: frozenset[str]
    asks: bool
    """It is a question itself, so that the answer stands in the line after it."""


def units_of(text: str) -> tuple[LineUnit, ...]:
    """The units of a chunk."""
    return tuple(_unit(piece) for piece in _pieces(text))


def first_unit(text: str) -> LineUnit:
    return _unit(_pieces(text)[0])


def last_unit(text: str) -> LineUnit:
    return _unit(_pieces(text)[-1])


@lru_cache(maxsize=CACHED)
def _pieces(text: str) -> list[str]:
    found: list[str] = []
    for paragraph in PARAGRAPH.split(text):
        plain = HEADINGS.sub("", paragraph).strip()
        if plain:
            found += [plain] if len(plain) <= LONG else _sentences(plain)
    return found or [text.strip()]


def _sentences(paragraph: str) -> list[str]:
    """Sentences together, as many as make a piece."""
    pieces: list[str] = []
    for sentence in SENTENCE.split(paragraph):
        if pieces and len(pieces[-1]) + len(sentence) < PIECE:
            pieces[-1] += f" {sentence}"
        else:
            pieces.append(sentence)
    return pieces


@lru_cache(maxsize=3 * CACHED)
def _unit(text: str) -> LineUnit:
    label, terms = LABEL.match(text) if ":" in text[:40] else None, only_terms(text)
    return LineUnit(
        text=text,
        counts=Counter(terms),
        length=len(terms),
        label=frozenset(only_terms(label.group(1))) if label else frozenset(),
        asks=_asks(text),
    )


def _asks(text: str) -> bool:
    """Whether it ends with a question mark, an aside in brackets apart."""
    end = text.rstrip("*_ ")
    return (ASIDE.sub("", end).rstrip("*_ ") if end.endswith("]") else end).endswith("?")
