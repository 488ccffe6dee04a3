"""Work on the text indexes while the daemon is idle: reads ahead, and joins what an import left in pieces."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from memd.daemon.embedding.thread import Embedding
from memd.daemon.process.health import Stopping
from memd.daemon.process.system import give_way
from memd.daemon.writer.tasks import use_built_text, verify_text
from memd.daemon.writer.worker import Worker
from memd.errors import LedgerDamaged, MemdError, StoreBroken
from memd.indexer.maintenance.rebuild import GENTLE, build_elsewhere
from memd.indexer.store.ledger import translated
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.text import TextIndex

log = logging.getLogger("memd.maintenance")

MOST_LARGE = 3
"""Large segments of one index: with more of them, looking up a new word takes noticeably longer."""

MANY_LARGE = 40
"""With so many they are joined also while vectors are being made, which takes hours after a first import."""

RETRY_SECONDS = 600.0


class IndexMaintenance:
    """One thing at a time, in a thread of its own, begun only when the writer is idle."""

    def __init__(self, worker: Worker, embedding: Embedding) -> None:
        self.worker = worker
        self.embedding = embedding
        self._warm: WeakKeyDictionary[TextIndex, int] = WeakKeyDictionary()
        """How many large segments each index had when it was read ahead."""
        self._begun: set[int] = set()
        """The workspaces whose index was opened ahead."""
        self._join_from = 0.0
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin what there is to do; called by the writer, which must not wait for it."""
        if self.embedding.warming or (self._thread and self._thread.is_alive()):
            return
        embeds = self.embedding.at_work
        indexes = self.worker.stores.indexes.values()
        opened = [(index, text) for index in indexes if (text := index.open_text) is not None]
        cold, most = (None, MANY_LARGE) if embeds else (self._cold(opened), MOST_LARGE)
        pieces = next((index for index, text in opened if text.large > most), None)
        if cold is not None:
            self._begin(self._read_ahead, cold)
        elif pieces is not None and time.monotonic() >= self._join_from:
            self._begin(self._join, pieces)

    def _cold(self, opened: Iterable[tuple[OwnIndex, TextIndex]]) -> OwnIndex | None:
        """An index that was not read ahead since an import."""
        return next((index for index, text in opened if self._warm.get(text) != text.large), None) or self._unopened()

    def _unopened(self) -> OwnIndex | None:
        """An index that nobody has asked yet, where there is room for all; one that was closed again is left alone."""
        stores = self.worker.stores
        if not stores.all_fit:
            return None
        closed = (index for index in stores.indexes.values() if index.open_text is None)
        index = next((index for index in closed if index.id not in self._begun), None)
        if index is not None:
            self._begun.add(index.id)
        return index

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
        except LedgerDamaged:
            raise
        except StoreBroken as error:
            log.warning("ns=%s: %s", index.workspace.ns, error)
            self.worker.submit(verify_text, self.worker, index.workspace.ns).result()
            return
        # Noted also when it fails: a question will find the damage, and it is repaired then.
        self._warm[text] = text.large
        text.postings().warm()

    def _join(self, index: OwnIndex) -> None:
        started, large = time.monotonic(), index.text.large
        known = index.text.ids()
        fresh = build_elsewhere(self.worker.stores.folder, index.id, GENTLE)
        try:
            used = self.worker.submit(use_built_text, self.worker, index, fresh, known).result()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        took, ns = (time.monotonic() - started) * 1000, index.workspace.ns
        if used:
            log.info("joined ns=%s segments=%d ms=%.0f", ns, large, took)
        else:
            log.info("joining ns=%s is put off: it changed meanwhile", ns)
            self._join_from = time.monotonic() + RETRY_SECONDS
