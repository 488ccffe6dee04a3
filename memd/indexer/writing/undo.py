"""Undoes actions: file changes by their splices, life changes where nothing else happened to them since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.lives import TierMove
from memd.indexer.record import actions, life_changes, splices
from memd.indexer.record.life_changes import LifeChange
from memd.indexer.record.splices import undo_splice
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.writing.write_files import ActionResult, FileChange, WriteAction, perform


def undo(stores: Stores, index: WorkspaceIndex, action: int, who: str) -> ActionResult:
    """Undo an action, as an action that can be undone itself."""
    kept = splices.of(stores.ledger.reader, action)
    if not kept:
        return _undo_life_changes(stores, index, action, who)
    changes = tuple(FileChange(splice.path, edit=partial(undo_splice, splice)) for splice in reversed(kept))
    return perform(stores, index, WriteAction("undo", who, changes, key=str(action), undoes=action))


def _undo_life_changes(stores: Stores, index: WorkspaceIndex, action: int, who: str) -> ActionResult:
    """Undo an action that changed no file. What a person put back ages anew, or the next reflect would redo it."""
    with stores.ledger.write() as connection:
        number = actions.begin(connection, index.id, who, "undo", str(action))
        changes = life_changes.of(connection, action)
        undoing = _LifeUndo(connection, action, number, who, datetime.now(UTC))
        for change in reversed(changes):
            undoing.restored += getattr(undoing, change.what)(change)
        if changes and not undoing.restored:
            moved = "it cannot be undone: the memories were moved again since"
            raise Conflict(moved, "memd log KEY shows what happened to each")
        actions.finish(connection, number, {"paths": [], "conflicts": [], "back": undoing.restored})
        actions.mark_undone(connection, action, number)
        stores.ledger.tick(connection)
    return ActionResult(number, key=str(action), back=undoing.restored)


@dataclass(slots=True)
class _LifeUndo:
    """Undoes one life change after the other: a method for each kind, which returns whether it was still as left."""

    connection: Connection
    action: int
    number: int
    """The undoing action, which keeps life changes of its own."""
    who: str
    now: datetime
    restored: int = 0

    def tier(self, change: LifeChange) -> bool:
        row = self.connection.execute("SELECT tier, moved FROM memories WHERE id = ?", (change.memory,)).fetchone()
        if (row["tier"], row["moved"]) != (change.after["tier"], change.after["moved"]):
            return False
        back = TierMove(change.memory, change.before["tier"], self.who, f"undo of action {self.action}")
        return lives.move(self.connection, self.number, self.restored, back, self.now)

    def useful(self, change: LifeChange) -> bool:
        step = change.before - change.after
        row = self.connection.execute(
            "UPDATE memories SET useful = MAX(0, useful + ?) WHERE id = ? RETURNING useful", (step, change.memory)
        ).fetchone()
        self._keep(change, row["useful"] - step, row["useful"])
        return True

    def edge(self, change: LifeChange) -> bool:
        changed = self.connection.execute(
            "UPDATE edges SET removed = ?1 WHERE one = ?2 AND other = ?3 AND rel = ?4 AND removed = ?5",
            (change.before["removed"], *(change.after[name] for name in ("one", "other", "rel", "removed"))),
        ).rowcount
        if changed:
            self._keep(change, change.after, change.before)
        return bool(changed)

    def _keep(self, change: LifeChange, before: object, after: object) -> None:
        life_changes.keep(self.connection, self.number, self.restored, change.memory, change.what, before, after)
