"""A whole reflection of one workspace: memories age, what is alike is linked and judged, edges fade; and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from sqlite3 import Connection
from typing import Any

from memd.indexer.lifecycle import doubts, edges, judging, lives, mentions, related, similarity
from memd.indexer.lifecycle.ageing import Ageing, ReflectionAction, ReflectionOptions
from memd.indexer.lifecycle.edges import AgedEdges
from memd.indexer.lifecycle.judging import MERGED, JudgedPairs
from memd.indexer.lifecycle.lives import TierMove
from memd.indexer.query import lookup
from memd.indexer.record import actions
from memd.indexer.record.actions import in_utc
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import keys
from memd.lifecycle.edges import REFINES
from memd.lifecycle.lives import RULE
from memd.lifecycle.rules import DORMANT, Rule, similar_rules

AT_ONCE = 250
"""Memories that are compared, and pairs that are judged, at a time."""

TOLD = 200
"""What a report lists of a kind; it counts the rest."""

LOGGED = 20
"""Moves that the log lists."""

CLUSTER = 3
"""So many that are alike want a summary."""

STALE = timedelta(days=180)
"""What is known for good and was neither asked for nor changed in this time is worth a look."""


@dataclass(slots=True)
class Reflection:
    """One run, and what it did."""

    stores: Stores
    index: WorkspaceIndex
    rules: Sequence[Rule]
    now: datetime
    options: ReflectionOptions
    record: ReflectionAction
    linked: int = 0
    tied: int = 0
    """Edges that a rule of pairs made."""
    judged: JudgedPairs = field(default_factory=JudgedPairs)
    edges: AgedEdges = field(default_factory=AgedEdges)

    @property
    def connection(self) -> Connection:
        return self.stores.ledger.reader

    # --- what is alike ------------------------------------------------------------------------------------

    def link(self) -> None:
        """Bring the edges in step with what the notes say, and compare what changed with everything else."""
        more = True
        while more:
            compared = similarity.compare(self.stores, self.index, AT_ONCE)
            for part in compared.parts():
                save = partial(similarity.save, workspace=self.index.id, compared=part, now=self.now)
                self.linked += self.options.write(save).made
                self.options.rest()
            more = compared.more
        # After it: what is alike and shares a tag is held together by the stronger of the two.
        self.linked += mentions.relink(self.connection, self.index.id, self.options.write, self.now)

    def judge(self) -> None:
        """Ask the rules of pairs about what was found to be nearly the same since the last time."""
        name, ledger = f"judged:{self.index.id}", self.stores.ledger
        when, _, by = ledger.setting(name).partition(" ")
        # Other rules see all pairs anew: one that is switched on later means what is there already too.
        spoken = _fingerprint(self.rules)
        since = when if by == spoken else ""
        if since:
            self.judged.doubtful += doubts.standing(self.connection, ledger.setting(doubts.key(self.index.id)))
        if not self.options.dry:
            self.options.write(lambda connection: judging.drop_outdated(connection, self.index.id, since))
        pairs = judging.near_since(self.connection, self.index.id, since)
        for at in range(0, len(pairs), AT_ONCE):
            found = judging.judge(self.connection, pairs[at : at + AT_ONCE], self.rules, self.now)
            self.judged.same += found.same
            self.judged.later += found.later
            self.judged.doubtful += [pair for pair in found.doubtful if pair not in self.judged.doubtful]
            if self.options.dry:
                self.linked += judging.untied(self.connection, found.later)
            else:
                self.options.moved(self.options.write(partial(self._settle, found=found)))
            self.options.rest()
        if not self.options.dry:
            self.options.write(partial(self._note_judged, name=name, value=f"{in_utc(self.now)} {spoken}"))

    def _note_judged(self, connection: Connection, name: str, value: str) -> None:
        self.stores.ledger.note(connection, name, value)
        doubted = doubts.written(connection, self.judged.doubtful)
        self.stores.ledger.note(connection, doubts.key(self.index.id), doubted)

    def _settle(self, connection: Connection, found: JudgedPairs) -> list[int]:
        """Carry out what the rules of pairs say; answers which memories are in another tier now."""
        moved = []
        names = edges.named(connection, self.index.id, {one.stays for one in found.same})
        # A file may have gone since it was judged.
        for goes, stays, rule, _ in (one for one in found.same if one.stays in names):
            why = f"says the same as {names[stays]['key']}"
            move = TierMove(goes, DORMANT, RULE + rule, why)
            moved += [goes] if lives.move(connection, *self.record.noted(connection), move, self.now) else []
            self._tie(connection, goes, stays, MERGED)
        for later, earlier, _ in found.later:
            self.tied += self._tie(connection, later, earlier, REFINES)
        if found.same or found.later:
            self.stores.ledger.tick(connection)
        return moved

    def _tie(self, connection: Connection, one: int, other: int, rel: str) -> bool:
        return judging.tie(connection, self.index.id, one, other, rel, self.now, lambda: self.record.noted(connection))

    def age_edges(self) -> None:
        """Strengthen what came up together, and let what is not used fade."""
        while self.options.write(lambda connection: edges.fold(connection, self.index.id, self.edges)):
            self.options.rest()
        for page in edges.pages(edges.fading(self.connection, self.index.id, self.now)):
            self.options.write(partial(edges.fade, weights=page, done=self.edges))
            self.options.rest()


def link(
    stores: Stores, index: WorkspaceIndex, rules: Sequence[Rule], now: datetime, options: ReflectionOptions
) -> int:
    """Only bring the edges in step with the notes; says how many are new."""
    run = Reflection(stores, index, rules, now, options, ReflectionAction(index.id, options.who))
    run.link()
    return run.linked


def reflect(
    stores: Stores, index: WorkspaceIndex, rules: Sequence[Rule], now: datetime, options: ReflectionOptions
) -> dict[str, Any]:
    """Age the memories and the edges of a workspace, link what is alike, and say what wants a person's eye."""
    record = ReflectionAction(index.id, options.who)
    ageing = Ageing(stores, index, rules, now, options, record)
    run = Reflection(stores, index, rules, now, options, record)
    ageing.run()
    if options.moves:
        if not options.dry:
            run.link()
        run.judge()
    if options.fades and not options.dry:
        run.age_edges()
    moves = _moves(ageing, run)
    if record.action is not None:
        options.write(lambda connection: actions.finish(connection, record.action or 0,
                                                    {"moved": len(moves), "moves": moves[:LOGGED],
                                                     "tied": run.tied}))  # fmt: skip
    return {
        "ns": index.workspace.ns, "memories": ageing.memories, "moved": len(moves), "moves": moves[:TOLD],
        "faded": ageing.faded, "action": record.action, "linked": run.linked + run.tied, "edges_faded": run.edges.faded,
        "edges_pruned": run.edges.pruned, **_wanting(run),
    }  # fmt: skip


def _fingerprint(rules: Sequence[Rule]) -> str:
    """Stays the same as long as the rules of pairs do."""
    return blake2b(repr(similar_rules(rules)).encode(), digest_size=8).hexdigest()


# --- the report ---------------------------------------------------------------------------------------------


def _moves(ageing: Ageing, run: Reflection) -> list[dict[str, Any]]:
    """Every move with its reason, as answers tell it."""
    same = run.judged.same
    numbers = {life.memory for life, _ in ageing.moves} | {end for pair in same for end in pair[:2]}
    names = edges.named(run.connection, run.index.id, numbers)
    told = [
        {"key": names[life.memory]["key"], "from": life.tier, "to": move.tier, "rule": move.by.removeprefix(RULE),
         "why": move.why}
        for life, move in ageing.moves if life.memory in names
    ]  # fmt: skip
    for goes, stays, rule, tier in (one for one in same if {one.goes, one.stays} <= names.keys()):
        why = f"says the same as {names[stays]['key']}"
        told.append({"key": names[goes]["key"], "from": tier, "to": DORMANT, "rule": rule, "why": why})
    return told


def _wanting(run: Reflection) -> dict[str, Any]:
    """What wants a person's eye, each kind listed up to a number and counted."""
    pairs = [(edge.one, edge.other) for edge in edges.all_of(run.connection, run.index.id, rel="contradicts")]
    found = {
        "clusters": _clusters(run),
        "contradictions": _pairs(run, pairs),
        "doubtful": _pairs(run, run.judged.doubtful),
        "stale": _stale(run),
    }
    return {**{name: told[:TOLD] for name, told in found.items()},
            "counts": {name: len(told) for name, told in found.items()}}  # fmt: skip


def _pairs(run: Reflection, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    names = edges.named(run.connection, run.index.id, {end for pair in pairs for end in pair})
    return [{"keys": [names[end]["key"] for end in pair]} for pair in pairs if all(end in names for end in pair)]


def _clusters(run: Reflection) -> list[dict[str, Any]]:
    """Groups that a rule would link and that nothing sums up yet."""
    marks = [condition.value for rule in similar_rules(run.rules) if rule.action.verb == "link"
             for condition in rule.when if condition.field == "similarity"]  # fmt: skip
    if not marks:
        return []
    found = related.clusters(run.stores, [run.index], CLUSTER, min(float(str(mark)) for mark in marks))
    return [{"keys": [memory["key"] for memory in one["memories"]]} for one in found if one["summary"] is None]


def _stale(run: Reflection) -> list[dict[str, Any]]:
    """What has run out, and what is kept for good and was long neither asked for nor changed."""
    gone = [{"key": one["key"], "why": f"its ttl ran out on {one['expires'][:10]}"}
            for one in keys.expired(run.stores, [run.index])]  # fmt: skip
    rows = run.connection.execute(
        "SELECT m.id FROM memories m WHERE m.workspace = ? AND m.file IS NOT NULL AND m.tier = 'ltm'"
        f" AND m.role <> 'memory' AND NOT COALESCE({lookup.IS_PINNED}, 0)"
        " AND MAX(m.changed, COALESCE(m.accessed, m.first_seen)) < ? ORDER BY m.id",
        (run.index.id, in_utc(run.now - STALE)),
    )
    names = edges.named(run.connection, run.index.id, [row["id"] for row in rows])
    why = f"neither asked for nor changed in {STALE.days} days"
    return gone + [{"key": name["key"], "why": why} for name in names.values()]
