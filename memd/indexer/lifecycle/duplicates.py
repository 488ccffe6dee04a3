"""Tells pairs that say the very same from pairs that only seem to: the same words, the same numbers, the same names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sqlite3 import Connection, Row

from memd.indexer.language.words import query_terms
from memd.indexer.lifecycle.similarity import DEDUP, MERGE, SimilarPair
from memd.notes.metadata import COMMENT
from memd.notes.names import DATE, STAMP

SAME_WORDS = 0.9
"""The share of all their words that duplicates have in common."""

ONE_HOUSE = ("memory", "topic", "daily")
"""Roles of one writer; what others wrote into a file of their role is theirs, also when it says the same."""

NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
HEADING = re.compile(r"^\s*#{1,6}[ \t].*$", re.MULTILINE)
NAME = re.compile(r"(?<![.!?:]\s)(?<!^)(?<![#>*-]\s)\b[^\W\d_a-z]\w*", re.MULTILINE)
"""A word with a capital that no sentence begins with."""
NOT = frozenset(
    "no not never none nor cannot without don doesn isn aren wasn won can't n't nicht kein nie ohne".split()
)
WORD = re.compile(r"[^\W\d_]+")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
FEWEST_WORDS, MOST_SENTENCES = 3, 30
"""Shorter sentences say nothing that could be told anew; of a long note the first ones tell."""


@dataclass(slots=True)
class Duplicates:
    """What near pairs turned out to be."""

    duplicates: list[tuple[int, int, SimilarPair]] = field(default_factory=list)
    """The memory that stays, and the one that says the same."""
    renewed: list[tuple[int, int, SimilarPair]] = field(default_factory=list)
    """The later of two notes under one heading that say nearly the same, and the earlier one."""
    doubtful: list[SimilarPair] = field(default_factory=list)
    """Nearly one text with other numbers in it: one may contradict or replace the other."""


def duplicates(connection: Connection, pairs: Iterable[SimilarPair]) -> Duplicates:
    """Which of some pairs say the very same, and which only nearly; reads only."""
    near = list(pairs)
    rows = _rows(connection, {end for pair in near for end in (pair.one, pair.other)})
    found, laid = Duplicates(), set[int]()
    for pair in near:
        one, other = rows.get(pair.one), rows.get(pair.other)
        if one is None or other is None:
            continue
        earlier, later = sorted((one, other), key=lambda told: (told.date, told.memory))
        if renews(later, earlier):
            found.renewed.append((later.memory, earlier.memory, pair))
        elif pair.similarity < MERGE:
            continue
        elif _numbers(one.text) != _numbers(other.text):
            if _words_in_common(one.text, other.text) >= MOSTLY:
                found.doubtful.append(pair)
        elif pair.similarity >= DEDUP and same_words(one.text, other.text) and _one_house(one, other):
            stays, goes = sorted((one, other), key=_MemoryText.standing)
            if not goes.exempt and not {stays.memory, goes.memory} & laid:
                laid.add(goes.memory)
                found.duplicates.append((stays.memory, goes.memory, pair))
    return found


MOSTLY = 0.6
"""The share of words, numbers aside, that two texts have in common when only a number changed."""


@dataclass(frozen=True, slots=True)
class _MemoryText:
    """As much of a memory as this needs."""

    memory: int
    role: str
    pinned: bool
    heading: str
    date: str
    first_seen: str
    text: str

    @property
    def exempt(self) -> bool:
        """Pinned memories and those of `MEMORY.md` are nobody's duplicate."""
        return self.pinned or self.role == "memory"

    def standing(self) -> tuple[bool, bool, bool, str, int]:
        """Who stays comes first: pinned, lasting files before notes of a day, the older one."""
        lasting = self.role in ("memory", "topic")
        return (not self.pinned, self.role != "memory", not lasting, self.first_seen, self.memory)


def _rows(connection: Connection, memories: Iterable[int]) -> dict[int, _MemoryText]:
    rows = connection.execute(
        "SELECT m.id, m.role, m.declared, m.heading, m.date, m.first_seen, c.text FROM memories m"
        " JOIN chunks c ON c.memory = m.id WHERE m.file IS NOT NULL"
        " AND m.id IN (SELECT value FROM json_each(?)) ORDER BY m.id, c.start_line, c.id",
        (json.dumps(sorted(memories)),),
    )
    together: dict[int, list[Row]] = {}
    for row in rows:
        together.setdefault(row["id"], []).append(row)
    return {number: _told(number, those) for number, those in together.items()}


def _told(number: int, rows: Sequence[Row]) -> _MemoryText:
    first = rows[0]
    pinned = bool(json.loads(first["declared"]).get("pinned"))
    text = "\n".join(row["text"] for row in rows)
    return _MemoryText(number, first["role"], pinned, first["heading"], first["date"], first["first_seen"], text)


def renews(later: _MemoryText, earlier: _MemoryText) -> bool:
    """Whether a note tells what has become of what an earlier one told: one heading, and a sentence told anew.

    Lasting files are edited where they stand; that one note of a day takes the place of another must be seen.
    """
    dated = "memory" not in (later.role, earlier.role) and "" < earlier.date < later.date
    if not (dated and later.heading.strip() and later.heading.casefold() == earlier.heading.casefold()):
        return False
    return _one_house(later, earlier) and any(
        _says_anew(one, other) for one in _sentences(later.text) for other in _sentences(earlier.text)
    )


def _sentences(text: str) -> list[str]:
    found = [sentence.strip() for sentence in SENTENCE.split(_plain(text))]
    return [sentence for sentence in found if len(WORD.findall(sentence)) >= FEWEST_WORDS][:MOST_SENTENCES]


def _says_anew(one: str, other: str) -> bool:
    """Whether two sentences say the same of something, and not the same."""
    return _words_in_common(one, other) >= MOSTLY and not same_words(one, other)


def _one_house(one: _MemoryText, other: _MemoryText) -> bool:
    return one.role == other.role or {one.role, other.role} <= set(ONE_HOUSE)


# --- texts --------------------------------------------------------------------------------------------------


def same_words(one: str, other: str) -> bool:
    """Whether two texts have nearly all words in common, and all numbers, names and denials."""
    first, second = _plain(one), _plain(other)
    return (
        _numbers(one) == _numbers(other)
        and _names(first) == _names(second)
        and _denials(first) == _denials(second)
        and _words_in_common(one, other) >= SAME_WORDS
    )


def _words_in_common(one: str, other: str) -> float:
    mine, theirs = (set(query_terms(NUMBER.sub(" ", _plain(text)))) for text in (one, other))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0


def _plain(text: str) -> str:
    """A text without what only says where and when it was written: its heading, the comment, the stamp, dates."""
    for pattern in (COMMENT, HEADING, STAMP, DATE):
        text = pattern.sub(" ", text)
    return text


def _numbers(text: str) -> list[str]:
    return sorted(NUMBER.findall(_plain(text)))


def _names(plain: str) -> set[str]:
    return {found.casefold() for found in NAME.findall(plain)}


def _denials(plain: str) -> list[str]:
    return sorted(word for word in WORD.findall(plain.casefold()) if word in NOT)
