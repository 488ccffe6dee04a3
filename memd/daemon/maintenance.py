"""What the daemon does for its text indexes while it rests: reads ahead, and joins what an import left in pieces."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from weakref import WeakKeyDictionary

from memd.daemon import tasks
from memd.daemon.embedding import NICE, Embedding
from memd.daemon.worker import Worker
from memd.errors import MemdError
from memd.indexer.maintenance.rebuild import GENTLE, build_elsewhere
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.store.text import TextIndex

log = logging.getLogger("memd.upkeep")

MOST_LARGE = 3
"""Large segments of one index: beyond it a new word takes noticeably longer to look up than in one."""

RETRY_SECONDS = 600.0


class IndexMaintenance:
    """One thing at a time, in a thread of its own, begun only when the writer rests and no vectors are being made."""

    def __init__(self, worker: Worker, embedding: Embedding) -> None:
        self.worker = worker
        self.embedding = embedding
        self._warm: WeakKeyDictionary[TextIndex, int] = WeakKeyDictionary()
        """How many large segments each index had when it was read ahead."""
        self._joins_from = 0.0
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin what there is to do; called by the writer, which must not wait for it."""
        if self.embedding.warming or self.embedding.pending or (self._thread and self._thread.is_alive()):
            return
        indexes = list(self.worker.stores.indexes.values())
        cold = next((index for index in indexes if self._warm.get(index.text) != index.text.large), None)
        if cold is not None:
            self._begin(cold, join=False)
        elif time.monotonic() >= self._joins_from:
            pieces = next((index for index in indexes if index.text.large > MOST_LARGE), None)
            if pieces is not None:
                self._begin(pieces, join=True)

    def _begin(self, index: WorkspaceIndex, join: bool) -> None:
        self._thread = threading.Thread(target=self._run, args=(index, join), name="memd-upkeep", daemon=True)
        self._thread.start()

    def _run(self, index: WorkspaceIndex, join: bool) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            if join:
                self._join(index)
            else:
                text = index.text
                # Also when it fails: whoever asks will find the damage, and it is mended then.
                self._warm[text] = text.large
                text.postings().warm()
        except MemdError as error:
            log.warning("put off: %s", error)
            self._joins_from = time.monotonic() + RETRY_SECONDS

    def _join(self, index: WorkspaceIndex) -> None:
        started, large = time.monotonic(), index.text.large
        known = index.text.ids()
        fresh = build_elsewhere(self.worker.stores.folder, index.id, GENTLE)
        used = False
        try:
            used = self.worker.submit(tasks.UseJoined(index, fresh, known)).result()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        took, ns = (time.monotonic() - started) * 1000, index.workspace.ns
        if used:
            log.info("joined ns=%s segments=%d ms=%.0f", ns, large, took)
        else:
            log.info("joining ns=%s is put off: it changed meanwhile", ns)
            self._joins_from = time.monotonic() + RETRY_SECONDS
