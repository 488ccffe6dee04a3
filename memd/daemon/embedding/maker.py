"""Where vectors are computed: in the daemon, by an embedding server, or for a backlog in a process of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Row
from typing import TYPE_CHECKING

from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model.embedding_process import EmbeddingProcess

if TYPE_CHECKING:
    from memd.indexer.model.embedder import Embedder
    from memd.indexer.model.embedding_server import ServerEmbedder
    from memd.indexer.model.pooling import Vectors

log = logging.getLogger("memd.embedding")

FETCH = 64
BATCH = 8
"""Larger batches gain nothing and cost memory."""
BACKLOG, BACKLOG_FETCH, BACKLOG_BATCH = 256, 128, 32
"""So many chunks without a vector are embedded in a process of their own; so many are fetched at a time, and so many
are kept at a time: what a busy machine makes in a minute or two is not to be lost."""
ALONE_SECONDS = 30.0
"""How long the daemon embeds by itself after that process failed."""


class VectorMaker:
    """Makes vectors of texts, in batches of the size that suits the place."""

    def __init__(self, model_folder: Path, is_interrupted: Callable[[], bool]) -> None:
        self._model_folder = model_folder
        self._is_interrupted = is_interrupted
        self._process: EmbeddingProcess | None = None
        """While there is a backlog."""
        self._alone_until = 0.0

    def prepare(self, settings: EmbeddingSettings | None, foreign: bool, pending: int) -> int:
        """Start or end the process for a backlog, which needs settings; returns how many chunks to take on."""
        if self._process is not None and (settings is None or self._process.foreign != foreign):
            self.end_process()
        if settings is None:
            return FETCH
        if self._process is None and pending >= BACKLOG and time.monotonic() >= self._alone_until:
            self._process = EmbeddingProcess(settings, self._model_folder, foreign)
        return BACKLOG_FETCH if self._process else FETCH

    def batches(self, rows: list[Row], server: ServerEmbedder | None) -> Iterator[list[Row]]:
        """The rows in batches, each text once: equal ones get its vector with it."""
        different = list({row["digest"]: row for row in rows}.values())
        # Longest first pads least, and the whole lot is the newest that there is.
        different.sort(key=lambda row: -len(row["text"]))
        size = server.batch if server is not None else BACKLOG_BATCH if self._process else BATCH
        return (different[at : at + size] for at in range(0, len(different), size))

    def make(self, embedder: Embedder, texts: list[str]) -> Vectors:
        """One vector a text; ModelUnavailable where there is none to be had, or the work was interrupted."""
        if self._process is not None:
            try:
                return self._process.embed(texts)
            except ModelUnavailable as error:
                self.end_process()
                if self._is_interrupted():
                    raise
                log.warning("the daemon embeds by itself: %s", error)
                self._alone_until = time.monotonic() + ALONE_SECONDS
        return embedder.embed(texts)

    def begin_anew(self) -> None:
        """Another model comes: what held for the one before is forgotten."""
        self.end_process()
        self._alone_until = 0.0

    def interrupt(self) -> None:
        """Cut short what the process does, from another thread."""
        if process := self._process:
            process.interrupt()

    def end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
