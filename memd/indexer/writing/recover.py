"""After a kill: what a write left half-done is decided by what stands in the files, and leftovers are swept."""

from __future__ import annotations

import json
import logging
from pathlib import Path, PurePosixPath
from sqlite3 import Row

from memd.errors import MemdError
from memd.indexer.record import actions
from memd.indexer.record.actions import Splice
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.notes import safe_write
from memd.notes.read import digest_of

log = logging.getLogger("memd.recover")


def recover(stores: Stores, index: WorkspaceIndex) -> list[str]:
    """Finish or fail every action that was begun, and look at what rewrites left; answers the copies that were kept."""
    begun = actions.begun(stores.ledger.reader, index.id)
    known = {row["id"]: actions.splices(stores.ledger.reader, row["id"]) for row in begun}
    intended = [_intended(index, splice) for splices in known.values() for splice in splices]

    def ours(data: bytes) -> bool:
        # A process that was killed while it wrote left the beginning of it.
        return any(whole.startswith(data) or digest == digest_of(data) for whole, digest in intended)

    kept = [copy for folder in _folders(index) for copy in safe_write.sweep(folder, ours)]
    for row in begun:
        _decide(stores, index, row, known[row["id"]])
    if begun or kept:
        log.warning("after a kill: ns=%s deeds=%d copies=%s", index.workspace.ns, len(begun), ", ".join(kept) or "none")
    return kept


def _intended(index: WorkspaceIndex, splice: Splice) -> tuple[bytes, str | None]:
    """What a file was to become, as far as that can still be told, and its digest."""
    found = _found(index, splice)
    if (None if found is None else digest_of(found)) != splice.before:
        return b"", splice.after
    old = found or b""
    return old[: splice.start] + splice.inserted + old[splice.start + len(splice.removed) :], splice.after


def _found(index: WorkspaceIndex, splice: Splice) -> bytes | None:
    file = index.workspace.root / splice.path
    return file.read_bytes() if file.is_file() else None


def _folders(index: WorkspaceIndex) -> list[Path]:
    parents = {str(PurePosixPath(path).parent) for path in index.files} | {"."}
    return [folder for parent in sorted(parents) if (folder := index.workspace.root / parent).is_dir()]


def _decide(stores: Stores, index: WorkspaceIndex, row: Row, splices: list[Splice]) -> None:
    """An action is whole or it is not: what stands of half a one is taken back."""
    promised = json.loads(row["detail"]).get("paths", ())
    standing = [splice for splice in splices if stands(index, splice)]
    whole = bool(splices) and len(standing) == len(splices) >= len(promised)
    left = [] if whole else _take_back(index, standing)
    paths = list(dict.fromkeys(splice.path for splice in splices))
    done = {"paths": paths, "conflicts": [], "recovered": True}
    failed = {"why": "memd was killed before it was done", **({"left": left} if left else {})}
    with stores.ledger.write() as connection:
        actions.finish(connection, row["id"], done if whole else failed, "done" if whole else "failed")
        if whole and row["what"] == "undo":
            connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (row["id"], row["key"]))
            connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (row["key"],))


def stands(index: WorkspaceIndex, splice: Splice) -> bool:
    """Whether a file has what was to be put into it; if so, it is on the disk from here on."""
    found = _found(index, splice)
    digest = None if found is None else digest_of(found)
    if digest == splice.before:
        return False
    # Someone may have gone on with the file since: then its place in it must be beyond doubt.
    if digest != splice.after and isinstance(actions.undone(splice, found), str):
        return False
    if found is not None:
        safe_write.sync(index.workspace.root / splice.path)
    return True


def _take_back(index: WorkspaceIndex, standing: list[Splice]) -> list[str]:
    """Undo the files of half an action; answers those that went on since and stay as they are."""
    left = []
    for splice in standing:

        def back(found: bytes | None, splice: Splice = splice) -> bytes | None:
            before = actions.undone(splice, found)
            return found if isinstance(before, str) else before

        try:
            safe_write.rewrite(safe_write.place_of(index.workspace.root, splice.path), back)
        except MemdError as error:
            log.warning("%s: %s", splice.path, error)
            left.append(splice.path)
    return left
