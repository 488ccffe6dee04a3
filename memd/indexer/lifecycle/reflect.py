"""A whole reflection of one workspace: memories age, similar ones are linked and judged, edges fade; and the report.

Reads on the caller's thread and writes through `Reflection.write`, in transactions of a few hundred rows, so that
other readers and writers wait for one of those at most. Every step is idempotent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from sqlite3 import Connection
from typing import Any

from memd.indexer.lifecycle import edges, lives, mentions, similarity
from memd.indexer.query import lookup
from memd.indexer.record import actions
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views import keys
from memd.lifecycle.lives import BY_RULE, CONTRADICTS, DORMANT, MERGED, REFINES, RULE, Life
from memd.lifecycle.rules import Rule, RuleMatch, evaluate, pair_rules
from memd.models import RELATIONS, JsonObject

PAGE = 250
"""Memories or pairs that are read, compared, judged or changed at a time: a few milliseconds each."""

TINY = 1e-6
"""A smaller difference is rounding, not a change."""

LISTED = 200
"""The most entries of each kind in a report; it counts all."""

LOGGED = 20
"""The most moves in an entry of the log."""

CLUSTER = 3
"""So many similar memories need a summary."""

STALE = timedelta(days=180)
"""Long-term memories that nobody asked for or changed in this time are worth a look."""


@dataclass(slots=True)
class Reflection:
    """One run: how it writes, which parts of it run, and what it did.

    All its changes are one action, which is begun when there is something to note.
    """

    stores: Stores
    index: WorkspaceIndex
    rules: Sequence[Rule]
    now: datetime
    write: Callable[[Callable[[Connection], Any]], Any]
    """Runs a function in a transaction of its own."""
    rest: Callable[[], None] = lambda: None
    """Called between two transactions, to let others go first."""
    dry: bool = False
    who: str = "job:reflect"
    moves: bool = True
    """Whether memories are moved and compared."""
    fades: bool = True
    """Whether importance and edges fade."""
    on_moved: Callable[[Sequence[int]], None] = lambda memories: None
    """Called with the memories that have just changed their tier."""
    action: int | None = None
    changes: int = 0
    memories: int = 0
    moved: list[tuple[Life, lives.TierMove]] = field(default_factory=list)
    faded: int = 0
    linked: int = 0
    tied: int = 0
    """Edges that a pair rule made."""
    edges_faded: int = 0
    edges_pruned: int = 0
    judged: similarity.JudgedPairs = field(default_factory=similarity.JudgedPairs)

    @property
    def connection(self) -> Connection:
        return self.stores.reader

    def reflect(self) -> JsonObject:
        """Age the memories and the edges, link similar ones, and report what needs a person's attention."""
        if not self.dry:
            self.count_accesses()
        self.age_memories()
        if self.moves:
            if not self.dry:
                self.linked = self.link()
            self.judge()
        if self.fades and not self.dry:
            self.age_edges()
        moves = _moves(self)
        if self.action is not None:
            result = {"moved": len(moves), "moves": moves[:LOGGED], "tied": self.tied}
            self.write(partial(actions.finish, action=self.action, detail=result))
        return {
            "ns": self.index.workspace.ns, "memories": self.memories, "moved": len(moves), "moves": moves[:LISTED],
            "faded": self.faded, "action": self.action, "linked": self.linked + self.tied,
            "edges_faded": self.edges_faded, "edges_pruned": self.edges_pruned, **_attention(self),
        }  # fmt: skip

    def _next_change(self, connection: Connection) -> tuple[int, int]:
        """The action, and the place of the next change in it."""
        if self.action is None:
            self.action = actions.add(connection, self.index.id, self.who, "reflect")
        self.changes += 1
        return self.action, self.changes - 1

    def _write(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Run a function in a transaction of its own, then let others go first."""
        result = self.write(partial(function, **arguments))
        self.rest()
        return result

    # --- memories ---------------------------------------------------------------------------------------------

    def count_accesses(self) -> None:
        """Add up the accesses since the last time."""
        after = 0
        while page := lives.uncounted(self.connection, self.index.id, after, PAGE):
            after = page[-1]
            self._write(lives.count_accesses, memories=page, now=self.now)
        self._write(lives.sweep_accesses, now=self.now)

    def age_memories(self) -> None:
        for page in _matches(self.connection, self.index, self.rules, self.now):
            moves = [
                (life, lives.TierMove(life.memory, match.tier, f"{RULE}{match.rule.name}", match.why, match.deletes))
                for life, match in page
                if self.moves and match is not None and match.tier
            ]
            left = [(life, match.importance if match else life.base) for life, match in page if self.fades]
            faded = [(life.memory, importance) for life, importance in left if abs(importance - life.importance) > TINY]
            self.memories += len(page)
            self.moved += moves
            self.faded += len(faded)
            if (moves or faded) and not self.dry:
                change = partial(self._change_memories, moves=[move for _, move in moves], faded=faded)
                self.on_moved(self.write(change))
            self.rest()

    def _change_memories(
        self, connection: Connection, moves: Sequence[lives.TierMove], faded: Sequence[tuple[int, float]]
    ) -> list[int]:
        """Returns the memories that changed their tier."""
        lives.fade(connection, faded)
        moved = [move.memory for move in moves if self._move(connection, move)]
        # Search results depend on tiers and importance.
        self.stores.ledger.tick(connection)
        return moved

    def _move(self, connection: Connection, move: lives.TierMove) -> bool:
        return lives.move(connection, *self._next_change(connection), move, self.now)

    # --- similar memories -------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Apply the pair rules to the pairs that were found to be similar since the last time."""
        setting, ledger = f"judged:{self.index.id}", self.stores.ledger
        last, _, last_rules = ledger.setting(setting).partition(" ")
        # Changed rules see all pairs again: a rule applies to what was there before it, too.
        fingerprint = blake2b(repr(pair_rules(self.rules)).encode(), digest_size=8).hexdigest()
        since = last if last_rules == fingerprint else ""
        if since:
            self.judged.doubtful += similarity.still_doubtful(self.connection, ledger, self.index.id)
        if not self.dry:
            self._write(similarity.drop_outdated, workspace=self.index.id, since=since)
        for pairs in edges.batches(similarity.similar_since(self.connection, self.index.id, since), PAGE):
            judged = similarity.judge(self.connection, pairs, self.rules, self.now)
            self.judged.add(judged)
            if self.dry:
                self.linked += similarity.untied(self.connection, judged.refined)
                self.rest()
            else:
                self.on_moved(self._write(self._apply_judgements, judged=judged))
        if not self.dry:
            self._write(self._note_judged, setting=setting, value=f"{actions.in_utc(self.now)} {fingerprint}")

    def _note_judged(self, connection: Connection, setting: str, value: str) -> None:
        self.stores.ledger.save_setting(connection, setting, value)
        similarity.note_doubtful(connection, self.stores.ledger, self.index.id, self.judged.doubtful)

    def _apply_judgements(self, connection: Connection, judged: similarity.JudgedPairs) -> list[int]:
        """Write what the pair rules decided; returns the memories that changed their tier."""
        moved = []
        # Looked up in the transaction: a file may have gone since it was judged.
        names = edges.named(connection, self.index.id, {pair.stays for pair in judged.same})
        for goes, stays, rule, _ in (pair for pair in judged.same if pair.stays in names):
            if self._move(connection, lives.TierMove(goes, DORMANT, RULE + rule, _same_as(names[stays]))):
                moved.append(goes)
            self._tie(connection, (goes, stays, MERGED))
        for later, earlier in judged.refined:
            self.tied += self._tie(connection, (later, earlier, REFINES))
        if judged.same or judged.refined:
            self.stores.ledger.tick(connection)
        return moved

    def _tie(self, connection: Connection, edge: edges.Triple) -> bool:
        """Make an edge that a rule asks for, as an undoable change; one that someone made or removed stays as it is."""
        if not edges.insert(connection, self.index.id, edge, RELATIONS[edge[2]], BY_RULE, actions.in_utc(self.now)):
            return False
        edges.keep_change(connection, *self._next_change(connection), edge, edges.TAKEN, 0)
        return True

    def age_edges(self) -> None:
        """Strengthen edges whose ends were shown together, and let unused ones fade."""
        while self._write(edges.count_uses, workspace=self.index.id):
            pass
        for page in edges.batches(edges.fading(self.connection, self.index.id, self.now), PAGE):
            pruned = self._write(edges.fade, weights=page)
            self.edges_pruned += pruned
            self.edges_faded += len(page) - pruned

    # --- edges ------------------------------------------------------------------------------------------------

    def link(self) -> int:
        """Bring the edges in step with the notes and compare what changed with everything else; how many are new."""
        linked, more = 0, True
        while more:
            compared = similarity.compare(self.stores, self.index, PAGE)
            for part in compared.parts():
                linked += self._write(similarity.save, workspace=self.index.id, compared=part, now=self.now)
            more = compared.more
        # After it: of two memories that are similar and share a tag, the stronger edge is kept.
        return linked + mentions.relink(self.connection, self.index.id, self.write, self.now)


def _matches(
    connection: Connection, index: WorkspaceIndex, rules: Sequence[Rule], now: datetime
) -> Iterator[list[tuple[Life, RuleMatch | None]]]:
    """Every memory of a workspace with the effect of the rules on it, a page at a time."""
    feedback, after = lives.has_feedback(connection, index.id), 0
    told = lives.told_counts(connection, index.id) if feedback else {}
    # Up to now: counts what a dry run has not written.
    while page := lives.lives(connection, index.id, after, PAGE, now):
        after = page[-1].memory
        complete = [replace(life, told=told[life.memory]) if life.memory in told else life for life in page]
        yield [(life, evaluate(life, rules, now, feedback)) for life in complete]


def preview_rules(stores: Stores, indexes: Indexes, rules: Sequence[Rule], now: datetime, limit: int) -> JsonObject:
    """The effect of rules now: how many memories would move and fade, and the first of these; nothing is written."""
    connection, rows = stores.reader, list[JsonObject]()
    counts = {"memories": 0, "moved": 0, "faded": 0}
    for index in indexes:
        for page in _matches(connection, index, rules, now):
            hits = [(life, match) for life, match in page if match and (match.tier or match.importance < life.base)]
            counts["memories"] += len(page)
            counts["moved"] += sum(match.tier is not None for _, match in hits)
            counts["faded"] += sum(match.tier is None for _, match in hits)
            rows += _previewed(connection, index, hits[: max(0, limit - len(rows))])
    return {**counts, "matches": rows}


def _previewed(connection: Connection, index: WorkspaceIndex, hits: list[tuple[Life, RuleMatch]]) -> list[JsonObject]:
    names = edges.named(connection, index.id, [life.memory for life, _ in hits]) if hits else {}
    return [
        {
            "ns": index.workspace.ns, "key": names[life.memory]["key"], "path": names[life.memory]["path"],
            "rule": match.rule.name, "from": life.tier, "to": match.tier or life.tier, "importance": life.base,
            "faded": round(match.importance, 6), "why": match.why,
        }
        for life, match in hits if life.memory in names
    ]  # fmt: skip


# --- the report ---------------------------------------------------------------------------------------------


def _same_as(name: JsonObject) -> str:
    return f"says the same as {name['key']}"


def _moves(run: Reflection) -> list[JsonObject]:
    """Every move with its reason."""
    same = run.judged.same
    numbers = {life.memory for life, _ in run.moved} | {end for pair in same for end in pair[:2]}
    names = edges.named(run.connection, run.index.id, numbers)
    moves = [(life.memory, life.tier, move.tier, move.by.removeprefix(RULE), move.why) for life, move in run.moved]
    moves += [(pair.goes, pair.tier, DORMANT, pair.rule, _same_as(names[pair.stays])) for pair in same
              if pair.stays in names]  # fmt: skip
    return [
        {"key": names[memory]["key"], "from": before, "to": after, "rule": rule, "why": why}
        for memory, before, after, rule, why in moves if memory in names
    ]  # fmt: skip


def _attention(run: Reflection) -> JsonObject:
    """Findings that need a person's attention, each kind counted, and listed up to a number."""
    contradicting = edges.all_of(run.connection, run.index.id, rel=CONTRADICTS)
    found = {
        "clusters": _clusters(run),
        "contradictions": _pairs(run, [(edge.one, edge.other) for edge in contradicting]),
        "doubtful": _pairs(run, run.judged.doubtful),
        "stale": _stale(run),
    }
    lists = {name: rows[:LISTED] for name, rows in found.items()}
    return {**lists, "counts": {name: len(rows) for name, rows in found.items()}}


def _pairs(run: Reflection, pairs: Sequence[tuple[int, int]]) -> list[JsonObject]:
    names = edges.named(run.connection, run.index.id, {end for pair in pairs for end in pair})
    return [{"keys": [names[end]["key"] for end in pair]} for pair in pairs if all(end in names for end in pair)]


def _clusters(run: Reflection) -> list[JsonObject]:
    """Groups that a rule would link and that have no summary yet."""
    limits = [float(str(condition.value)) for rule in pair_rules(run.rules) if rule.action.verb == "link"
              for condition in rule.when if condition.field == "similarity"]  # fmt: skip
    groups = edges.clusters(run.stores, [run.index], CLUSTER, min(limits))["clusters"] if limits else []
    return [{"keys": [memory["key"] for memory in one["memories"]]} for one in groups if one["summary"] is None]


def _stale(run: Reflection) -> list[JsonObject]:
    """Memories that have expired, and long-term ones that nobody asked for or changed for long."""
    lasting = f"m.tier = 'ltm' AND m.role <> 'memory' AND NOT COALESCE({lookup.IS_PINNED}, 0)"
    clause = f"m.workspace = ? AND {lasting} AND MAX(m.changed, COALESCE(m.accessed, m.first_seen)) < ? ORDER BY m.id"
    unused = lookup.keyed_rows(run.connection, "m.tier", clause, (run.index.id, actions.in_utc(run.now - STALE)))
    expired = [one for one in keys.expired(run.stores, [run.index]) if not one["deleted"]]
    why = f"neither asked for nor changed in {STALE.days} days"
    ended = [{"key": one["key"], "why": f"its ttl ran out on {one['expires'][:10]}"} for one in expired]
    return ended + [{"key": key, "why": why} for key, _ in unused]
