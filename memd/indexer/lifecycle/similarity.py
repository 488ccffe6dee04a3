"""Similar memories: which there are, the edges between them, and which of them say the same or replace another.

Only memories that changed since they were last compared are compared, and only pairs that were compared since the last
time are judged. Reading runs on any thread; edges are written in short transactions. What a rule decides is written;
pairs that are in doubt are reported, again and again until someone has looked.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from itertools import product
from sqlite3 import Connection, Row
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.words import query_terms
from memd.indexer.lifecycle import edges, lives
from memd.indexer.model.pooling import Vectors
from memd.indexer.model.scale import Scale
from memd.indexer.query import lookup
from memd.indexer.record.actions import in_utc
from memd.indexer.store import catalog, chroma_server, vector_table
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Stores, VectorIndex, WorkspaceIndex
from memd.lifecycle.lives import BY_RULE, DORMANT, OBSERVED, REFINES, RELATED, ends, strengthened
from memd.lifecycle.rules import Rule, applies_to_pair, pair_rules
from memd.models import Tier, grouped
from memd.notes import names
from memd.prose import SENTENCE

LINK, MERGE, DEDUP = 0.80, 0.90, 0.92
"""How similar memories must be to be linked, to be a paraphrase, to be the same: numbers that other tools use with
another model. `similarity` maps them to where they mean the same for the model in use."""

RELATED_AT = 0.85
"""On a scale from 0, nothing in common, to 1, a paraphrase (`scale.py`): above it are more than 99 % of paraphrases, a
quarter to a third of passages that answer one question, and at most 4 in 1,000 that answer different ones."""
SAID_AGAIN_AT, THE_SAME_AT = 1 / 7, 2 / 7
"""Between a paraphrase and the same text: above the first are 70 % of paraphrases and fewer than 1 % of other facts
about the same subject; above the second 99 % of trivial edits (benchmarks/likeness.py)."""

SQL = queries(__file__, is_pinned=lookup.IS_PINNED, whole=vector_table.WHOLE)

SIMILAR = "similar"
MOST_EDGES = 5
LOWEST, HIGHEST = 0.1, 0.95
"""The bounds of the first weight of an automatic edge."""

BLOCK = 32
"""Memories that are compared at a time."""
DEPTH = 40
"""Nearest chunks of each: more than it gets edges, since the nearest memories may already have theirs."""
PART = 20
"""Memories whose edges are written in one transaction."""


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """Two similar memories, the smaller number first."""

    one: int
    other: int
    similarity: float


@dataclass(slots=True)
class ComparedMemories:
    """The memories of a pass, each with the digest of its text, and the similar pairs."""

    memories: dict[int, str] = field(default_factory=dict)
    pairs: list[SimilarPair] = field(default_factory=list)
    """The most similar first."""
    more: bool = False
    """Whether there are more memories to compare."""

    def parts(self) -> Iterator["ComparedMemories"]:
        """The same in parts, each for a short transaction."""
        for numbers in edges.batches(sorted(self.memories), PART):
            pairs = [pair for pair in self.pairs if pair.one in numbers or pair.other in numbers]
            yield ComparedMemories({number: self.memories[number] for number in numbers}, pairs)


# --- comparing: reads only ------------------------------------------------------------------------------------


def compare(stores: Stores, index: WorkspaceIndex, most: int) -> ComparedMemories:
    """Compare the memories that changed since they were last compared with all others, at most so many."""
    model, connection = stores.model, stores.reader
    if model is None:
        return ComparedMemories()
    # Memories whose text was not compared yet and whose chunks all have vectors.
    todo = connection.execute(SQL["changed"], (index.id, model.id, most + 1)).fetchall()
    # Asked for last: where nothing changed, no vectors are loaded.
    mirror = index.mirror if todo else None
    if mirror is None or mirror.model != model.id:
        return ComparedMemories()
    memories = {row["id"]: row["digest"] for row in todo[:most]}
    pairs: dict[tuple[int, int], SimilarPair] = {}
    try:
        for numbers in edges.batches(list(memories), BLOCK):
            compared = _compare(connection, mirror, model.embedder.scale.notes, numbers)
            pairs |= {(pair.one, pair.other): pair for pair in compared if pair.similarity >= stores.link_similarity}
    except chroma_server.ServerAway:
        # They are compared when the server that has the vectors is back.
        return ComparedMemories()
    nearest = sorted(pairs.values(), key=lambda pair: (-pair.similarity, pair.one, pair.other))
    return ComparedMemories(memories, nearest, len(todo) > most)


def workspaces_to_compare(stores: Stores) -> list[WorkspaceIndex]:
    """The workspaces with memories that changed since they were last compared."""
    changed = catalog.numbers_of(stores.reader, SQL["workspaces"])
    return [index for index in stores.indexes.values() if index.id in changed]


def _compare(connection: Connection, mirror: VectorIndex, scale: Scale, numbers: Sequence[int]) -> list[SimilarPair]:
    """The similar pairs of some memories, the nearest few of each."""
    mine = _means(connection, mirror, numbers)
    if not mine:
        return []
    near = mirror.nearest(np.stack(list(mine.values())), DEPTH)
    holders = lives.holders(connection, {chunk for chunks in near for chunk in chunks})
    candidates = {
        # Existing edges are kept while they hold, even if others are nearer.
        memory: ({holders[chunk] for chunk in chunks if chunk in holders} | _linked(connection, memory)) - {memory}
        for memory, chunks in zip(mine, near, strict=True)
    }
    theirs = mine | _means(connection, mirror, set().union(*candidates.values()) - mine.keys())
    pairs: list[SimilarPair] = []
    for memory, others in candidates.items():
        known = sorted(others & theirs.keys())
        cosines = np.array([float(mine[memory] @ theirs[other]) for other in known])
        alike = similarity(scale.near(cosines), scale)
        both = zip(known, alike, strict=True)
        pairs += [SimilarPair(min(memory, other), max(memory, other), round(float(value), 6)) for other, value in both]
    return pairs


def _linked(connection: Connection, memory: int) -> set[int]:
    """The memories that automatic edges lead to."""
    return {row["one"] if row["other"] == memory else row["other"] for row in _automatic(connection, memory)}


def similarity(nears: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    """Similarity as rules and weights use it: 0 is nothing in common, 1 the same text, our marks are in between."""
    top = float(scale.near(np.ones(1))[0])
    marks = (0.0, RELATED_AT, 1 + SAID_AGAIN_AT * (top - 1), 1 + THE_SAME_AT * (top - 1), top)
    return np.interp(nears, marks, (0.0, LINK, MERGE, DEDUP, 1.0))


def mean_of(rows: Vectors) -> Vectors:
    """The vector of a memory: the normalized mean of its chunks."""
    mean: Vectors = rows.mean(axis=0)
    length = float(np.linalg.norm(mean))
    if length:
        mean /= np.float32(length)
    return mean


def _means(connection: Connection, mirror: VectorIndex, memories: Collection[int]) -> dict[int, Vectors]:
    """The vectors of memories whose chunks are all in the mirror."""
    chunks = grouped((memory, chunk) for memory, _, chunk in lookup.siblings(connection, memories))
    vectors = mirror.take([chunk for those in chunks.values() for chunk in those])
    parts = np.split(vectors, np.cumsum([len(those) for those in chunks.values()])[:-1])
    # Without any chunks there is one part, of nothing.
    means = {memory: mean_of(part) for memory, part in zip(chunks, parts, strict=False)}
    return {memory: mean for memory, mean in means.items() if np.isfinite(mean).all()}


# --- writing ------------------------------------------------------------------------------------------------


def save(connection: Connection, workspace: int, compared: ComparedMemories, now: datetime) -> int:
    """Write the edges of one part of a pass, the most similar first, and mark its memories as compared.

    Returns how many edges were made.
    """
    similar = {(pair.one, pair.other) for pair in compared.pairs}
    for memory in compared.memories:
        # To memories that are no longer similar; a removed one may come back.
        rows = _automatic(connection, memory)
        catalog.drop(connection, "edges", [row["id"] for row in rows if (row["one"], row["other"]) not in similar])
    made = sum(_link(connection, workspace, pair, in_utc(now)) for pair in compared.pairs)
    connection.executemany(SQL["mark"], compared.memories.items())
    return made


def _link(connection: Connection, workspace: int, pair: SimilarPair, now: str) -> int:
    """Make or renew the edge of a pair; returns how many were made.

    An edge that someone made or removed stays as it is.
    """
    weight = min(HIGHEST, max(LOWEST, pair.similarity))
    edge = (pair.one, pair.other, RELATED)
    row = connection.execute(SQL["edge"], edge).fetchone()
    if row is not None and (row["origin"] not in OBSERVED or row["removed"] == edges.TAKEN):
        return 0
    base = strengthened(weight, row["accesses"]) if row is not None else weight
    live = row is not None and row["origin"] == SIMILAR and not row["removed"]
    if not live and not _make_room(connection, pair, base):
        return 0
    if row is None:
        return edges.insert(connection, workspace, edge, weight, SIMILAR, now)
    if live and abs(row["base"] - base) < 1e-9:
        return 0
    connection.execute(SQL["renew"], (SIMILAR, base, now, row["id"]))
    return 1


def _make_room(connection: Connection, pair: SimilarPair, weight: float) -> bool:
    """Drop the weakest of five edges if the new one is stronger; False if there is no room."""
    weakest: set[int] = set()
    for memory in (pair.one, pair.other):
        if not connection.execute("SELECT 1 FROM memories WHERE id = ? AND file IS NOT NULL", (memory,)).fetchone():
            return False
        rows = _automatic(connection, memory)
        if len(rows) >= MOST_EDGES:
            if rows[-1]["weight"] >= weight:
                return False
            weakest.add(rows[-1]["id"])
    catalog.drop(connection, "edges", weakest)
    return True


def _automatic(connection: Connection, memory: int) -> list[Row]:
    """The automatic edges of a memory to memories in files, the strongest first."""
    return connection.execute(SQL["automatic"], (memory, SIMILAR)).fetchall()


def refuse(connection: Connection, workspace: int, one: int, other: int, now: datetime) -> None:
    """Keep two memories from being linked again because they are similar."""
    edge = (*ends(one, other, RELATED), RELATED)
    connection.execute(SQL["refuse"], (workspace, *edge, SIMILAR, in_utc(now), edges.TAKEN))


# --- judging: which pairs say the same, which replace another, and which are in doubt -----------------------


Pairs = Sequence[tuple[int, int]]


class DuplicatePair(NamedTuple):
    """A memory that becomes dormant, and the one that says the same."""

    goes: int
    stays: int
    rule: str
    tier: Tier
    """The one that it leaves."""


@dataclass(slots=True)
class JudgedPairs:
    """The decisions of the pair rules."""

    same: list[DuplicatePair] = field(default_factory=list)
    refined: list[tuple[int, int]] = field(default_factory=list)
    """The later memory, and the earlier one that it refines."""
    doubtful: list[tuple[int, int]] = field(default_factory=list)

    def add(self, more: Self) -> None:
        self.same += more.same
        self.refined += more.refined
        self.doubtful = list(dict.fromkeys([*self.doubtful, *more.doubtful]))


def similar_since(connection: Connection, workspace: int, since: str) -> list[SimilarPair]:
    """The pairs that were found to be similar since a moment, the most similar first."""
    which = "e.workspace = ? AND e.rel = ? AND e.origin = ? AND e.made > ? ORDER BY e.base DESC, e.one, e.other"
    found = edges.select(connection, which, (workspace, RELATED, SIMILAR, since))
    return [SimilarPair(edge.one, edge.other, edge.base) for edge in found]


def judge(connection: Connection, pairs: Sequence[SimilarPair], rules: Sequence[Rule], now: datetime) -> JudgedPairs:
    """The decisions of the pair rules on some pairs; reads only."""
    keep = next((rule.action.keep for rule in pair_rules(rules) if rule.action.verb == SAME), "")
    found, life_of = list(verdicts(connection, pairs, keep)), cache(partial(lives.life_of, connection))

    judged = JudgedPairs(doubtful=[(one, other) for verdict, one, other, _ in found if verdict == DOUBT])
    for rule in pair_rules(rules):
        for verdict, one, other, pair in found:
            both = map(life_of, (pair.one, pair.other))
            if verdict != rule.action.verb or not applies_to_pair(rule, pair.similarity, both, now):
                continue
            if verdict == REFINE:
                judged.refined.append((one, other))
            # A memory that a person moved stays where it is.
            elif (life := life_of(other)).tier != DORMANT and not life.decided:
                judged.same.append(DuplicatePair(other, one, rule.name, life.tier))
    return judged


def untied(connection: Connection, refined: Pairs) -> int:
    """How many of the later memories have no edge yet to what they refine."""
    return sum(not catalog.number_of(connection, SQL["edge"], new, old, REFINES) for new, old in refined)


# --- writing what the rules decide ---------------------------------------------------------------------------


def drop_outdated(connection: Connection, workspace: int, since: str) -> None:
    """Drop what a rule decided about texts that changed since a moment: they are judged again."""
    connection.execute(SQL["drop_outdated"], (workspace, BY_RULE, REFINES, since))


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
    return [pair for pair in same if not catalog.number_of(connection, SQL["typed"], *pair, RELATED)]


def _digests(connection: Connection, pairs: Pairs) -> dict[int, str]:
    return dict(connection.execute(SQL["digests"], (json.dumps([end for pair in pairs for end in pair]),)))


# --- which pairs say the same: the same words, numbers and names ----------------------------------------------


SAME_WORDS = 0.9
"""The least share of their words that duplicates have in common."""

ONE_WRITER = {"memory", "topic", "daily"}
"""Roles of one writer; what others wrote into files of their own is never a duplicate."""

NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
HEADING = re.compile(r"^\s*#{1,6}[ \t].*$", re.MULTILINE)
NAME = re.compile(r"(?<![.!?:]\s)(?<!^)(?<![#>*-]\s)\b[^\W\d_a-z]\w*", re.MULTILINE)
"""A capitalized word that does not begin a sentence."""
NOT = frozenset("no not never none nor cannot without don doesn isn aren wasn won nicht kein nie ohne".split())
WORD = re.compile(r"[^\W\d_]+")
FEWEST_WORDS, MOST_SENTENCES = 3, 30
"""Shorter sentences say too little to be refined; of a long note only the first sentences are compared."""


SAME, REFINE, DOUBT = "dedup", "refine", "doubt"
"""Verdicts on a pair; the first two are named as the verbs of the rules for them.

The same: the memory that stays, and the one that goes. Refined: the later of two notes under one heading that say
nearly the same, and the earlier one. In doubt: nearly one text with other numbers, of which one may contradict or
replace the other.
"""
Verdict = tuple[str, int, int, SimilarPair]


def verdicts(connection: Connection, pairs: Sequence[SimilarPair], keep: str = "") -> Iterator[Verdict]:
    """Which pairs say the same, and which only nearly; of the same, `keep` says which stays. Reads only."""
    ends = {end for pair in pairs for end in (pair.one, pair.other)}
    texts = {row["memory"]: row for row in connection.execute(SQL["texts"], (json.dumps(sorted(ends)),))}
    gone = set[int]()
    for pair in pairs:
        one, other = texts.get(pair.one), texts.get(pair.other)
        if one is None or other is None:
            continue
        earlier, later = sorted((one, other), key=lambda row: (row["date"], row["memory"]))
        if refines(later, earlier):
            yield REFINE, later["memory"], earlier["memory"], pair
        elif pair.similarity < MERGE:
            continue
        elif _numbers(one["text"]) != _numbers(other["text"]):
            if _words_in_common(one["text"], other["text"]) >= MOSTLY:
                yield DOUBT, pair.one, pair.other, pair
        elif pair.similarity >= DEDUP and same_words(one["text"], other["text"]) and _one_writer(one, other):
            stays, goes = sorted((one, other), key=partial(_precedence, keep))
            # Pinned memories and `MEMORY.md` never become dormant.
            exempt = goes["pinned"] or goes["role"] == "memory"
            if not exempt and not {stays["memory"], goes["memory"]} & gone:
                gone.add(goes["memory"])
                yield SAME, stays["memory"], goes["memory"], pair


MOSTLY = 0.6
"""The least share of words, numbers aside, that two texts have in common if only a number changed."""


def _precedence(keep: str, row: Row) -> tuple[float | str, ...]:
    """Sorts the memory that stays first: pinned, `MEMORY.md`, a topic, then as `keep` says, then the older one."""
    important = -row["importance"] if keep == "highest-importance" else 0.0
    age = -datetime.fromisoformat(row["first_seen"]).timestamp() if keep == "newest" else 0.0
    lasting = (not row["pinned"], row["role"] != "memory", row["role"] != "topic")
    return (*lasting, important, age, row["first_seen"], row["memory"])


def refines(later: Row, earlier: Row) -> bool:
    """Whether a note updates an earlier one: the same heading, and a sentence that says something else of the same.

    Only dated notes: lasting files are edited in place.
    """
    dated = "memory" not in (later["role"], earlier["role"]) and "" < earlier["date"] < later["date"]
    same_heading = later["heading"].strip() and later["heading"].casefold() == earlier["heading"].casefold()
    if not (dated and same_heading and _one_writer(later, earlier)):
        return False
    pairs = product(_sentences(later["text"]), _sentences(earlier["text"]))
    return any(_words_in_common(one, other) >= MOSTLY and not same_words(one, other) for one, other in pairs)


def _sentences(text: str) -> list[str]:
    found = [sentence.strip() for sentence in SENTENCE.split(_plain(text))]
    return [sentence for sentence in found if len(WORD.findall(sentence)) >= FEWEST_WORDS][:MOST_SENTENCES]


def _one_writer(one: Row, other: Row) -> bool:
    return one["role"] == other["role"] or {one["role"], other["role"]} <= ONE_WRITER


# --- texts --------------------------------------------------------------------------------------------------


def same_words(one: str, other: str) -> bool:
    """Whether two texts share nearly all words, and all numbers, names and negations."""
    return _essentials(one) == _essentials(other) and _words_in_common(one, other) >= SAME_WORDS


def _essentials(text: str) -> tuple[list[str], set[str], list[str]]:
    """The numbers, names and negations of a text."""
    plain = _plain(text)
    negations = sorted(word for word in WORD.findall(plain.casefold()) if word in NOT)
    return _numbers(text), {name.casefold() for name in NAME.findall(plain)}, negations


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
