"""Carries out and undoes write actions: what they change is in the ledger first, so a kill loses nothing."""

import json
import logging
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from sqlite3 import Connection, Row

from memd.errors import AlreadyExists, Conflict, DiskFull, MemdError, NotFound, Refused
from memd.failpoints import failpoint
from memd.indexer.indexing.scan import NamesOnDisk
from memd.indexer.lifecycle import lives
from memd.indexer.record import actions
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import digest_of, is_document
from memd.notes import blocks, names, read, safe_write, sections, topics
from memd.notes.parse import parse

log = logging.getLogger("memd.write_files")
SQL = queries(__file__)

ABOUT = ("curate", "edge", "files")
"""Actions that change what is said about a memory, in its comment or in front matter, by how their names begin."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that an action changes: text appended at its end, or an edit of the whole file."""

    path: str
    append: str = ""
    """The section that is added; with an edit, by that, before the list of topics."""
    head: str = ""
    """How a new file begins, before the appended text."""
    edit: safe_write.Edit | None = None

    def write(self, root: Path, intend: safe_write.Intend, keeps_day: bool) -> safe_write.WriteResult:
        """Write the file; `intend` gets the bytes before and after, before anything changes."""
        file = safe_write.place_of(root, self.path)
        if self.edit is not None:
            return safe_write.rewrite(file, self.edit, intend, keeps_day)
        return safe_write.append(file, self.append, self.head, intend, lambda old: sections.closing(read.decode(old)))


@dataclass(frozen=True, slots=True)
class WriteAction:
    """Changes of one or more files that are carried out, and can be undone, as one."""

    what: str
    who: str
    changes: tuple[FileChange, ...]
    key: str = ""
    request: str = ""
    undoes: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action."""

    action: int
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    repeated: bool = False
    """The same request was carried out before."""
    key: str = ""
    """The memory concerned; an added section gets a key of its own."""
    changed: bool = False
    """Whether a file has other bytes than before."""
    visible: str = ""
    """The clock at which questions see it."""
    back: int = 0
    """How many life changes were undone: tiers, usefulness, edges."""


def perform(stores: OwnStores, index: OwnIndex, write_action: WriteAction) -> ActionResult:
    """Write every file of an action; if one fails, those before it are restored."""
    if (before := actions.by_request(stores.reader, write_action.request)) is not None:
        detail = json.loads(before["detail"])
        return ActionResult(before["id"], tuple(detail["paths"]), tuple(detail["conflicts"]), True, before["key"])
    if document := next(filter(is_document, write_action.paths), ""):
        raise Refused(f"{document} is a document, which memd only reads", "change it in the program that made it")
    if index.files and not index.workspace.root.is_dir():
        # A new folder would take the place of what comes back, and end the hold on what it had.
        raise NotFound(f"{index.workspace.root} is not there", index.bring_back)
    names = NamesOnDisk(index.workspace)
    changes = tuple(replace(change, path=names.spelled(change.path)) for change in write_action.changes)
    record = _ActionRecord(stores.ledger, index, replace(write_action, changes=changes), write_action.key)
    written: list[safe_write.WriteResult] = []
    keeps_day = _keeps_day(stores.reader, write_action)
    try:
        for nth, change in enumerate(changes):
            written.append(change.write(index.workspace.root, partial(record.intend, nth, change), keeps_day))
    except BaseException as error:
        record.fail(error)
        raise
    conflicts = tuple(one.conflict for one in written if one.conflict)
    changed = [change.path for change, one in zip(changes, written, strict=True) if one.before != one.after]
    number = record.finish(conflicts, changed)
    return ActionResult(number, record.write_action.paths, conflicts, key=record.key, changed=bool(changed))


def _keeps_day(connection: Connection, write_action: WriteAction) -> bool:
    """Whether an action says something about a memory and leaves its text: a file without a date is of its last day."""
    what, undone = write_action.what, write_action.undoes
    while undone is not None and what == "undo":
        row = connection.execute("SELECT what, key FROM actions WHERE id = ?", (undone,)).fetchone()
        what, undone = row["what"], int(row["key"]) if row["what"] == "undo" else None
    return re.split(r"[ .]", what)[0] in ABOUT


@dataclass(slots=True)
class _ActionRecord:
    """The ledger's record of an action: begun in the transaction that keeps the first splice."""

    ledger: Ledger
    index: OwnIndex
    write_action: WriteAction
    key: str
    number: int | None = None

    def intend(self, nth: int, change: FileChange, old: bytes | None, new: bytes | None) -> None:
        """Keep what is about to change. A repeated request finds it, and so does the next start after a kill."""
        if change.append:
            text = read.decode(old or b"")
            end = topics.list_start(text) if change.edit else None
            self.key = sections.unique_key(self.write_action.key, text[:end])
        splice = actions.splice_of(change.path, old, new)
        with self.ledger.write() as connection:
            actions.keep_splice(connection, self._begun(connection), nth, splice)
        failpoint("action-begun")

    def finish(self, conflicts: Sequence[str], changed: Sequence[str]) -> int:
        with self.ledger.write() as connection:
            number = self._begun(connection)
            if changed:
                self.ledger.promise(connection, self.index.id, changed)
            actions.finish(connection, number, {"paths": self.write_action.paths, "conflicts": conflicts})
            if self.write_action.undoes is not None:
                actions.mark_undone(connection, self.write_action.undoes, number)
        return number

    def fail(self, error: BaseException) -> None:
        """Restore the files that were written, and record the failure; what a full disk prevents is done later."""
        number = self.ledger.transact(self._begun)
        self.index.unrestored[number] = str(error)
        if waiting := restore_failed(self.ledger, self.index, [number]):
            why = f"{error}; {', '.join(waiting)}: changed, and restored as soon as there is room"
            raise DiskFull(why, "make room on the disk; memd goes on by itself") from error

    def _begun(self, connection: Connection) -> int:
        if self.number is None:
            do = self.write_action
            self.number = actions.begin(connection, self.index.id, do.who, do.what, self.key, do.request, do.paths)
        return self.number


def restore_failed(ledger: Ledger, index: OwnIndex, numbers: Sequence[int]) -> list[str]:
    """Restore the files of actions that failed half-way; returns those that wait until there is room on the disk."""
    waiting: list[str] = []
    for number in numbers:
        written = [splice for splice in actions.splices_of(ledger.reader, number) if _is_written(index, splice)]
        left, without_room = _restore(index, written)
        waiting += without_room
        if not without_room:
            failure = {"why": index.unrestored[number], **({"left": left} if left else {})}
            ledger.transact(actions.finish, number, failure, "failed")
            del index.unrestored[number]
    return waiting


def _restore(index: OwnIndex, written: list[actions.Splice]) -> tuple[list[str], list[str]]:
    """Undo the files of half an action; returns those that stay because others changed them since, and those that wait.

    A full disk keeps a file waiting.
    """
    left, waiting = list[str](), list[str]()
    for splice in written:
        try:
            file = safe_write.place_of(index.workspace.root, splice.path)
            safe_write.rewrite(file, partial(actions.undo_splice, splice))
        except MemdError as error:
            log.warning("%s: %s", splice.path, error)
            (waiting if isinstance(error, DiskFull) else left).append(splice.path)
    return left, waiting


# --- after a kill -------------------------------------------------------------------------------------------


def recover(stores: OwnStores, index: OwnIndex) -> None:
    """Finish or fail every action that a kill left begun, and sweep up."""
    begun = [(row, actions.splices_of(stores.reader, row["id"])) for row in actions.begun(stores.reader, index.id)]
    intended = [_intended(index, splice) for _, kept in begun for splice in kept]

    def ours(data: bytes) -> bool:
        # A process that was killed while it wrote leaves the beginning of the new file.
        return any(whole.startswith(data) or digest == digest_of(data) for whole, digest in intended)

    copies = [copy for folder in _folders(index) for copy in safe_write.sweep(folder, ours)]
    for row, kept in begun:
        _decide(stores.ledger, index, row, kept)
    restore_failed(stores.ledger, index, list(index.unrestored))
    if begun or copies:
        names = ", ".join(copies) or "none"
        log.warning("after a kill: ns=%s actions=%d copies=%s", index.workspace.ns, len(begun), names)


def _intended(index: OwnIndex, splice: actions.Splice) -> tuple[bytes, str | None]:
    """The bytes that a file was to get, if they can still be worked out, and their digest."""
    data = _bytes(index, splice)
    if actions.digest_or_none(data) != splice.before:
        return b"", splice.after
    return actions.redo_splice(splice, data or b""), splice.after


def _folders(index: OwnIndex) -> list[Path]:
    parents = {str(PurePosixPath(path).parent) for path in index.known_files()} | {"."}
    return [folder for parent in sorted(parents) if (folder := index.workspace.root / parent).is_dir()]


def _decide(ledger: Ledger, index: OwnIndex, row: Row, kept: list[actions.Splice]) -> None:
    """An action is done when every file has its change; otherwise those that have it are to be restored."""
    promised = json.loads(row["detail"]).get("paths", ())
    if not (kept and len(kept) >= len(promised) and all(_is_written(index, splice) for splice in kept)):
        index.unrestored[row["id"]] = "memd was killed before it was done"
        return
    paths = list(dict.fromkeys(splice.path for splice in kept))
    for file in (index.workspace.root / path for path in paths):
        # Written is not yet on the disk.
        if file.is_file():
            safe_write.sync(file)
    with ledger.write() as connection:
        actions.finish(connection, row["id"], {"paths": paths, "conflicts": [], "recovered": True})
        ledger.promise(connection, index.id, paths)
        if row["what"] == "undo":
            actions.mark_undone(connection, int(row["key"]), row["id"])


def _is_written(index: OwnIndex, splice: actions.Splice) -> bool:
    """Whether a file has the change; where others changed it since, the place of the splice must be certain."""
    data = _bytes(index, splice)
    if actions.digest_or_none(data) == splice.before:
        return False
    try:
        actions.undo_splice(splice, data)
    except Conflict:
        return False
    return True


def _bytes(index: OwnIndex, splice: actions.Splice) -> bytes | None:
    file = index.workspace.root / splice.path
    return file.read_bytes() if file.is_file() else None


# --- undoing ------------------------------------------------------------------------------------------------


def undo(stores: OwnStores, index: OwnIndex, action: int, who: str, request: str = "") -> ActionResult:
    """Undo an action, as an action that can be undone itself; a repeated request is carried out once."""
    kept = actions.splices_of(stores.reader, action)
    if not kept:
        return _undo_life_changes(stores, index, action, who, request)
    changes = tuple(FileChange(splice.path, edit=partial(actions.undo_splice, splice)) for splice in reversed(kept))
    return perform(stores, index, WriteAction("undo", who, changes, key=str(action), request=request, undoes=action))


def _undo_life_changes(stores: OwnStores, index: OwnIndex, action: int, who: str, request: str) -> ActionResult:
    """Undo an action that changed no file. A memory put back by a person ages anew, or reflect would redo it."""
    if (before := actions.by_request(stores.reader, request)) is not None:
        return ActionResult(before["id"], repeated=True, key=before["key"], back=json.loads(before["detail"])["back"])
    with stores.ledger.write() as connection:
        number = actions.begin(connection, index.id, who, "undo", str(action), request)
        changes = actions.changes_of(connection, action)
        restored = 0
        for change in reversed(changes):
            restored += _undo_life_change(connection, action, change, number, restored, who)
        if changes and not restored:
            moved = "it cannot be undone: the memories were moved again since"
            raise Conflict(moved, "memd log KEY shows what happened to each")
        actions.finish(connection, number, {"paths": [], "conflicts": [], "back": restored})
        actions.mark_undone(connection, action, number)
        stores.ledger.tick(connection)
    return ActionResult(number, key=str(action), back=restored)


def _undo_life_change(
    connection: Connection, action: int, change: actions.LifeChange, by: int, nth: int, who: str
) -> bool:
    """Undo one life change if it is still as the action left it; `by` is the undoing action, which keeps its own."""
    was, becomes = change.after, change.before
    if change.what == "tier":
        row = connection.execute("SELECT tier, moved FROM memories WHERE id = ?", (change.memory,)).fetchone()
        back = lives.TierMove(change.memory, becomes["tier"], who, f"undo of action {action}")
        unmoved = (row["tier"], row["moved"]) == (was["tier"], was["moved"])
        return unmoved and lives.move(connection, by, nth, back, datetime.now(UTC))
    if change.what == "useful":
        step = becomes - was
        (useful,) = connection.execute(SQL["change_useful"], (step, change.memory)).fetchone()
        was, becomes = useful - step, useful
    else:
        as_left = (was[name] for name in ("one", "other", "rel", "removed"))
        if not connection.execute(SQL["change_edge"], (becomes["removed"], *as_left)).rowcount:
            return False
    actions.keep_change(connection, by, nth, change.memory, change.what, was, becomes)
    return True


# --- restoring a version ------------------------------------------------------------------------------------


def restoring_change(stores: OwnStores, index: WorkspaceIndex, known: Row, text: str) -> FileChange:
    """The change that makes a text the current one of its memory."""
    # The file as it was when it was last removed, by whomever.
    row = stores.reader.execute(SQL["removed_file"], (index.id, known["path"])).fetchone()
    removed = zlib.decompress(row["removed"]) if row else b""

    def edit(data: bytes | None) -> bytes | None:
        if data is None:
            return sections.in_bytes(lambda old: _new_file(known, old or "", text))(removed)
        restored = sections.in_bytes(lambda current: _restored(known, current or "", text))(data)
        if restored == data:
            raise AlreadyExists(f"{known['path']} has this text already")
        return restored

    return FileChange(known["path"], edit=edit)


def _restored(known: Row, current: str, text: str) -> str:
    """The file with the text in place of its memory's current one, or added where the memory is gone."""
    if known["gone"] is not None:
        if known["slug"]:
            return sections.with_new_section(current, text)
        return sections.with_preamble(known["path"], current, text)
    try:
        return sections.with_section(known["path"], current, known["slug"], text)
    except KeyError:
        raise Conflict(f"{known['path']} has no such memory any more", "memd sync, then try again") from None


def _new_file(known: Row, removed: str, text: str) -> str:
    """A file with this memory alone, and with what stood before the sections of the removed one."""
    path, slug = known["path"], known["slug"]
    if [memory.slug for memory in parse(path, removed).memories] == [slug]:
        return sections.with_section(path, removed, slug, text)
    head, day = sections.before_sections(path, removed), names.date_of(path)
    if not head and slug and day and names.DATE.fullmatch(PurePosixPath(path).name.removesuffix(".md")):
        head = f"{sections.daily_head(day)}\n"
    return head + text + blocks.with_line_ends("\n", removed)
