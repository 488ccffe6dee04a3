"""Carries out write actions: what they change is in the ledger before a file is touched, so a kill loses nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from sqlite3 import Connection, Row

from memd.errors import Conflict, DiskFull, MemdError
from memd.failpoints import failpoint
from memd.indexer.record import actions, splices
from memd.indexer.record.splices import Splice, digest_or_none, splice_of, undo_splice
from memd.indexer.store.ledger import Ledger
from memd.indexer.store.own_stores import OwnIndex, OwnStores
from memd.notes import entries, read, safe_write

log = logging.getLogger("memd.write_files")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that an action changes: text appended at its end, or an edit of the whole file."""

    path: str
    append: str = ""
    head: str = ""
    """How a new file begins, before the appended text."""
    edit: safe_write.Edit | None = None

    def write(self, root: Path, intend: Callable[[bytes | None, bytes | None], None]) -> safe_write.WriteResult:
        """Write the file; `intend` gets the bytes before and after, before anything changes."""
        file = safe_write.place_of(root, self.path)
        if self.edit is not None:
            return safe_write.rewrite(file, self.edit, intend)
        return safe_write.append(file, self.append, self.head, intend)


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
    before = actions.by_request(stores.ledger.reader, write_action.request)
    if before is not None:
        detail = json.loads(before["detail"])
        return ActionResult(before["id"], tuple(detail["paths"]), tuple(detail["conflicts"]), True, before["key"])
    record = _ActionRecord(stores.ledger, index, write_action)
    written: list[safe_write.WriteResult] = []
    try:
        for nth, change in enumerate(write_action.changes):
            written.append(change.write(index.workspace.root, partial(record.intend, nth, change)))
    except BaseException as error:
        record.fail(error)
        raise
    conflicts = tuple(one.conflict for one in written if one.conflict)
    changed = any(one.before != one.after for one in written)
    return ActionResult(
        record.finish(conflicts, changed), write_action.paths, conflicts, key=record.key, changed=changed
    )  # fmt: skip


class _ActionRecord:
    """The ledger's record of an action: begun in the transaction that keeps the first splice."""

    def __init__(self, ledger: Ledger, index: OwnIndex, write_action: WriteAction) -> None:
        self.key = write_action.key
        self._ledger = ledger
        self._index = index
        self._write_action = write_action
        self._number: int | None = None
        self._splices: dict[int, Splice] = {}

    def intend(self, nth: int, change: FileChange, old: bytes | None, new: bytes | None) -> None:
        """Keep what is about to change. A repeated request finds it, and so does the next start after a kill."""
        if change.edit is None:
            self.key = entries.unique_key(self._write_action.key, read.decode(old or b""))
        self._splices[nth] = splice_of(change.path, old, new)
        with self._ledger.write() as connection:
            splices.keep(connection, self._begun(connection), nth, self._splices[nth])
        failpoint("action-begun")

    def finish(self, conflicts: Sequence[str], changed: bool) -> int:
        with self._ledger.write() as connection:
            number = self._begun(connection)
            if changed:
                self._ledger.promise(connection, self._index.id, self._write_action.paths)
            actions.finish(connection, number, {"paths": self._write_action.paths, "conflicts": conflicts})
            if self._write_action.undoes is not None:
                actions.mark_undone(connection, self._write_action.undoes, number)
        return number

    def fail(self, error: BaseException) -> None:
        """Restore the files that were written, and record the failure; what a full disk prevents is done later."""
        with self._ledger.write() as connection:
            number = self._begun(connection)
        self._index.unrestored[number] = str(error)
        if waiting := restore_failed(self._ledger, self._index, [number]):
            raise DiskFull(
                f"{error}; {', '.join(waiting)}: changed, and restored as soon as there is room",
                "make room on the disk; memd goes on by itself",
            ) from error

    def _begun(self, connection: Connection) -> int:
        if self._number is None:
            do = self._write_action
            self._number = actions.begin(connection, self._index.id, do.who, do.what, self.key, do.request, do.paths)
        return self._number


def restore_failed(ledger: Ledger, index: OwnIndex, numbers: Sequence[int]) -> list[str]:
    """Restore the files of actions that failed half-way; returns those that wait until there is room on the disk."""
    waiting: list[str] = []
    for number in numbers:
        written = [splice for splice in splices.of(ledger.reader, number) if _is_written(index, splice)]
        left, without_room = _restore(index, written)
        waiting += without_room
        if not without_room:
            failure = {"why": index.unrestored[number], **({"left": left} if left else {})}
            with ledger.write() as connection:
                actions.finish(connection, number, failure, "failed")
            del index.unrestored[number]
    return waiting


def _restore(index: OwnIndex, written: list[Splice]) -> tuple[list[str], list[str]]:
    """Undo the files of half an action; returns those that stay because others changed them since, and those that wait.

    A full disk keeps a file waiting.
    """
    left, waiting = list[str](), list[str]()
    for splice in written:
        try:
            file = safe_write.place_of(index.workspace.root, splice.path)
            safe_write.rewrite(file, partial(undo_splice, splice))
        except MemdError as error:
            log.warning("%s: %s", splice.path, error)
            (waiting if isinstance(error, DiskFull) else left).append(splice.path)
    return left, waiting


# --- after a kill -------------------------------------------------------------------------------------------


def recover(stores: OwnStores, index: OwnIndex) -> list[str]:
    """Finish or fail every action that a kill left begun, and sweep up; returns the conflict copies that were made."""
    begun = [
        (row, splices.of(stores.ledger.reader, row["id"])) for row in actions.begun(stores.ledger.reader, index.id)
    ]
    intended = [_intended(index, splice) for _, kept in begun for splice in kept]

    def ours(data: bytes) -> bool:
        # A process that was killed while it wrote leaves the beginning of the new file.
        return any(whole.startswith(data) or digest == read.digest_of(data) for whole, digest in intended)

    copies = [copy for folder in _folders(index) for copy in safe_write.sweep(folder, ours)]
    for row, kept in begun:
        _decide(stores.ledger, index, row, kept)
    restore_failed(stores.ledger, index, list(index.unrestored))
    if begun or copies:
        names = ", ".join(copies) or "none"
        log.warning("after a kill: ns=%s actions=%d copies=%s", index.workspace.ns, len(begun), names)
    return copies


def _intended(index: OwnIndex, splice: Splice) -> tuple[bytes, str | None]:
    """The bytes that a file was to get, if they can still be worked out, and their digest."""
    data = _bytes(index, splice)
    if digest_or_none(data) != splice.before:
        return b"", splice.after
    old = data or b""
    return old[: splice.start] + splice.inserted + old[splice.start + len(splice.removed) :], splice.after


def _folders(index: OwnIndex) -> list[Path]:
    parents = {str(PurePosixPath(path).parent) for path in index.known_files()} | {"."}
    return [folder for parent in sorted(parents) if (folder := index.workspace.root / parent).is_dir()]


def _decide(ledger: Ledger, index: OwnIndex, row: Row, kept: list[Splice]) -> None:
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


def _is_written(index: OwnIndex, splice: Splice) -> bool:
    """Whether a file has the change; where others changed it since, the place of the splice must be certain."""
    data = _bytes(index, splice)
    if digest_or_none(data) == splice.before:
        return False
    try:
        undo_splice(splice, data)
    except Conflict:
        return False
    return True


def _bytes(index: OwnIndex, splice: Splice) -> bytes | None:
    file = index.workspace.root / splice.path
    return file.read_bytes() if file.is_file() else None
