"""Carries out a deed: writes the files, notes what was changed, and leaves the rest to the route of every change."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from sqlite3 import Connection, Row

from memd.errors import Conflict
from memd.failpoints import failpoint
from memd.indexer.actions import takeback
from memd.indexer.record import deeds
from memd.indexer.store.stores import Shelf, Stores
from memd.notes import pen
from memd.notes.entries import numbered
from memd.notes.pen import Edit, Written
from memd.notes.read import decode


@dataclass(frozen=True, slots=True)
class Change:
    """One file that a deed changes: by an append, or by an edit of the whole."""

    path: str
    append: str = ""
    head: str = ""
    """How the file begins when it is not there yet."""
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """What someone wants done, as one action that can be undone as one."""

    what: str
    who: str
    changes: tuple[Change, ...]
    key: str = ""
    request: str = ""
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it."""

    action: int
    paths: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    repeated: bool = False
    """The same request was carried out before."""
    key: str = ""
    """The memory that it was about; a section that was added gets its own."""
    changed: bool = True
    visible: str = ""
    """The clock at which questions see it."""
    back: int = 0
    """How much of what was observed was taken back: tiers, usefulness, edges."""


def perform(stores: Stores, shelf: Shelf, deed: Deed) -> Done:
    """Write every file of a deed. What fails half-way is taken back as far as nobody else has changed it."""
    before = deeds.by_request(stores.ledger.reader, deed.request)
    if before is not None:
        return _repeated(before)
    if len(deed.changes) == 1 and deed.changes[0].append:
        return _append(stores, shelf, deed)
    paths = [change.path for change in deed.changes]
    with stores.ledger.write() as connection:
        action = deeds.begin(connection, shelf.id, deed.who, deed.what, deed.key, deed.request, paths)
    written: list[Written] = []
    try:
        for nth, change in enumerate(deed.changes):
            written.append(_write(stores, shelf, action, nth, change))
    except BaseException as error:
        _take_back(shelf, deed, written)
        with stores.ledger.write() as connection:
            deeds.finish(connection, action, {"why": str(error)}, "failed")
        raise
    conflicts = tuple(one.conflict for one in written if one.conflict)
    done = _finish(stores, action, deed, conflicts)
    return replace(done, changed=any(one.before != one.after for one in written))


def _repeated(before: Row) -> Done:
    told = json.loads(before["detail"])
    return Done(before["id"], tuple(told["paths"]), tuple(told["conflicts"]), True, before["key"], changed=False)


def _append(stores: Stores, shelf: Shelf, deed: Deed) -> Done:
    """One section more. The ledger is told first, so that a caller who asks again after a crash gets it once."""
    change, begun = deed.changes[0], list[tuple[int, str]]()

    def intend(old: bytes | None, new: bytes | None) -> None:
        key = numbered(deed.key, decode(old or b""))
        with stores.ledger.write() as connection:
            action = deeds.begin(connection, shelf.id, deed.who, deed.what, key, deed.request, [change.path])
            deeds.keep_splice(connection, action, 0, deeds.splice_of(change.path, old, new))
        begun.append((action, key))
        failpoint("deed-begun")

    try:
        pen.append(pen.place_of(shelf.workspace.root, change.path), change.append, change.head, intend)
    except BaseException as error:
        if begun:
            with stores.ledger.write() as connection:
                deeds.finish(connection, begun[0][0], {"why": str(error)}, "failed")
        raise
    action, key = begun[0]
    return replace(_finish(stores, action, deed, ()), key=key)


def _write(stores: Stores, shelf: Shelf, action: int, nth: int, change: Change) -> Written:
    file = pen.place_of(shelf.workspace.root, change.path)

    def intend(old: bytes | None, new: bytes | None) -> None:
        # Before anything changes: a process that dies in between leaves the old bytes here.
        with stores.ledger.write() as connection:
            deeds.keep_splice(connection, action, nth, deeds.splice_of(change.path, old, new))

    if change.edit is not None:
        return pen.rewrite(file, change.edit, intend)
    written = pen.append(file, change.append, change.head)
    intend(written.before, written.after)
    return written


def _take_back(shelf: Shelf, deed: Deed, written: list[Written]) -> None:
    """Undo the files of a deed that were written before one failed; one that went on since stays."""
    for change, one in zip(deed.changes, written, strict=False):

        def back(found: bytes | None, one: Written = one) -> bytes | None:
            return one.before if found == one.after else found

        pen.rewrite(pen.place_of(shelf.workspace.root, change.path), back)


def _finish(stores: Stores, action: int, deed: Deed, conflicts: tuple[str, ...]) -> Done:
    paths = tuple(change.path for change in deed.changes)
    with stores.ledger.write() as connection:
        deeds.finish(connection, action, {"paths": paths, "conflicts": conflicts})
        if deed.undoes is not None:
            _undone(connection, action, deed.undoes)
    return Done(action, paths, conflicts, key=deed.key)


def _undone(connection: Connection, by: int, action: int) -> None:
    """Mark an action as taken back; what an undo had taken back stands again when the undo is undone."""
    connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (by, action))
    connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (action,))


# --- undoing ------------------------------------------------------------------------------------------------


def undo(stores: Stores, shelf: Shelf, action: int, who: str) -> Done:
    """Take a deed back, exactly where nobody changed the files since, else where its place is beyond doubt."""
    splices = deeds.splices(stores.ledger.reader, action)
    if not splices:
        return _move_back(stores, shelf, action, who)
    changes = tuple(Change(splice.path, edit=_without(splice)) for splice in reversed(splices))
    return perform(stores, shelf, Deed("undo", who, changes, key=str(action), undoes=action))


def _move_back(stores: Stores, shelf: Shelf, action: int, who: str) -> Done:
    """Take back an action that changed no file but what is observed of memories."""
    with stores.ledger.write() as connection:
        number = deeds.begin(connection, shelf.id, who, "undo", str(action), "")
        back = takeback.take_back(connection, action, number, who, datetime.now(UTC))
        deeds.finish(connection, number, {"paths": [], "conflicts": [], "back": back})
        _undone(connection, number, action)
        stores.ledger.tick(connection)
    return Done(number, (), key=str(action), changed=False, back=back)


def _without(splice: deeds.Splice) -> Edit:
    def edit(found: bytes | None) -> bytes | None:
        left = deeds.undone(splice, found)
        if isinstance(left, str):
            raise Conflict(f"it cannot be undone: {left}", "memd log shows what happened; memd diff shows the texts")
        return left

    return edit
