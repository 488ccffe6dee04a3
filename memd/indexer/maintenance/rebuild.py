"""Makes caches hold what the ledger says: by adding and dropping what differs, or built anew in a child process."""

import logging
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from memd.child import Child, ChildGone, ending_with_parent, serve
from memd.errors import MemdError
from memd.indexer.store import catalog, text
from memd.indexer.store.catalog import TextState
from memd.indexer.store.own_stores import BUILDING, OwnIndex, OwnStores
from memd.indexer.store.segment import TextBroken

log = logging.getLogger("memd.stores")

GENTLE = 15
"""The niceness of a build that nobody waits for."""

FEW = 2_500
"""So few chunks are joined in this process: that takes less than starting another."""


BUILD_ERRORS = (MemdError, OSError, sqlite3.Error)
"""The errors by which a build fails, if its process does not."""

BATCH = 1_000
"""Chunks that are added to a text index at a time."""


# --- what differs -------------------------------------------------------------------------------------------


def text_difference(stores: OwnStores, index: OwnIndex, deep: bool = True) -> tuple[list[int], list[int]]:
    """The chunks that the text index lacks, and those that it has too many; TextBroken when it cannot be read.

    `deep`: whether all of it is read.
    """
    if deep:
        index.text.verify()
    wanted, held = catalog.chunk_ids(stores.reader, index.id), index.text.ids()
    return sorted(wanted - held, reverse=True), sorted(held - wanted)


def reconcile_text(
    stores: OwnStores, index: OwnIndex, lacks_many: Callable[[], object] = lambda: None, deep: bool = False
) -> int:
    """Make the text index hold exactly the ledger's chunks; returns how many differed.

    One that cannot be read, which `deep` finds out for sure, is made anew. `lacks_many` is called when it takes several
    batches: questions see the first ones before the last are there.
    """
    stores.suspect_text(index)
    try:
        return _follow_ledger(stores, index, lacks_many, deep)
    except TextBroken as error:
        log.warning("ns=%s: put aside and built again: %s", index.workspace.ns, error)
        stores.renew_text(index)
        return _follow_ledger(stores, index, lacks_many, deep=False)


def _follow_ledger(stores: OwnStores, index: OwnIndex, lacks_many: Callable[[], object], deep: bool) -> int:
    missing, extra = text_difference(stores, index, deep)
    if extra:
        index.text.apply((), extra)
    if len(missing) > BATCH:
        lacks_many()
    for at in range(0, len(missing), BATCH):
        index.text.apply(catalog.chunk_texts(stores.reader, missing[at : at + BATCH]), ())
    stores.ledger.transact(catalog.mark_text, index.id, TextState.IN_STEP)
    if missing or extra:
        stores.have_texts_read_again()
    return len(missing) + len(extra)


def collection_difference(stores: OwnStores, index: OwnIndex) -> tuple[int, int]:
    """How many vectors the collection lacks, and how many it has too many.

    It waits for Chroma, so the writer's thread must not ask.
    """
    if stores.model is None or index.collection is None:
        return 0, 0
    return index.collection.difference()


def reconcile_collection(stores: OwnStores, index: OwnIndex) -> bool:
    """Make the collection hold exactly the ledger's vectors; says whether it does. Not on the writer's thread."""
    if stores.vectors is None or index.collection is None:
        return False
    index.collection.compare()
    stores.vectors.follow()
    return stores.vectors.wait_in_step()


# --- a text index that is built anew ------------------------------------------------------------------------


def build_elsewhere(state: Path, workspace: int, nice: int = 0, segments: Sequence[Any] = ()) -> Path:
    """Build from the ledger or of segments of the index, in a child; returns the folder of the finished index."""
    (state / BUILDING).mkdir(mode=0o700, exist_ok=True)
    # A folder for each: a rebuild that someone asked for may meet one that the daemon began by itself.
    fresh = Path(tempfile.mkdtemp(prefix=f"{workspace}.", dir=state / BUILDING))
    arguments = str(state), str(workspace), str(fresh)
    try:
        if segments and sum(segment.doc_count_all() for segment in segments) <= FEW:
            _build(state, workspace, fresh, segments)
        else:
            with closing(Child("memd-rebuild", "memd.indexer.maintenance.rebuild", *arguments, nice=nice)) as child:
                child.call(segments).result()
    except (ChildGone, *BUILD_ERRORS) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise MemdError(f"the text index could not be built: {error}", "memd doctor") from error
    return fresh


def main(link: socket.socket, state: str, workspace: str, fresh: str) -> None:
    serve(ending_with_parent(link, code=1), partial(_answer, Path(state), int(workspace), Path(fresh)))


def _answer(*asked: Any) -> Exception | None:
    try:
        _build(*asked)
    except BUILD_ERRORS as error:
        return error
    return None


def _build(state: Path, workspace: int, fresh: Path, segments: Sequence[Any]) -> None:
    with closing(sqlite3.connect(f"file:{state / 'state.db'}?mode=ro", uri=True)) as ledger:
        chunks = () if segments else catalog.all_chunk_texts(ledger, workspace)
        text.build(fresh, chunks, state / "text" / str(workspace), segments)
