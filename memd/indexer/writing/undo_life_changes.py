"""Takes back what an action changed of the things that memd observes, where nothing else happened to them since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.lives import TierMove
from memd.indexer.record import life_changes
from memd.indexer.record.life_changes import LifeChange

MOVED = "it cannot be undone: the memories were moved again since"


@dataclass(slots=True)
class UndoAction:
    """An action with life changes of its own, so that it can be undone too."""

    number: int
    of: int
    who: str
    now: datetime
    taken: int = 0
    """How much has been put back so far."""


def undo_life_changes(connection: Connection, action: int, undo: int, who: str, now: datetime) -> int:
    """Put everything back that is still as the action left it; answers how much that was.

    What a person put back begins to age anew, or the next reflect would do it again.
    """
    found, doing = life_changes.of(connection, action), UndoAction(undo, action, who, now)
    for life_change in reversed(found):
        doing.taken += BACK[life_change.what](connection, life_change, doing)
    if found and not doing.taken:
        raise Conflict(MOVED, "memd log KEY shows what happened to each")
    return doing.taken


def _tier(connection: Connection, life_change: LifeChange, undo: UndoAction) -> bool:
    row = connection.execute("SELECT tier, moved FROM memories WHERE id = ?", (life_change.memory,)).fetchone()
    if (row["tier"], row["moved"]) != (life_change.after["tier"], life_change.after["moved"]):
        return False
    back = TierMove(life_change.memory, life_change.before["tier"], undo.who, f"undo of action {undo.of}")
    return lives.move(connection, undo.number, undo.taken, back, undo.now)


def _useful(connection: Connection, life_change: LifeChange, undo: UndoAction) -> bool:
    step = life_change.before - life_change.after
    row = connection.execute(
        "UPDATE memories SET useful = MAX(0, useful + ?) WHERE id = ? RETURNING useful", (step, life_change.memory)
    ).fetchone()
    life_changes.keep(
        connection, undo.number, undo.taken, life_change.memory, "useful", row["useful"] - step, row["useful"]
    )
    return True


def _edge(connection: Connection, life_change: LifeChange, undo: UndoAction) -> bool:
    changed = connection.execute(
        "UPDATE edges SET removed = ?1 WHERE one = ?2 AND other = ?3 AND rel = ?4 AND removed = ?5",
        (life_change.before["removed"], *(life_change.after[name] for name in ("one", "other", "rel", "removed"))),
    ).rowcount
    if changed:
        life_changes.keep(
            connection, undo.number, undo.taken, life_change.memory, "edge", life_change.after, life_change.before
        )
    return bool(changed)


BACK: dict[str, Callable[[Connection, LifeChange, UndoAction], bool]] = {
    "tier": _tier,
    "useful": _useful,
    "edge": _edge,
}
