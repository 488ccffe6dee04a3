"""Carries out an action: writes the files, notes what was changed, and leaves the rest to the route of every change."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from sqlite3 import Connection, Row

from memd.errors import Conflict
from memd.failpoints import failpoint
from memd.indexer.record import actions
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.writing import undo_life_changes
from memd.notes import safe_write
from memd.notes.entries import numbered
from memd.notes.read import decode
from memd.notes.safe_write import Edit, WriteResult


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that an action changes: by an append, or by an edit of the whole."""

    path: str
    append: str = ""
    head: str = ""
    """How the file begins when it is not there yet."""
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class WriteAction:
    """What someone wants done, as one action that can be undone as one."""

    what: str
    who: str
    changes: tuple[FileChange, ...]
    key: str = ""
    request: str = ""
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class ActionResult:
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


def perform(stores: Stores, index: WorkspaceIndex, write_action: WriteAction) -> ActionResult:
    """Write every file of an action. What fails half-way is taken back as far as nobody else has changed it."""
    before = actions.by_request(stores.ledger.reader, write_action.request)
    if before is not None:
        return _repeated(before)
    if len(write_action.changes) == 1 and write_action.changes[0].append:
        return _append(stores, index, write_action)
    paths = [change.path for change in write_action.changes]
    with stores.ledger.write() as connection:
        action = actions.begin(
            connection, index.id, write_action.who, write_action.what, write_action.key, write_action.request, paths
        )
    written: list[WriteResult] = []
    try:
        for nth, change in enumerate(write_action.changes):
            written.append(_write(stores, index, action, nth, change))
    except BaseException as error:
        _take_back(index, write_action, written)
        with stores.ledger.write() as connection:
            actions.finish(connection, action, {"why": str(error)}, "failed")
        raise
    conflicts = tuple(one.conflict for one in written if one.conflict)
    done = _finish(stores, action, write_action, conflicts)
    return replace(done, changed=any(one.before != one.after for one in written))


def _repeated(before: Row) -> ActionResult:
    told = json.loads(before["detail"])
    return ActionResult(
        before["id"], tuple(told["paths"]), tuple(told["conflicts"]), True, before["key"], changed=False
    )


def _append(stores: Stores, index: WorkspaceIndex, write_action: WriteAction) -> ActionResult:
    """One section more. The ledger is told first, so that a caller who asks again after a crash gets it once."""
    change, begun = write_action.changes[0], list[tuple[int, str]]()

    def intend(old: bytes | None, new: bytes | None) -> None:
        key = numbered(write_action.key, decode(old or b""))
        with stores.ledger.write() as connection:
            action = actions.begin(
                connection, index.id, write_action.who, write_action.what, key, write_action.request, [change.path]
            )
            actions.keep_splice(connection, action, 0, actions.splice_of(change.path, old, new))
        begun.append((action, key))
        failpoint("action-begun")

    try:
        safe_write.append(safe_write.place_of(index.workspace.root, change.path), change.append, change.head, intend)
    except BaseException as error:
        if begun:
            with stores.ledger.write() as connection:
                actions.finish(connection, begun[0][0], {"why": str(error)}, "failed")
        raise
    action, key = begun[0]
    return replace(_finish(stores, action, write_action, ()), key=key)


def _write(stores: Stores, index: WorkspaceIndex, action: int, nth: int, change: FileChange) -> WriteResult:
    file = safe_write.place_of(index.workspace.root, change.path)

    def intend(old: bytes | None, new: bytes | None) -> None:
        # Before anything changes: a process that dies in between leaves the old bytes here.
        with stores.ledger.write() as connection:
            actions.keep_splice(connection, action, nth, actions.splice_of(change.path, old, new))

    if change.edit is not None:
        return safe_write.rewrite(file, change.edit, intend)
    written = safe_write.append(file, change.append, change.head)
    intend(written.before, written.after)
    return written


def _take_back(index: WorkspaceIndex, write_action: WriteAction, written: list[WriteResult]) -> None:
    """Undo the files of an action that were written before one failed; one that went on since stays."""
    for change, one in zip(write_action.changes, written, strict=False):

        def back(found: bytes | None, one: WriteResult = one) -> bytes | None:
            return one.before if found == one.after else found

        safe_write.rewrite(safe_write.place_of(index.workspace.root, change.path), back)


def _finish(stores: Stores, action: int, write_action: WriteAction, conflicts: tuple[str, ...]) -> ActionResult:
    paths = tuple(change.path for change in write_action.changes)
    with stores.ledger.write() as connection:
        actions.finish(connection, action, {"paths": paths, "conflicts": conflicts})
        if write_action.undoes is not None:
            _undone(connection, action, write_action.undoes)
    return ActionResult(action, paths, conflicts, key=write_action.key)


def _undone(connection: Connection, by: int, action: int) -> None:
    """Mark an action as taken back; what an undo had taken back stands again when the undo is undone."""
    connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (by, action))
    connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (action,))


# --- undoing ------------------------------------------------------------------------------------------------


def undo(stores: Stores, index: WorkspaceIndex, action: int, who: str) -> ActionResult:
    """Take an action back, exactly where nobody changed the files since, else where its place is beyond doubt."""
    splices = actions.splices(stores.ledger.reader, action)
    if not splices:
        return _move_back(stores, index, action, who)
    changes = tuple(FileChange(splice.path, edit=_without(splice)) for splice in reversed(splices))
    return perform(stores, index, WriteAction("undo", who, changes, key=str(action), undoes=action))


def _move_back(stores: Stores, index: WorkspaceIndex, action: int, who: str) -> ActionResult:
    """Take back an action that changed no file but what is observed of memories."""
    with stores.ledger.write() as connection:
        number = actions.begin(connection, index.id, who, "undo", str(action), "")
        back = undo_life_changes.undo_life_changes(connection, action, number, who, datetime.now(UTC))
        actions.finish(connection, number, {"paths": [], "conflicts": [], "back": back})
        _undone(connection, number, action)
        stores.ledger.tick(connection)
    return ActionResult(number, (), key=str(action), changed=False, back=back)


def _without(splice: actions.Splice) -> Edit:
    def edit(found: bytes | None) -> bytes | None:
        left = actions.undone(splice, found)
        if isinstance(left, str):
            raise Conflict(f"it cannot be undone: {left}", "memd log shows what happened; memd diff shows the texts")
        return left

    return edit
