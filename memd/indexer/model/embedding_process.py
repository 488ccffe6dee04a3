"""A process that embeds a backlog: texts in, vectors out, at low priority.

The daemon keeps its own model for questions and small saves. This process has another one for as long as there is
much to do. When it dies or hangs, the daemon embeds by itself. On a busy machine it is slow, which is something else:
it hangs when it stands still.
"""

import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from memd.child import Child, ChildGone, ending_with_parent, serve
from memd.config.schema import EmbeddingSettings
from memd.errors import ModelUnavailable
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import Embedder, load_embedder
from memd.indexer.model.pooling import Vectors

NICE = 19
PATIENCE = 60.0
"""Seconds without processor time, and without waiting for any, after which it hangs."""


class EmbeddingProcess(Child):
    """The daemon's end; the process holds nothing that is worth waiting for when it is closed."""

    def __init__(self, settings: EmbeddingSettings, cache: Path, foreign: bool = False) -> None:
        arguments = json.dumps(asdict(settings)), str(cache), str(int(foreign))
        super().__init__("memd-embedder", "memd.indexer.model.embedding_process", *arguments, nice=NICE)
        self.foreign = foreign
        """Whether it has the model for other languages."""
        self._alone = False
        """Whether it keeps to one processor."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; ModelUnavailable when the process died, hangs or cannot embed."""
        try:
            vectors: Vectors = self.result(self.call(list(texts)), PATIENCE)
        except (ChildGone, TimeoutError) as error:
            raise ModelUnavailable(f"the process that embeds has ended or hangs: {error}") from error
        return vectors

    def leave_room(self, wanted: bool) -> None:
        """Keep to one processor, or go back to all; only Linux can tell a process that."""
        if wanted == self._alone or sys.platform != "linux":
            return
        self._alone, every = wanted, os.sched_getaffinity(0)
        # It may have ended, and so may each of its threads.
        with suppress(OSError):
            for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {max(every)} if wanted else every)


def main(link: socket.socket, settings: str, cache: str, foreign: str) -> None:
    """Embed what comes, until the other end is closed."""
    ending_with_parent(link)
    known = EmbeddingSettings(**json.loads(settings))
    own = multilingual.load(Path(cache)) if foreign == "1" else load_embedder(replace(known, threads=1), Path(cache))
    serve(link, _by_threads(own, known.threads))


def _by_threads(embedder: Embedder, threads: int) -> Callable[[Sequence[str]], Vectors]:
    """Several texts at a time: threads that share one text wait for each other."""
    pool = ThreadPoolExecutor(threads)

    def embed(texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), embedder.dims), np.float32)
        parts = [slice(nth, None, threads) for nth in range(min(threads, len(texts)))]
        for part, vectors in zip(parts, pool.map(lambda part: embedder.embed(texts[part]), parts), strict=True):
            rows[part] = vectors
        return rows

    return embed
