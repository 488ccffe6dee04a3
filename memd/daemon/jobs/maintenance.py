"""Work on the text indexes beside the writer: reads ahead, and joins what edits and imports left in pieces."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial

from memd.daemon.embedding.thread import Embedding
from memd.daemon.process.health import Stopping
from memd.daemon.process.system import give_way
from memd.daemon.writer.queue import Turn
from memd.daemon.writer.tasks import use_joined_text, verify_text
from memd.daemon.writer.worker import Worker
from memd.errors import MemdError, StoreBroken
from memd.indexer.maintenance.rebuild import GENTLE, build_elsewhere
from memd.indexer.store.ledger import translated
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.segment import LINES

log = logging.getLogger("memd.maintenance")

MOST_LARGE = 3
"""Large segments of one index: with more of them, looking up a new word takes noticeably longer."""

MANY_LARGE = 10
"""With more they are joined at once: in the middle of an import, and while vectors are being made."""

SMALL_EACH = 3
"""For each large segment there may be so many small ones."""

RETRY_SECONDS = 600.0


class IndexMaintenance:
    """One thing at a time, in a thread of its own, begun only when the writer is idle."""

    def __init__(self, worker: Worker, embedding: Embedding) -> None:
        self.worker = worker
        self.embedding = embedding
        self._warm: dict[int, int] = {}
        """How many large segments the index of each workspace had when it was read ahead."""
        self._join_from = 0.0
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin what there is to do; called by the writer, which must not wait for it."""
        if self._occupied:
            return
        if self.embedding.at_work:
            self.look_at_pieces()
        elif (cold := self._cold()) is not None:
            self._warm.setdefault(cold.id, 0)
            self._begin(self._read_ahead, cold)
        else:
            self.look_at_pieces(MOST_LARGE)

    def look_at_pieces(self, most: int = MANY_LARGE) -> None:
        """Begin to join an index that is in more pieces; called by the writer too."""
        if not self._occupied and time.monotonic() >= self._join_from:
            for index in self.worker.stores.indexes.values():
                text = index.open_text
                if text is not None and (text.large > most or text.small > SMALL_EACH * most):
                    self._begin(partial(self._join, most), index)
                    return

    @property
    def _occupied(self) -> bool:
        return self.embedding.warming or (self._thread is not None and self._thread.is_alive())

    def _cold(self) -> OwnIndex | None:
        """An index that was not read ahead since an import, or, where there is room for all, one that nobody has asked.

        One that was closed again is left alone.
        """
        stores = self.worker.stores
        for index in stores.indexes.values():
            text = index.open_text
            unasked = text is None and stores.all_fit and index.id not in self._warm
            if unasked or (text is not None and self._warm.get(index.id) != text.large):
                return index
        return None

    def _begin(self, work: Callable[[OwnIndex], None], index: OwnIndex) -> None:
        self._thread = threading.Thread(target=self._run, args=(work, index), name="memd-maintenance", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[OwnIndex], None], index: OwnIndex) -> None:
        give_way()
        try:
            with translated():
                work(index)
        except Stopping:
            return
        except MemdError as error:
            self.worker.guard.explain(error)
            log.warning("put off: %s", error)
            self._join_from = time.monotonic() + RETRY_SECONDS

    def _read_ahead(self, index: OwnIndex) -> None:
        try:
            text = index.text
        except StoreBroken as error:
            log.warning("ns=%s: %s", index.workspace.ns, error)
            self.worker.submit(verify_text, self.worker, index.workspace.ns).result()
            return
        # Noted also when it fails: a question will find the damage, and it is repaired then.
        self._warm[index.id] = text.large
        text.postings().warm()

    def _join(self, most: int, index: OwnIndex) -> None:
        started, pieces = time.monotonic(), index.text.pieces(most)
        try:
            fresh = build_elsewhere(self.worker.stores.folder, index.id, GENTLE, pieces)
        except MemdError:
            if all((index.text.folder / piece.make_filename(LINES)).exists() for piece in pieces):
                raise
            # A commit removed one of them just now.
            return
        try:
            submitted = self.worker.submit(use_joined_text, self.worker, index, fresh, pieces, turn=Turn.BACKGROUND)
            used = submitted.result()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        took, how = (time.monotonic() - started) * 1000, "joined" if used else "changed meanwhile, joined later"
        log.info("%s ns=%s segments=%d ms=%.0f", how, index.workspace.ns, len(pieces), took)
