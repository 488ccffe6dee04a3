"""After a kill: what a write left half-done is decided by what stands in the files, and leftovers are swept."""

from __future__ import annotations

import json
import logging
from pathlib import Path, PurePosixPath
from sqlite3 import Row

from memd.errors import MemdError
from memd.indexer.record import deeds
from memd.indexer.record.deeds import Splice
from memd.indexer.store.stores import Shelf, Stores
from memd.notes import leftovers, pen
from memd.notes.read import digest_of

log = logging.getLogger("memd.recover")


def recover(stores: Stores, shelf: Shelf) -> list[str]:
    """Finish or fail every deed that was begun, and look at what rewrites left; answers the copies that were kept."""
    begun = deeds.begun(stores.ledger.reader, shelf.id)
    known = {row["id"]: deeds.splices(stores.ledger.reader, row["id"]) for row in begun}
    intended = [_intended(shelf, splice) for splices in known.values() for splice in splices]

    def ours(data: bytes) -> bool:
        # A process that was killed while it wrote left the beginning of it.
        return any(whole.startswith(data) or digest == digest_of(data) for whole, digest in intended)

    kept = [copy for folder in _folders(shelf) for copy in leftovers.sweep(folder, ours)]
    for row in begun:
        _decide(stores, shelf, row, known[row["id"]])
    if begun or kept:
        log.warning("after a kill: ns=%s deeds=%d copies=%s", shelf.workspace.ns, len(begun), ", ".join(kept) or "none")
    return kept


def _intended(shelf: Shelf, splice: Splice) -> tuple[bytes, str | None]:
    """What a file was to become, as far as that can still be told, and its digest."""
    found = _found(shelf, splice)
    if (None if found is None else digest_of(found)) != splice.before:
        return b"", splice.after
    old = found or b""
    return old[: splice.start] + splice.inserted + old[splice.start + len(splice.removed) :], splice.after


def _found(shelf: Shelf, splice: Splice) -> bytes | None:
    file = shelf.workspace.root / splice.path
    return file.read_bytes() if file.is_file() else None


def _folders(shelf: Shelf) -> list[Path]:
    parents = {str(PurePosixPath(path).parent) for path in shelf.files} | {"."}
    return [folder for parent in sorted(parents) if (folder := shelf.workspace.root / parent).is_dir()]


def _decide(stores: Stores, shelf: Shelf, row: Row, splices: list[Splice]) -> None:
    """A deed is whole or it is not: what stands of half a one is taken back."""
    promised = json.loads(row["detail"]).get("paths", ())
    standing = [splice for splice in splices if stands(shelf, splice)]
    whole = bool(splices) and len(standing) == len(splices) >= len(promised)
    left = [] if whole else _take_back(shelf, standing)
    paths = list(dict.fromkeys(splice.path for splice in splices))
    done = {"paths": paths, "conflicts": [], "recovered": True}
    failed = {"why": "memd was killed before it was done", **({"left": left} if left else {})}
    with stores.ledger.write() as connection:
        deeds.finish(connection, row["id"], done if whole else failed, "done" if whole else "failed")
        if whole and row["what"] == "undo":
            connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (row["id"], row["key"]))
            connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (row["key"],))


def stands(shelf: Shelf, splice: Splice) -> bool:
    """Whether a file has what was to be put into it; if so, it is on the disk from here on."""
    found = _found(shelf, splice)
    digest = None if found is None else digest_of(found)
    if digest == splice.before:
        return False
    # Someone may have gone on with the file since: then its place in it must be beyond doubt.
    if digest != splice.after and isinstance(deeds.undone(splice, found), str):
        return False
    if found is not None:
        pen.sync(shelf.workspace.root / splice.path)
    return True


def _take_back(shelf: Shelf, standing: list[Splice]) -> list[str]:
    """Undo the files of half a deed; answers those that went on since and stay as they are."""
    left = []
    for splice in standing:

        def back(found: bytes | None, splice: Splice = splice) -> bytes | None:
            before = deeds.undone(splice, found)
            return found if isinstance(before, str) else before

        try:
            pen.rewrite(pen.place_of(shelf.workspace.root, splice.path), back)
        except MemdError as error:
            log.warning("%s: %s", splice.path, error)
            left.append(splice.path)
    return left
