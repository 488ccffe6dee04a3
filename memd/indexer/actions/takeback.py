"""Takes back what an action changed of the things that memd observes, where nothing else happened to them since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.living import lives
from memd.indexer.living.lives import Move
from memd.indexer.record import shifts
from memd.indexer.record.shifts import Shift

MOVED = "it cannot be undone: the memories were moved again since"


@dataclass(slots=True)
class Undo:
    """An action with shifts of its own, so that it can be undone too."""

    number: int
    of: int
    who: str
    now: datetime
    taken: int = 0
    """How much has been put back so far."""


def take_back(connection: Connection, action: int, undo: int, who: str, now: datetime) -> int:
    """Put everything back that is still as the action left it; answers how much that was.

    What a person put back begins to age anew, or the next reflect would do it again.
    """
    found, doing = shifts.of(connection, action), Undo(undo, action, who, now)
    for shift in reversed(found):
        doing.taken += BACK[shift.what](connection, shift, doing)
    if found and not doing.taken:
        raise Conflict(MOVED, "memd log KEY shows what happened to each")
    return doing.taken


def _tier(connection: Connection, shift: Shift, undo: Undo) -> bool:
    row = connection.execute("SELECT tier, moved FROM memories WHERE id = ?", (shift.memory,)).fetchone()
    if (row["tier"], row["moved"]) != (shift.after["tier"], shift.after["moved"]):
        return False
    back = Move(shift.memory, shift.before["tier"], undo.who, f"undo of action {undo.of}")
    return lives.move(connection, undo.number, undo.taken, back, undo.now)


def _useful(connection: Connection, shift: Shift, undo: Undo) -> bool:
    step = shift.before - shift.after
    row = connection.execute(
        "UPDATE memories SET useful = MAX(0, useful + ?) WHERE id = ? RETURNING useful", (step, shift.memory)
    ).fetchone()
    shifts.keep(connection, undo.number, undo.taken, shift.memory, "useful", row["useful"] - step, row["useful"])
    return True


def _edge(connection: Connection, shift: Shift, undo: Undo) -> bool:
    changed = connection.execute(
        "UPDATE edges SET removed = ?1 WHERE one = ?2 AND other = ?3 AND rel = ?4 AND removed = ?5",
        (shift.before["removed"], *(shift.after[name] for name in ("one", "other", "rel", "removed"))),
    ).rowcount
    if changed:
        shifts.keep(connection, undo.number, undo.taken, shift.memory, "edge", shift.after, shift.before)
    return bool(changed)


BACK: dict[str, Callable[[Connection, Shift, Undo], bool]] = {"tier": _tier, "useful": _useful, "edge": _edge}
