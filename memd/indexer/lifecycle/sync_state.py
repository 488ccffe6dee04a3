"""Exchanges what was observed of memories with other machines, by files in the workspace: a file for each machine.

A line is what one machine observed of one memory or edge itself, nothing that it learned from others. Of two lines
about the same, the one with the higher number `v` counts, wherever it stands and however often; one without facts takes
the earlier ones back. What all machines know together is the sum of their counts, the latest of their moments, and of
their moves the last: however the files came, everyone comes to the same.

The ledger holds what all machines know together; the setting `synced:<workspace>` which part of it came from others.
The difference is what this machine observed itself, and all that its own file says.
"""

import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from memd.config.paths import replace_file
from memd.errors import Refused
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.edges import WITHERED, insert
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle.lives import BY_RULE, RELATED, ends, strengthened
from memd.models import RELATIONS, TIERS, JsonObject
from memd.notes.merging import original_of

Subject = tuple[str, ...]
"""A memory as `path#slug`; an edge as two of them with the relation between."""
Facts = Mapping[str, Any]
COUNTS = ("accesses", "days", "useful", "uses")
MOVE = ("moved", "tier", "by", "why", "home", "deleted")
"""A move between tiers, its moment first: comparing two moves tells which is the last, on every machine the same."""
LARGEST_COUNT = 10**9
WASTE = 100
"""Lines that no longer count, which a file may have more of than of the others before it is written anew."""


def is_count(value: Any) -> bool:
    """Whether a value of a file that anybody may have written can be a count."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


def _is_moment(value: Any) -> bool:
    """Only as the ledger writes it: sorting the texts sorts the moments."""
    try:
        moment = datetime.fromisoformat(value)
        return moment.tzinfo is not None and moment.astimezone(UTC).isoformat(timespec="milliseconds") == value
    except (TypeError, ValueError):
        return False


CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(COUNTS, is_count),
    **dict.fromkeys(("accessed", "used", "moved", "made"), _is_moment),
    **dict.fromkeys(("by", "why"), lambda value: isinstance(value, str) and value.isprintable()),
    "tier": TIERS.__contains__,
    "home": ("", *TIERS).__contains__,
    "deleted": lambda value: value == "" or _is_moment(value),
    "weight": lambda value: isinstance(value, int | float) and 0 <= value <= 1,
}
"""Every fact, and what it may be."""
OF_MEMORY = frozenset({"accesses", "days", "useful", "accessed", *MOVE})
OF_EDGE = frozenset({"uses", "used", "made", "weight"})
"""`made` and `weight`: a rule made it."""


@dataclass(slots=True)
class HostState:
    """The facts in one machine's file, and its lines that are none."""

    facts: dict[Subject, Facts] = field(default_factory=dict)
    numbers: dict[Subject, int] = field(default_factory=dict)
    lines: int = 0
    garbage: list[tuple[int, str]] = field(default_factory=list)
    """The number of a line, and what is wrong with it."""

    def known(self) -> dict[Subject, Facts]:
        """The facts that it has, without those it took back."""
        return {subject: facts for subject, facts in self.facts.items() if facts}

    def _add(self, subject: Subject, number: int, facts: Facts) -> None:
        # Equal numbers are a file that two wrote: which of them counts does not matter, if only everyone agrees.
        if (number, _written(facts)) >= (self.numbers.get(subject, -1), _written(self.facts.get(subject, {}))):
            self.facts[subject], self.numbers[subject] = facts, number


def parsed(text: str) -> HostState:
    """Read a machine's file; lines that are not understood are left out and told."""
    state = HostState()
    for nth, line in enumerate(text.splitlines(), 1):
        if line.strip():
            state.lines += 1
            try:
                state._add(*_parsed(line))
            except ValueError as error:
                state.garbage.append((nth, str(error)))
    return state


def _parsed(line: str) -> tuple[Subject, int, Facts]:
    try:
        value = json.loads(line)
    except ValueError:
        raise ValueError("it is no whole line of JSON") from None
    if not isinstance(value, dict) or not is_count(number := value.pop("v", None)):
        raise ValueError("it is no line of memd's")
    named = value.pop("memory", None) or value.pop("edge", None)
    subject = (named,) if isinstance(named, str) else tuple(named) if isinstance(named, list) else ()
    if len(subject) not in (1, 3) or not all(isinstance(part, str) and part for part in subject):
        raise ValueError("it names neither a memory nor an edge")
    if len(subject) == 3 and subject[1] not in RELATIONS:
        raise ValueError("there is no such relation")
    allowed = OF_MEMORY if len(subject) == 1 else OF_EDGE
    for name, fact in value.items():
        if name not in allowed or not CHECKS[name](fact):
            raise ValueError(f"`{name}` is nothing that this memd knows")
    if any(name in value for name in MOVE) and not all(name in value for name in MOVE):
        raise ValueError("half of a move")
    if ("made" in value) != ("weight" in value):
        raise ValueError("half of an edge")
    return subject, number, value


def _written(facts: Facts) -> str:
    return json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _line(number: int, subject: Subject, facts: Facts) -> str:
    named = {"memory": subject[0]} if len(subject) == 1 else {"edge": list(subject)}
    return _written({"v": number, **named, **facts}) + "\n"


def updated(text: str, facts: Mapping[Subject, Facts]) -> tuple[str, int]:
    """A machine's file once it says these facts and no others, and how many lines that took; lines are only added.

    Where most lines no longer count, or some are garbage, it is written anew, as short as it can be.
    """
    state = parsed(text)
    known, number = state.known(), max(state.numbers.values(), default=0) + 1
    new = {subject: found for subject, found in facts.items() if found and known.get(subject) != found}
    new |= {subject: {} for subject in known if not facts.get(subject)}
    if state.garbage or state.lines + len(new) > 2 * len(facts) + WASTE:
        lines = [_line(number, subject, facts[subject]) for subject in sorted(facts) if facts[subject]]
        return "".join(lines), len(lines)
    start = text if not text or text.endswith("\n") else text + "\n"
    return start + "".join(_line(number, subject, new[subject]) for subject in sorted(new)), len(new)


def joined(states: Iterable[Mapping[Subject, Facts]]) -> dict[Subject, dict[str, Any]]:
    """The facts of several machines together, in whatever order they are asked."""
    together: dict[Subject, dict[str, Any]] = {}
    for state in states:
        for subject, facts in state.items():
            before = together.setdefault(subject, {})
            for name in facts.keys() & {*COUNTS}:
                before[name] = min(before.get(name, 0) + facts[name], LARGEST_COUNT)
            for name in facts.keys() & {"accessed", "used"}:
                before[name] = max(before.get(name, ""), facts[name])
            if "moved" in facts and move_of(facts) > move_of(before):
                before |= dict(zip(MOVE, move_of(facts), strict=True))
            if "made" in facts and (facts["made"], facts["weight"]) > (before.get("made", ""), before.get("weight", 0)):
                before |= {"made": facts["made"], "weight": facts["weight"]}
    return together


def move_of(facts: Facts) -> tuple[str, ...]:
    """The move that facts tell of, empty where they tell of none."""
    return tuple(facts[name] for name in MOVE) if "moved" in facts else ()


# --- exchanging it by files in the workspace ----------------------------------------------------------------


SQL = queries(__file__)
FOLDER = "memory/.memd"
"""Hidden, so that no scan looks into it."""
LISTED = 20
RIGHTS = 0o644
TIER = dict(zip(lives.TIER, ("tier", "moved", "by", "why", "home", "deleted"), strict=True))
"""The ledger's columns of a move, and what the files call them."""
PER_MEMORY = ("accesses", "days", "useful")


@dataclass(slots=True)
class _Learned:
    """Which part of the ledger came from others; kept in a setting, by numbers of memories and edges."""

    host: str = ""
    counts: dict[str, list[int]] = field(default_factory=dict)
    moves: dict[str, list[str]] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    """Edges that are only here because another machine's rule made them."""


def exchange(stores: Stores, index: WorkspaceIndex) -> JsonObject:
    """Write what this machine observed, and take in what others did; done twice, it changes nothing.

    Returns what `sync_state` answers, as its declaration describes it.
    """
    folder, host = index.workspace.root / FOLDER, host_name(stores.ledger.id, index.id)
    # Others write to these folders: a link among them could have us overwrite anything.
    for place in (folder, folder / f"{host}.jsonl"):
        if place.resolve() != index.workspace.root.resolve() / place.relative_to(index.workspace.root):
            raise Refused(f"{place} leads elsewhere", "look at it, and remove the link")
    states = _states(folder)
    garbage = [f"{FOLDER}/{name}.jsonl:{line}: {why}" for name, state in states.items() for line, why in state.garbage]
    mine = states.pop(host, HostState()).known()
    done = {"state_file": f"{FOLDER}/{host}.jsonl", "others": len(states), "memories": 0, "edges": 0, "elsewhere": 0,
            "garbage": garbage[:LISTED]}  # fmt: skip
    setting, ledger = f"synced:{index.id}", stores.ledger
    with ledger.write() as connection:
        learned = _Learned(**json.loads(ledger.setting(setting) or "{}"))
        others = joined(state.known() for state in states.values())
        run = _Run(connection, index.id, learned, mine, others, done)
        if learned.host not in ("", host):
            run.disown()
        learned.host = host
        run.learn()
        own = run.own()
        ledger.save_setting(connection, setting, json.dumps(asdict(learned)))
        if done["memories"] or done["edges"]:
            # Search results depend on tiers.
            ledger.tick(connection)
    return {**done, "written": _write(folder, host, own)}


def host_name(ledger: str, workspace: int) -> str:
    """A name that no other ledger and no other workspace has: each file has one writer."""
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-") or "host"
    return f"{name[:40]}-{blake2b(f'{ledger}:{workspace}'.encode(), digest_size=4).hexdigest()}"


def _states(folder: Path) -> dict[str, HostState]:
    """The facts in each machine's file, by its name."""
    states = {}
    for file in sorted(folder.glob("*.jsonl")):
        # A synchroniser's copy of a file is an older state of the same machine.
        if original_of(file.name) is None and not file.name.startswith(".") and not file.is_symlink():
            states[file.stem] = parsed(file.read_text(encoding="utf-8", errors="replace"))
    return states


def _write(folder: Path, host: str, own: Mapping[Subject, Facts]) -> int:
    """Write this machine's file; returns how many lines were added."""
    file = folder / f"{host}.jsonl"
    before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    text, written = updated(before, own)
    if text != before:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode(), RIGHTS)
    return written


@dataclass
class _Run:
    """One exchange, inside a transaction."""

    connection: Connection
    workspace: int
    learned: _Learned
    mine: Mapping[Subject, Facts]
    others: dict[Subject, dict[str, Any]]
    done: JsonObject

    def __post_init__(self) -> None:
        self._read()

    def _read(self) -> None:
        """The facts in the ledger now."""
        rows = self.connection.execute(SQL["memories"], (self.workspace,)).fetchall()
        self.memories: dict[str, Row] = {row["name"]: row for row in rows}
        names = {row["id"]: row["name"] for row in rows}
        edges = self.connection.execute("SELECT * FROM edges WHERE workspace = ?", (self.workspace,))
        known = (row for row in edges if row["one"] in names and row["other"] in names)
        self.edges = {subject_of(names[row["one"]], row["rel"], names[row["other"]]): row for row in known}

    def disown(self) -> None:
        """This ledger had another name, under which its file tells what was observed: it is another machine's now."""
        for row in self.memories.values():
            self.learned.counts[str(row["id"])] = [row[name] for name in PER_MEMORY]
            if row["moved"]:
                self.learned.moves[str(row["id"])] = _move(row)
        self.learned.uses |= {str(row["id"]): row["accesses"] for row in self.edges.values()}
        self.learned.made = [row["id"] for row in self.edges.values() if row["origin"] == BY_RULE]

    # --- what we observed ---------------------------------------------------------------------------------------

    def own(self) -> dict[Subject, Facts]:
        """The facts that this machine observed itself."""
        memories = {(name,): self._own_memory(row) for name, row in self.memories.items()}
        edges = {subject: self._own_edge(subject, row) for subject, row in self.edges.items()}
        return {subject: facts for subject, facts in (memories | edges).items() if facts}

    def _own_memory(self, row: Row) -> Facts:
        learned = self.learned.counts.get(str(row["id"]), [0, 0, 0])
        observed = {name: row[name] - theirs for name, theirs in zip(PER_MEMORY, learned, strict=True)}
        facts: dict[str, Any] = {name: count for name, count in observed.items() if count > 0}
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
            self.done["memories"] += self._learn_memory(row, self.others.get((name,), {}))
        known: set[Subject] = {subject for subject in self.others if len(subject) == 1 and subject[0] in self.memories}
        known |= {subject for subject in self.others if len(subject) == 3 and self._learn_edge(subject)}
        self.done["elsewhere"] = len(self.others) - len(known)
        for subject, row in self.edges.items():
            if str(row["id"]) in self.learned.uses and subject not in known:
                self._learn_edge(subject)
        self._forget_edges()
        self.learned.counts = {number: counts for number, counts in self.learned.counts.items() if any(counts)}
        self.learned.uses = {number: uses for number, uses in self.learned.uses.items() if uses}
        self._read()

    def _learn_memory(self, row: Row, facts: Facts) -> bool:
        """Bring a memory's life in step with what others know of it; whether that changed it."""
        before = self.learned.counts.get(str(row["id"]), [0, 0, 0])
        now = self.learned.counts[str(row["id"])] = [facts.get(name, 0) for name in PER_MEMORY]
        both = zip(PER_MEMORY, now, before, strict=True)
        values: dict[str, Any] = {name: max(0, row[name] + new - old) for name, new, old in both if new != old}
        if facts.get("accessed", "") > (row["accessed"] or ""):
            values["accessed"] = facts["accessed"]
        values |= self._learned_move(row, facts)
        if values:
            lives.update(self.connection, row["id"], values)
        return bool(values)

    def _learned_move(self, row: Row, facts: Facts) -> dict[str, Any]:
        """The last move, if another machine made it."""
        number, here = str(row["id"]), _move(row)
        learned = self.learned.moves.get(number) == here
        ours = dict(zip(TIER.values(), here, strict=True)) if row["moved"] else {}
        if "moved" not in facts or (not learned and move_of(ours) >= move_of(facts)):
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
            values = (new - old, base, facts.get("used", ""), WITHERED, row["id"])
            self.connection.execute(SQL["use_edge"], values)
            self.learned.uses[str(row["id"])] = new
            self.done["edges"] += 1
        return True

    def _make_edge(self, rel: str, one: int, other: int, facts: Facts) -> Row:
        edge = (*ends(one, other, rel), rel)
        insert(self.connection, self.workspace, edge, facts["weight"], BY_RULE, facts["made"])
        row: Row = self.connection.execute(SQL["edge"], edge).fetchone()
        self.learned.made.append(row["id"])
        self.done["edges"] += 1
        return row

    def _forget_edges(self) -> None:
        """Remove the edges that a rule of others made, and that none of them knows any more."""
        subjects = {row["id"]: subject for subject, row in self.edges.items()}
        for number in list(self.learned.made):
            subject = subjects.get(number)
            if subject is not None and "made" not in self.others.get(subject, {}):
                self.connection.execute("DELETE FROM edges WHERE id = ?", (number,))
                self.learned.made.remove(number)
                self.done["edges"] += 1


def subject_of(one: str, rel: str, other: str) -> Subject:
    """An edge by names; one without a direction is the same from both ends."""
    return (min(one, other), rel, max(one, other)) if rel == RELATED else (one, rel, other)


def _move(row: Row) -> list[str]:
    """The last move of a memory, as the files tell it."""
    return [row[column] or "" for column in TIER]
