"""Exchanges what was observed of memories with other machines, by files in the workspace: a file for each machine.

The ledger holds what all machines know together; the setting `synced:<workspace>` which part of it came from others.
The difference is what this machine observed itself, and all that its own file says.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any, TypeVar

from memd.config.paths import replace_file
from memd.errors import Refused
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.edges import WITHERED, insert
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle import shared_state
from memd.lifecycle.edges import BY_RULE, RELATED, ends, strengthened
from memd.lifecycle.shared_state import Facts, HostState, Subject
from memd.notes.conflicts import original_of

FOLDER = "memory/.memd"
"""Hidden, so that no scan looks into it."""
LISTED = 20
RIGHTS = 0o644
TIER = dict(zip(lives.TIER, ("tier", "moved", "by", "why", "home", "deleted"), strict=True))
"""The ledger's columns of a move, and what the files call them."""
T = TypeVar("T")
PER_MEMORY = ("accesses", "days", "useful")


@dataclass(slots=True)
class StateExchange:
    """What an exchange did."""

    state_file: str
    """This machine's own, relative to the workspace."""
    others: int = 0
    """Files of other machines."""
    written: int = 0
    """Lines that were added to our own."""
    memories: int = 0
    """Memories whose life changed."""
    edges: int = 0
    elsewhere: int = 0
    """Memories and edges that others know and that are not here."""
    garbage: list[str] = field(default_factory=list)
    """Lines that were not understood, and why."""


@dataclass(slots=True)
class _Learned:
    """Which part of the ledger came from others; kept in a setting, by numbers of memories and edges."""

    host: str = ""
    counts: dict[str, list[int]] = field(default_factory=dict)
    moves: dict[str, list[str]] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    """Edges that are only here because another machine's rule made them."""


def exchange(stores: Stores, index: WorkspaceIndex) -> StateExchange:
    """Write what this machine observed, and take in what others did; done twice, it changes nothing."""
    folder, host = index.workspace.root / FOLDER, host_name(stores.ledger.id, index.id)
    # Others write to these folders: a link among them could have us overwrite anything.
    for place in (folder, folder / f"{host}.jsonl"):
        if place.resolve() != index.workspace.root.resolve() / place.relative_to(index.workspace.root):
            raise Refused(f"{place} leads elsewhere", "look at it, and remove the link")
    done = StateExchange(f"{FOLDER}/{host}.jsonl")
    states = _states(folder, done)
    mine = states.pop(host, HostState()).known()
    done.others = len(states)
    setting, ledger = f"synced:{index.id}", stores.ledger
    with ledger.write() as connection:
        learned = _Learned(**json.loads(ledger.setting(setting) or "{}"))
        others = shared_state.joined(state.known() for state in states.values())
        run = _Run(connection, index.id, learned, mine, others, done)
        if learned.host not in ("", host):
            run.disown()
        learned.host = host
        run.learn()
        own = run.own()
        ledger.save_setting(
            connection, setting, json.dumps({name: getattr(learned, name) for name in _Learned.__slots__})
        )
        if done.memories or done.edges:
            # Search results depend on tiers.
            ledger.tick(connection)
    _write(folder, host, own, done)
    return done


def host_name(ledger: str, workspace: int) -> str:
    """A name that no other ledger and no other workspace has: each file has one writer."""
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-") or "host"
    return f"{name[:40]}-{blake2b(f'{ledger}:{workspace}'.encode(), digest_size=4).hexdigest()}"


def _states(folder: Path, done: StateExchange) -> dict[str, HostState]:
    """What each machine's file says, by its name."""
    states = {}
    for file in sorted(folder.glob("*.jsonl")):
        # A synchroniser's copy of a file is an older state of the same machine.
        if original_of(file.name) is None and not file.name.startswith(".") and not file.is_symlink():
            states[file.stem] = state = shared_state.read(file.read_text(encoding="utf-8", errors="replace"))
            done.garbage += [f"{FOLDER}/{file.name}:{line}: {why}" for line, why in state.garbage]
    done.garbage = done.garbage[:LISTED]
    return states


def _write(folder: Path, host: str, own: Mapping[Subject, Facts], done: StateExchange) -> None:
    file = folder / f"{host}.jsonl"
    before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    text, done.written = shared_state.updated(before, own)
    if text != before:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode(), RIGHTS)


class _Run:
    """One exchange, inside a transaction."""

    def __init__(
        self,
        connection: Connection,
        workspace: int,
        learned: _Learned,
        mine: Mapping[Subject, Facts],
        others: dict[Subject, dict[str, Any]],
        done: StateExchange,
    ) -> None:
        self.connection = connection
        self.workspace = workspace
        self.learned = learned
        self.mine = mine
        self.others = others
        self.done = done
        self._read()

    def _read(self) -> None:
        """What the ledger holds now."""
        rows = self.connection.execute(
            "SELECT m.*, f.path || '#' || m.slug AS name FROM memories m JOIN files f ON f.id = m.file"
            " WHERE m.workspace = ?",
            (self.workspace,),
        ).fetchall()
        self.memories: dict[str, Row] = {row["name"]: row for row in rows}
        names = {row["id"]: row["name"] for row in rows}
        self.edges: dict[Subject, Row] = {
            subject_of(names[row["one"]], row["rel"], names[row["other"]]): row
            for row in self.connection.execute("SELECT * FROM edges WHERE workspace = ?", (self.workspace,))
            if row["one"] in names and row["other"] in names
        }

    def disown(self) -> None:
        """This ledger had another name, under which its file tells what was observed: it is another machine's now."""
        for row in self.memories.values():
            if counts := [row[name] for name in PER_MEMORY] if any(row[name] for name in PER_MEMORY) else []:
                self.learned.counts[str(row["id"])] = counts
            if row["moved"]:
                self.learned.moves[str(row["id"])] = _move(row)
        self.learned.uses |= {str(row["id"]): row["accesses"] for row in self.edges.values() if row["accesses"]}
        self.learned.made = [row["id"] for row in self.edges.values() if row["origin"] == BY_RULE]

    # --- what we observed ---------------------------------------------------------------------------------------

    def own(self) -> dict[Subject, Facts]:
        """What this machine observed itself."""
        memories = {(name,): self._own_memory(row) for name, row in self.memories.items()}
        edges = {subject: self._own_edge(subject, row) for subject, row in self.edges.items()}
        return {subject: facts for subject, facts in (memories | edges).items() if facts}

    def _own_memory(self, row: Row) -> Facts:
        learned = self.learned.counts.get(str(row["id"]), [0, 0, 0])
        facts: dict[str, Any] = {}
        for name, theirs in zip(PER_MEMORY, learned, strict=True):
            if row[name] > theirs:
                facts[name] = row[name] - theirs
        if facts.get("accesses") and row["accessed"]:
            facts["accessed"] = self._own_moment((row["name"],), "accessed", row["accessed"])
        if row["moved"] and self.learned.moves.get(str(row["id"])) != _move(row):
            facts |= dict(zip(TIER.values(), _move(row), strict=True))
        return facts

    def _own_moment(self, subject: Subject, name: str, latest: str) -> str:
        """When we last observed something; where others did so later, what our file says stays."""
        said = str(self.mine.get(subject, {}).get(name, ""))
        return said if said and latest <= self.others.get(subject, {}).get(name, "") else latest

    def _own_edge(self, subject: Subject, row: Row) -> Facts:
        facts: dict[str, Any] = {}
        if (uses := row["accesses"] - self.learned.uses.get(str(row["id"]), 0)) > 0:
            facts |= {"uses": uses, "used": self._own_moment(subject, "used", row["accessed"])}
        if row["origin"] == BY_RULE and not row["removed"] and row["id"] not in self.learned.made:
            facts |= {"made": row["made"], "weight": row["base"]}
        return facts

    # --- what others observed -----------------------------------------------------------------------------------

    def learn(self) -> None:
        for name, row in self.memories.items():
            self.done.memories += self._learn_memory(row, self.others.get((name,), {}))
        known: set[Subject] = {subject for subject in self.others if len(subject) == 1 and subject[0] in self.memories}
        known |= {subject for subject in self.others if len(subject) == 3 and self._learn_edge(subject)}
        self.done.elsewhere = len(self.others) - len(known)
        for subject, row in self.edges.items():
            if str(row["id"]) in self.learned.uses and subject not in known:
                self._learn_edge(subject)
        self._forget_edges()
        self._read()

    def _learn_memory(self, row: Row, facts: Facts) -> bool:
        """Bring a memory's life in step with what others know of it; whether that changed it."""
        number, values = str(row["id"]), dict[str, Any]()
        before = self.learned.counts.get(number, [0, 0, 0])
        now = [facts.get(name, 0) for name in PER_MEMORY]
        for name, new, old in zip(PER_MEMORY, now, before, strict=True):
            if new != old:
                values[name] = max(0, row[name] + new - old)
        _keep(self.learned.counts, number, now if any(now) else None)
        if facts.get("accessed", "") > (row["accessed"] or ""):
            values["accessed"] = facts["accessed"]
        values |= self._learned_move(row, facts)
        if not values:
            return False
        named = ", ".join(f"{name} = :{name}" for name in values)
        self.connection.execute(f"UPDATE memories SET {named} WHERE id = :id", {**values, "id": row["id"]})
        return True

    def _learned_move(self, row: Row, facts: Facts) -> dict[str, Any]:
        """The last move, if another machine made it."""
        number, here = str(row["id"]), _move(row)
        if "moved" not in facts:
            return {}
        learned = self.learned.moves.get(number) == here
        ours = dict(zip(TIER.values(), here, strict=True)) if row["moved"] else {}
        if not learned and shared_state.move_of(ours) >= shared_state.move_of(facts):
            return {}
        theirs = self.learned.moves[number] = [facts[name] for name in TIER.values()]
        values = dict(zip(TIER, theirs, strict=True))
        return {**values, "deleted": values["deleted"] or None} if theirs != here else {}

    def _learn_edge(self, subject: Subject) -> bool:
        """Bring an edge in step with what others know of it; whether both its ends are here."""
        (one, rel, other), facts = subject, self.others.get(subject, {})
        if one not in self.memories or other not in self.memories:
            return False
        row = self.edges.get(subject)
        if row is None and "made" in facts:
            row = self._make_edge(rel, self.memories[one]["id"], self.memories[other]["id"], facts)
        if row is not None and (new := facts.get("uses", 0)) != (old := self.learned.uses.get(str(row["id"]), 0)):
            base = strengthened(row["base"], new - old) if row["base"] else 0.0
            self.connection.execute(
                "UPDATE edges SET accesses = MAX(0, accesses + ?), base = ?, weight = ?,"
                " accessed = NULLIF(MAX(COALESCE(accessed, ''), ?), ''),"
                f" removed = CASE removed WHEN {WITHERED} THEN 0 ELSE removed END WHERE id = ?",
                (new - old, base, base, facts.get("used", ""), row["id"]),
            )
            _keep(self.learned.uses, str(row["id"]), new or None)
            self.done.edges += 1
        return True

    def _make_edge(self, rel: str, one: int, other: int, facts: Facts) -> Row:
        edge = (*ends(one, other, rel), rel)
        insert(self.connection, self.workspace, edge, facts["weight"], BY_RULE, facts["made"])
        clause = "SELECT * FROM edges WHERE one = ? AND other = ? AND rel = ?"
        row: Row = self.connection.execute(clause, edge).fetchone()
        self.learned.made.append(row["id"])
        self.done.edges += 1
        return row

    def _forget_edges(self) -> None:
        """Remove the edges that a rule of others made, and that none of them knows any more."""
        subjects = {row["id"]: subject for subject, row in self.edges.items()}
        for number in list(self.learned.made):
            subject = subjects.get(number)
            if subject is not None and "made" not in self.others.get(subject, {}):
                self.connection.execute("DELETE FROM edges WHERE id = ?", (number,))
                self.learned.made.remove(number)
                self.done.edges += 1


def subject_of(one: str, rel: str, other: str) -> Subject:
    """An edge by names; one without a direction is the same from both ends."""
    return (min(one, other), rel, max(one, other)) if rel == RELATED else (one, rel, other)


def _move(row: Row) -> list[str]:
    """The last move of a memory, as the files tell it."""
    return [row[column] or "" for column in TIER]


def _keep(values: dict[str, T], number: str, value: T | None) -> None:
    """Set a value; None takes it out."""
    values.pop(number, None)
    if value is not None:
        values[number] = value
