"""Undoes actions, by their splices or their life changes, and restores versions of memories."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from sqlite3 import Connection

from memd.errors import Conflict
from memd.indexer.lifecycle import lives
from memd.indexer.record import actions, splices
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.views.past import KnownMemory
from memd.indexer.writing.write_files import ActionResult, FileChange, WriteAction, perform
from memd.notes import blocks, names, sections
from memd.notes.entries import daily_head
from memd.notes.parse import parse


def undo(stores: OwnStores, index: OwnIndex, action: int, who: str, request: str = "") -> ActionResult:
    """Undo an action, as an action that can be undone itself; a repeated request is carried out once."""
    kept = splices.of(stores.ledger.reader, action)
    if not kept:
        return _undo_life_changes(stores, index, action, who, request)
    changes = tuple(FileChange(splice.path, edit=partial(splices.undo_splice, splice)) for splice in reversed(kept))
    return perform(stores, index, WriteAction("undo", who, changes, key=str(action), request=request, undoes=action))


def _undo_life_changes(stores: OwnStores, index: OwnIndex, action: int, who: str, request: str) -> ActionResult:
    """Undo an action that changed no file. What a person put back ages anew, or the next reflect would redo it."""
    if (before := actions.by_request(stores.ledger.reader, request)) is not None:
        return ActionResult(before["id"], repeated=True, key=before["key"], back=json.loads(before["detail"])["back"])
    with stores.ledger.write() as connection:
        number = actions.begin(connection, index.id, who, "undo", str(action), request)
        changes = actions.changes_of(connection, action)
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

    def tier(self, change: actions.LifeChange) -> bool:
        row = self.connection.execute("SELECT tier, moved FROM memories WHERE id = ?", (change.memory,)).fetchone()
        if (row["tier"], row["moved"]) != (change.after["tier"], change.after["moved"]):
            return False
        back = lives.TierMove(change.memory, change.before["tier"], self.who, f"undo of action {self.action}")
        return lives.move(self.connection, self.number, self.restored, back, self.now)

    def useful(self, change: actions.LifeChange) -> bool:
        step = change.before - change.after
        row = self.connection.execute(
            "UPDATE memories SET useful = MAX(0, useful + ?) WHERE id = ? RETURNING useful", (step, change.memory)
        ).fetchone()
        self._keep(change, row["useful"] - step, row["useful"])
        return True

    def edge(self, change: actions.LifeChange) -> bool:
        changed = self.connection.execute(
            "UPDATE edges SET removed = ?1 WHERE one = ?2 AND other = ?3 AND rel = ?4 AND removed = ?5",
            (change.before["removed"], *(change.after[name] for name in ("one", "other", "rel", "removed"))),
        ).rowcount
        if changed:
            self._keep(change, change.after, change.before)
        return bool(changed)

    def _keep(self, change: actions.LifeChange, before: object, after: object) -> None:
        actions.keep_change(self.connection, self.number, self.restored, change.memory, change.what, before, after)


# --- restoring a version ------------------------------------------------------------------------------------


def restoring_change(stores: OwnStores, known: KnownMemory, text: str) -> FileChange:
    """The change that makes a text the current one of its memory."""
    removed = _removed_file(stores.ledger.reader, known)

    def edit(data: bytes | None) -> bytes | None:
        if data is None:
            return sections.in_bytes(lambda old: _new_file(known, old or "", text))(removed)
        return sections.in_bytes(lambda current: _restored(known, current or "", text))(data)

    return FileChange(known.path, edit=edit)


def _restored(known: KnownMemory, current: str, text: str) -> str:
    """The file with the text in place of its memory's current one, or added where the memory is gone."""
    if known.gone is not None:
        if known.slug:
            return sections.with_new_section(current, text)
        return sections.with_preamble(known.path, current, text)
    try:
        return sections.with_section(known.path, current, known.slug, text)
    except KeyError:
        raise Conflict(f"{known.path} has no such memory any more", "memd sync, then try again") from None


def _removed_file(connection: Connection, known: KnownMemory) -> bytes:
    """The bytes of the file when it was last removed, by whomever."""
    row = connection.execute(
        "SELECT s.removed FROM splices s JOIN actions a ON a.id = s.action"
        ' WHERE a.workspace = ? AND s.path = ? AND s."after" IS NULL ORDER BY a.id DESC LIMIT 1',
        (known.index.id, known.path),
    ).fetchone()
    return zlib.decompress(row["removed"]) if row else b""


def _new_file(known: KnownMemory, removed: str, text: str) -> str:
    """A file with this memory alone, and with what stood before the sections of the removed one."""
    memories = parse(known.path, removed).memories
    if [memory.slug for memory in memories] == [known.slug]:
        return sections.with_section(known.path, removed, known.slug, text)
    head = sections.before_sections(known.path, removed)
    day = names.date_of(known.path)
    if not head and known.slug and day and names.DATE.fullmatch(known.path.rpartition("/")[2].removesuffix(".md")):
        head = f"{daily_head(day)}\n"
    return head + text + blocks.with_line_ends("\n", removed)
