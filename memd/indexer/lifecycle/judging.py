"""Judges memories that were found to be near each other: which say the same, which replace another, which are in doubt.

Only pairs that were compared since the last time are judged. What a rule says is written down; what is in doubt is
told, and nothing is done about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sqlite3 import Connection
from typing import NamedTuple

from memd.indexer.lifecycle import duplicates, edges, lives
from memd.indexer.lifecycle.similarity import LINK, SIMILAR, SimilarPair
from memd.indexer.record import life_changes
from memd.indexer.record.actions import in_utc
from memd.lifecycle.edges import BY_RULE, REFINES, RELATED
from memd.lifecycle.lives import Life
from memd.lifecycle.rules import DORMANT, Rule, fits, near_enough, similar_rules
from memd.models import RELATIONS

MERGED = "merged_into"


class DuplicatePair(NamedTuple):
    """A memory that is laid aside, and the one that says the same."""

    goes: int
    stays: int
    rule: str
    tier: str
    """The one that it leaves."""


@dataclass(slots=True)
class JudgedPairs:
    """What the rules make of pairs: each with the name of the rule."""

    same: list[DuplicatePair] = field(default_factory=list)
    later: list[tuple[int, int, str]] = field(default_factory=list)
    """The later memory, and the earlier one that it refines."""
    doubtful: list[tuple[int, int]] = field(default_factory=list)


def near_since(connection: Connection, workspace: int, since: str) -> list[SimilarPair]:
    """The pairs that were found to be alike since a moment, the nearest first."""
    rows = connection.execute(
        f"SELECT e.one, e.other, e.base FROM {edges.TABLES} WHERE e.workspace = ? AND e.rel = ? AND e.origin = ?"
        f" AND e.base >= ? AND e.made > ? AND {edges.LIVING} ORDER BY e.base DESC, e.one, e.other",
        (workspace, RELATED, SIMILAR, LINK, since),
    )
    return [SimilarPair(row["one"], row["other"], row["base"]) for row in rows]


def judge(connection: Connection, pairs: Sequence[SimilarPair], rules: Sequence[Rule], now: datetime) -> JudgedPairs:
    """What the rules of pairs say of some pairs; reads only."""
    found = duplicates.duplicates(connection, pairs)
    known: dict[int, Life] = {}

    def speaks(rule: Rule, pair: SimilarPair) -> bool:
        for end in (pair.one, pair.other):
            if end not in known:
                known[end] = lives.life_of(connection, end)
        return near_enough(rule, pair.similarity) and all(fits(rule, known[end], now) for end in (pair.one, pair.other))

    judged = JudgedPairs(doubtful=[(pair.one, pair.other) for pair in found.doubtful])
    for rule in similar_rules(rules):
        if rule.action.verb == "dedup":
            spoken = [(stays, known[goes]) for stays, goes, pair in found.duplicates if speaks(rule, pair)]
            # What a person put somewhere stays there.
            judged.same += [DuplicatePair(life.memory, stays, rule.name, life.tier) for stays, life in spoken
                            if life.tier != DORMANT and not life.decided]  # fmt: skip
        elif rule.action.verb == "refine":
            judged.later += [(new, old, rule.name) for new, old, pair in found.renewed if speaks(rule, pair)]
    return judged


def untied(connection: Connection, later: Sequence[tuple[int, int, str]]) -> int:
    """How many of the later memories have no edge yet to what they refine."""
    asked = "SELECT 1 FROM edges WHERE one = ? AND other = ? AND rel = ?"
    return sum(connection.execute(asked, (new, old, REFINES)).fetchone() is None for new, old, _ in later)


# --- writing ------------------------------------------------------------------------------------------------

Noted = Callable[[], tuple[int, int]]
"""The action that a change is part of, and the place of the change in it."""


def drop_outdated(connection: Connection, workspace: int, since: str) -> None:
    """Take away what a rule said of texts that changed since a moment: they are judged anew."""
    connection.execute(
        "DELETE FROM edges WHERE workspace = ?1 AND origin = ?2 AND rel = ?3 AND removed = 0 AND (one IN"
        " (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4) OR other IN"
        " (SELECT id FROM memories WHERE workspace = ?1 AND changed > ?4))",
        (workspace, BY_RULE, REFINES, since),
    )


def tie(connection: Connection, workspace: int, one: int, other: int, rel: str, now: datetime, noted: Noted) -> bool:
    """Make an edge that a rule asks for, with a way back; what someone made or took away stays as it is."""
    made = connection.execute(
        "INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (workspace, one, other, rel, RELATIONS[rel], RELATIONS[rel], BY_RULE, in_utc(now)),
    ).rowcount
    if made:
        which = {"one": one, "other": other, "rel": rel}
        action, nth = noted()
        life_changes.keep(
            connection, action, nth, one, "edge", {**which, "removed": edges.TAKEN}, {**which, "removed": 0}
        )
    return bool(made)
