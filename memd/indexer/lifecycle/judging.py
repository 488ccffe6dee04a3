"""Judges similar memories: which say the same, which replace another, and which are in doubt.

Only pairs that were compared since the last time are judged. What a rule decides is written; pairs that are in doubt
are reported, again and again until someone has looked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from sqlite3 import Connection, Row
from typing import NamedTuple

from memd.indexer.language.words import query_terms
from memd.indexer.lifecycle import edges, lives
from memd.indexer.lifecycle.similarity import DEDUP, MERGE, SIMILAR, SimilarPair
from memd.indexer.record import actions
from memd.indexer.store.ledger import Ledger
from memd.lifecycle.edges import BY_RULE, REFINES, RELATED
from memd.lifecycle.lives import DORMANT, Life
from memd.lifecycle.rules import Rule, applies_to, pair_rules, similar_enough
from memd.models import RELATIONS, Tier
from memd.notes import names

Pairs = Sequence[tuple[int, int]]


class DuplicatePair(NamedTuple):
    """A memory that is laid aside, and the one that says the same."""

    goes: int
    stays: int
    rule: str
    tier: Tier
    """The one that it leaves."""


@dataclass(slots=True)
class JudgedPairs:
    """The decisions of the pair rules, each with the name of the rule."""

    same: list[DuplicatePair] = field(default_factory=list)
    refined: list[tuple[int, int, str]] = field(default_factory=list)
    """The later memory, and the earlier one that it refines."""
    doubtful: list[tuple[int, int]] = field(default_factory=list)

    def add(self, more: JudgedPairs) -> None:
        self.same += more.same
        self.refined += more.refined
        self.doubtful = list(dict.fromkeys([*self.doubtful, *more.doubtful]))


def similar_since(connection: Connection, workspace: int, since: str) -> list[SimilarPair]:
    """The pairs that were found to be similar since a moment, the most similar first."""
    clause = "e.workspace = ? AND e.rel = ? AND e.origin = ? AND e.made > ?"
    values, order = (workspace, RELATED, SIMILAR, since), "ORDER BY e.base DESC, e.one, e.other"
    return [SimilarPair(edge.one, edge.other, edge.base) for edge in edges.select(connection, clause, values, order)]


def judge(connection: Connection, pairs: Sequence[SimilarPair], rules: Sequence[Rule], now: datetime) -> JudgedPairs:
    """The decisions of the pair rules on some pairs; reads only."""
    keep = next((rule.action.keep for rule in pair_rules(rules) if rule.action.verb == "dedup"), "")
    found = duplicates(connection, pairs, keep)
    known: dict[int, Life] = {}

    def matches(rule: Rule, pair: SimilarPair) -> bool:
        for end in (pair.one, pair.other):
            if end not in known:
                known[end] = lives.life_of(connection, end)
        both = (known[pair.one], known[pair.other])
        return similar_enough(rule, pair.similarity) and all(applies_to(rule, life, now) for life in both)

    judged = JudgedPairs(doubtful=[(pair.one, pair.other) for pair in found.doubtful])
    for rule in pair_rules(rules):
        if rule.action.verb == "dedup":
            matching = [(stays, known[goes]) for stays, goes, pair in found.duplicates if matches(rule, pair)]
            # A memory that a person moved stays where it is.
            judged.same += [DuplicatePair(life.memory, stays, rule.name, life.tier) for stays, life in matching
                            if life.tier != DORMANT and not life.decided]  # fmt: skip
        elif rule.action.verb == "refine":
            judged.refined += [(new, old, rule.name) for new, old, pair in found.refined if matches(rule, pair)]
    return judged


def untied(connection: Connection, refined: Sequence[tuple[int, int, str]]) -> int:
    """How many of the later memories have no edge yet to what they refine."""
    query = "SELECT 1 FROM edges WHERE one = ? AND other = ? AND rel = ?"
    return sum(connection.execute(query, (new, old, REFINES)).fetchone() is None for new, old, _ in refined)


# --- writing ------------------------------------------------------------------------------------------------


def drop_outdated(connection: Connection, workspace: int, since: str) -> None:
    """Drop what a rule decided about texts that changed since a moment: they are judged again."""
    connection.execute(
        "DELETE FROM edges WHERE workspace = ?1 AND origin = ?2 AND rel = ?3 AND removed = 0 AND (one IN"
        " (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4) OR other IN"
        " (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4))",
        (workspace, BY_RULE, REFINES, since),
    )


def tie(
    connection: Connection, workspace: int, edge: edges.Triple, now: datetime,
    next_change: Callable[[Connection], tuple[int, int]],
) -> bool:  # fmt: skip
    """Make an edge that a rule asks for, as an undoable change; one that someone made or removed stays as it is."""
    one, other, rel = edge
    if not edges.insert(connection, workspace, edge, RELATIONS[rel], BY_RULE, actions.in_utc(now)):
        return False
    ends = {"one": one, "other": other, "rel": rel}
    before, after = {**ends, "removed": edges.TAKEN}, {**ends, "removed": 0}
    actions.keep_change(connection, *next_change(connection), one, "edge", before, after)
    return True


# --- doubtful pairs: nearly one text, with other numbers or names ---------------------------------------------


def note_doubtful(connection: Connection, ledger: Ledger, workspace: int, pairs: Pairs) -> None:
    """Remember doubtful pairs, each with the digests of its texts."""
    digests = _digests(connection, pairs)
    rows = [[*pair, *(digests[end] for end in pair)] for pair in pairs if digests.keys() >= set(pair)]
    ledger.save_setting(connection, f"doubtful:{workspace}", json.dumps(rows))


def still_doubtful(connection: Connection, ledger: Ledger, workspace: int) -> list[tuple[int, int]]:
    """The remembered pairs of which both texts are unchanged and no edge says how they are related."""
    rows = json.loads(ledger.setting(f"doubtful:{workspace}") or "[]")
    digests = _digests(connection, [(one, other) for one, other, *_ in rows])
    same = [(one, other) for one, other, *known in rows if [digests.get(one), digests.get(other)] == known]
    return [pair for pair in same if not _typed(connection, *pair)]


def _typed(connection: Connection, one: int, other: int) -> bool:
    """Whether an edge says how two memories are related."""
    rows = connection.execute(
        "SELECT 1 FROM edges WHERE removed = 0 AND rel <> ?3"
        " AND ((one = ?1 AND other = ?2) OR (one = ?2 AND other = ?1)) LIMIT 1",
        (one, other, RELATED),
    )
    return rows.fetchone() is not None


def _digests(connection: Connection, pairs: Pairs) -> dict[int, str]:
    rows = connection.execute(
        "SELECT id, digest FROM memories WHERE file IS NOT NULL AND tier <> 'dormant'"
        " AND id IN (SELECT value FROM json_each(?))",
        (json.dumps([end for pair in pairs for end in pair]),),
    )
    return {row["id"]: row["digest"] for row in rows}


# --- which pairs say the same: the same words, numbers and names ----------------------------------------------


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


def duplicates(connection: Connection, pairs: Sequence[SimilarPair], keep: str = "") -> Duplicates:
    """Which pairs say the same, and which only nearly; of the same, `keep` says which stays. Reads only."""
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
            stays, goes = sorted((one, other), key=lambda text: text.precedence(keep))
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
    importance: float
    text: str

    @property
    def exempt(self) -> bool:
        """Pinned memories and `MEMORY.md` are never laid aside."""
        return self.pinned or self.role == "memory"

    def precedence(self, keep: str) -> tuple[float | str, ...]:
        """Sorts the memory that stays first: pinned, `MEMORY.md`, a topic, then as `keep` says, then the older one."""
        important = -self.importance if keep == "highest-importance" else 0.0
        age = -datetime.fromisoformat(self.first_seen).timestamp() if keep == "newest" else 0.0
        lasting = (not self.pinned, self.role != "memory", self.role != "topic")
        return (*lasting, important, age, self.first_seen, self.memory)


def _texts(connection: Connection, memories: Iterable[int]) -> dict[int, _MemoryText]:
    rows = connection.execute(
        "SELECT m.id, m.role, m.declared, m.heading, m.date, m.first_seen, m.importance, c.text FROM memories m"
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
    columns = {name: first[name] for name in ("role", "heading", "date", "first_seen", "importance")}
    return _MemoryText(number, pinned=pinned, text=text, **columns)


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
    for pattern in (names.COMMENT, HEADING, names.STAMP, names.DATE):
        text = pattern.sub(" ", text)
    return text


def _numbers(text: str) -> list[str]:
    return sorted(NUMBER.findall(_plain(text)))


def _names(plain: str) -> set[str]:
    return {found.casefold() for found in NAME.findall(plain)}


def _negations(plain: str) -> list[str]:
    return sorted(word for word in WORD.findall(plain.casefold()) if word in NOT)
