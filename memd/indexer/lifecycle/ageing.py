"""Lets the memories of one workspace age: counts what was seen, asks the rules, and moves or fades what they say.

Reads on the caller's thread and writes through its `ReflectionOptions`, in transactions of a few hundred rows, so that
whoever asks or writes meanwhile waits for one of those at most. Every step is idempotent: run twice is run once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from sqlite3 import Connection
from typing import Any

from memd.indexer.lifecycle import accesses, lives
from memd.indexer.lifecycle.lives import TierMove
from memd.indexer.record import actions
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.lifecycle.lives import RULE, Life
from memd.lifecycle.rules import Rule, evaluate

PAGE = 250
"""Memories that are looked at, and changed, at a time: some milliseconds of either."""

TINY = 1e-6
"""What rounding in the ledger leaves is no change."""

Write = Callable[[Callable[[Connection], Any]], Any]


@dataclass(frozen=True, slots=True)
class ReflectionOptions:
    """How a reflection works: what it may write with, and how it lets others go first."""

    write: Write
    """Runs a piece of work in a transaction of its own."""
    rest: Callable[[], None] = lambda: None
    """Called between two pieces."""
    dry: bool = False
    who: str = "job:reflect"
    moves: bool = True
    """Whether memories are moved and compared."""
    fades: bool = True
    """Whether importance and edges fade."""
    moved: Callable[[Sequence[int]], None] = lambda memories: None
    """Told which memories have just gone to another tier."""


@dataclass(slots=True)
class ReflectionAction:
    """The one action that everything a reflection changes is part of; made when there is something to note."""

    workspace: int
    who: str
    action: int | None = None
    count: int = 0

    def noted(self, connection: Connection) -> tuple[int, int]:
        """The action, and the next place in it."""
        if self.action is None:
            self.action = actions.note(connection, self.workspace, self.who, "reflect")
        self.count += 1
        return self.action, self.count - 1


@dataclass(slots=True)
class Ageing:
    """One pass over all memories of a workspace, and what came of it."""

    stores: Stores
    index: WorkspaceIndex
    rules: Sequence[Rule]
    now: datetime
    options: ReflectionOptions
    record: ReflectionAction
    memories: int = 0
    moves: list[tuple[Life, TierMove]] = field(default_factory=list)
    faded: int = 0

    def run(self) -> None:
        if not self.options.dry:
            self._settle()
        reader, after = self.stores.ledger.reader, 0
        feedback = lives.has_feedback(reader, self.index.id)
        while page := lives.lives(reader, self.index.id, after, PAGE):
            after = page[-1].memory
            self._page(accesses.counted(reader, page, self.now) if self.options.dry else page, feedback)
            self.options.rest()

    def _settle(self) -> None:
        """Add up what was written down of accesses since the last time."""
        after = 0
        while page := accesses.uncounted(self.stores.ledger.reader, self.index.id, after, PAGE):
            after = page[-1]
            self.options.write(partial(accesses.settle, memories=page, now=self.now))
            self.options.rest()
        self.options.write(lambda connection: accesses.sweep(connection, self.now))

    def _page(self, page: Sequence[Life], feedback: bool) -> None:
        moves: list[tuple[Life, TierMove]] = []
        faded: list[tuple[int, float]] = []
        for life in page:
            match = evaluate(life, self.rules, self.now, feedback)
            if self.options.moves and match is not None and match.tier:
                moves.append((life, TierMove(life.memory, match.tier, f"{RULE}{match.rule.name}", match.why)))
            importance = match.importance if match else life.base
            if self.options.fades and abs(importance - life.importance) > TINY:
                faded.append((life.memory, importance))
        self.memories += len(page)
        self.moves += moves
        self.faded += len(faded)
        if (moves or faded) and not self.options.dry:
            wanted = [move for _, move in moves]
            self.options.moved(self.options.write(lambda connection: self._change(connection, wanted, faded)))

    def _change(
        self, connection: Connection, moves: Sequence[TierMove], faded: Sequence[tuple[int, float]]
    ) -> list[int]:
        """Answers which memories are in another tier now."""
        lives.fade(connection, faded)
        moved = [
            move.memory for move in moves if lives.move(connection, *self.record.noted(connection), move, self.now)
        ]
        # Answers weigh tiers and importance.
        self.stores.ledger.tick(connection)
        return moved
