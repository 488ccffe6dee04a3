"""Tells pairs that say the same from pairs that only seem to: the same words, numbers and names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from sqlite3 import Connection, Row

from memd.indexer.language.words import query_terms
from memd.indexer.lifecycle.similarity import DEDUP, MERGE, SimilarPair
from memd.notes.metadata import COMMENT
from memd.notes.names import DATE, STAMP

SAME_WORDS = 0.9
"""The least share of their words that duplicates have in common."""

ONE_WRITER = {"memory", "topic", "daily"}
"""Roles of one writer; what others wrote into files of their own is never a duplicate."""

NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
HEADING = re.compile(r"^\s*#{1,6}[ \t].*$", re.MULTILINE)
NAME = re.compile(r"(?<![.!?:]\s)(?<!^)(?<![#>*-]\s)\b[^\W\d_a-z]\w*", re.MULTILINE)
"""A capitalized word that does not begin a sentence."""
NOT = frozenset(
    "no not never none nor cannot without don doesn isn aren wasn won can't n't nicht kein nie ohne".split()
)
WORD = re.compile(r"[^\W\d_]+")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
FEWEST_WORDS, MOST_SENTENCES = 3, 30
"""Shorter sentences say too little to be refined; of a long note only the first sentences are compared."""


@dataclass(slots=True)
class Duplicates:
    """What similar pairs turned out to be."""

    duplicates: list[tuple[int, int, SimilarPair]] = field(default_factory=list)
    """The memory that stays, and the one that says the same."""
    refined: list[tuple[int, int, SimilarPair]] = field(default_factory=list)
    """The later of two notes under one heading that say nearly the same, and the earlier one."""
    doubtful: list[SimilarPair] = field(default_factory=list)
    """Nearly the same text with other numbers: one may contradict or replace the other."""


def duplicates(connection: Connection, pairs: Sequence[SimilarPair]) -> Duplicates:
    """Which pairs say the same, and which only nearly; reads only."""
    texts = _texts(connection, {end for pair in pairs for end in (pair.one, pair.other)})
    found, gone = Duplicates(), set[int]()
    for pair in pairs:
        one, other = texts.get(pair.one), texts.get(pair.other)
        if one is None or other is None:
            continue
        earlier, later = sorted((one, other), key=lambda text: (text.date, text.memory))
        if refines(later, earlier):
            found.refined.append((later.memory, earlier.memory, pair))
        elif pair.similarity < MERGE:
            continue
        elif _numbers(one.text) != _numbers(other.text):
            if _words_in_common(one.text, other.text) >= MOSTLY:
                found.doubtful.append(pair)
        elif pair.similarity >= DEDUP and same_words(one.text, other.text) and _one_writer(one, other):
            stays, goes = sorted((one, other), key=_MemoryText.precedence)
            if not goes.exempt and not {stays.memory, goes.memory} & gone:
                gone.add(goes.memory)
                found.duplicates.append((stays.memory, goes.memory, pair))
    return found


MOSTLY = 0.6
"""The least share of words, numbers aside, that two texts have in common if only a number changed."""


@dataclass(frozen=True, slots=True)
class _MemoryText:
    """A memory's text, and what decides which of two stays."""

    memory: int
    role: str
    pinned: bool
    heading: str
    date: str
    first_seen: str
    text: str

    @property
    def exempt(self) -> bool:
        """Pinned memories and `MEMORY.md` are never laid aside."""
        return self.pinned or self.role == "memory"

    def precedence(self) -> tuple[bool, bool, bool, str, int]:
        """Sorts the memory that stays first: pinned, `MEMORY.md`, a topic, the older one."""
        return (not self.pinned, self.role != "memory", self.role != "topic", self.first_seen, self.memory)


def _texts(connection: Connection, memories: Iterable[int]) -> dict[int, _MemoryText]:
    rows = connection.execute(
        "SELECT m.id, m.role, m.declared, m.heading, m.date, m.first_seen, c.text FROM memories m"
        " JOIN chunks c ON c.memory = m.id WHERE m.file IS NOT NULL"
        " AND m.id IN (SELECT value FROM json_each(?)) ORDER BY m.id, c.start_line, c.id",
        (json.dumps(sorted(memories)),),
    )
    chunks = groupby(rows, key=lambda row: int(row["id"]))
    return {number: _memory_text(number, list(some)) for number, some in chunks}


def _memory_text(number: int, chunks: Sequence[Row]) -> _MemoryText:
    first = chunks[0]
    pinned = bool(json.loads(first["declared"]).get("pinned"))
    text = "\n".join(chunk["text"] for chunk in chunks)
    return _MemoryText(number, first["role"], pinned, first["heading"], first["date"], first["first_seen"], text)


def refines(later: _MemoryText, earlier: _MemoryText) -> bool:
    """Whether a note updates an earlier one: the same heading, and a sentence that says something else of the same.

    Only dated notes: lasting files are edited in place.
    """
    dated = "memory" not in (later.role, earlier.role) and "" < earlier.date < later.date
    if not (dated and later.heading.strip() and later.heading.casefold() == earlier.heading.casefold()):
        return False
    return _one_writer(later, earlier) and any(
        _updates(one, other) for one in _sentences(later.text) for other in _sentences(earlier.text)
    )


def _sentences(text: str) -> list[str]:
    found = [sentence.strip() for sentence in SENTENCE.split(_plain(text))]
    return [sentence for sentence in found if len(WORD.findall(sentence)) >= FEWEST_WORDS][:MOST_SENTENCES]


def _updates(one: str, other: str) -> bool:
    """Whether two sentences are about the same thing and say something else of it."""
    return _words_in_common(one, other) >= MOSTLY and not same_words(one, other)


def _one_writer(one: _MemoryText, other: _MemoryText) -> bool:
    return one.role == other.role or {one.role, other.role} <= ONE_WRITER


# --- texts --------------------------------------------------------------------------------------------------


def same_words(one: str, other: str) -> bool:
    """Whether two texts share nearly all words, and all numbers, names and negations."""
    first, second = _plain(one), _plain(other)
    return (
        _numbers(one) == _numbers(other)
        and _names(first) == _names(second)
        and _negations(first) == _negations(second)
        and _words_in_common(one, other) >= SAME_WORDS
    )


def _words_in_common(one: str, other: str) -> float:
    mine, theirs = (set(query_terms(NUMBER.sub(" ", _plain(text)))) for text in (one, other))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0


def _plain(text: str) -> str:
    """A text without what only says where and when it was written: heading, comment, time stamp, dates."""
    for pattern in (COMMENT, HEADING, STAMP, DATE):
        text = pattern.sub(" ", text)
    return text


def _numbers(text: str) -> list[str]:
    return sorted(NUMBER.findall(_plain(text)))


def _names(plain: str) -> set[str]:
    return {found.casefold() for found in NAME.findall(plain)}


def _negations(plain: str) -> list[str]:
    return sorted(word for word in WORD.findall(plain.casefold()) if word in NOT)
