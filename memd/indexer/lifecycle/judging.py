"""Judges similar memories: which say the same, which replace another, and which are in doubt.

Only pairs that were compared since the last time are judged. What a rule decides is written; pairs that are in doubt
are reported, again and again until someone has looked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sqlite3 import Connection
from typing import NamedTuple

from memd.indexer.lifecycle import duplicates, edges, lives
from memd.indexer.lifecycle.edges import Triple
from memd.indexer.lifecycle.similarity import LINK, SIMILAR, SimilarPair
from memd.indexer.record import life_changes
from memd.indexer.record.actions import in_utc
from memd.indexer.store.ledger import Ledger
from memd.lifecycle.edges import BY_RULE, REFINES, RELATED
from memd.lifecycle.lives import DORMANT, Life
from memd.lifecycle.rules import Rule, applies_to, pair_rules, similar_enough
from memd.models import RELATIONS, Tier

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
        self.doubtful += [pair for pair in more.doubtful if pair not in self.doubtful]


def similar_since(connection: Connection, workspace: int, since: str) -> list[SimilarPair]:
    """The pairs that were found to be similar since a moment, the most similar first."""
    rows = connection.execute(
        f"SELECT e.one, e.other, e.base FROM {edges.TABLES} WHERE e.workspace = ? AND e.rel = ? AND e.origin = ?"
        f" AND e.base >= ? AND e.made > ? AND {edges.LIVING} ORDER BY e.base DESC, e.one, e.other",
        (workspace, RELATED, SIMILAR, LINK, since),
    )
    return [SimilarPair(row["one"], row["other"], row["base"]) for row in rows]


def judge(connection: Connection, pairs: Sequence[SimilarPair], rules: Sequence[Rule], now: datetime) -> JudgedPairs:
    """The decisions of the pair rules on some pairs; reads only."""
    found = duplicates.duplicates(connection, pairs)
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
    connection: Connection, workspace: int, edge: Triple, now: datetime,
    next_change: Callable[[Connection], tuple[int, int]],
) -> bool:  # fmt: skip
    """Make an edge that a rule asks for, as an undoable change; one that someone made or removed stays as it is."""
    one, other, rel = edge
    if not edges.insert(connection, workspace, edge, RELATIONS[rel], BY_RULE, in_utc(now)):
        return False
    ends = {"one": one, "other": other, "rel": rel}
    before, after = {**ends, "removed": edges.TAKEN}, {**ends, "removed": 0}
    life_changes.keep(connection, *next_change(connection), one, "edge", before, after)
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
