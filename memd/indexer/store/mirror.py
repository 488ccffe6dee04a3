"""Exact search over a workspace's vectors, in memory that reader processes share with the daemon.

Each number of a vector is stored in two bytes: the first alone says nearly what the vector is, both say it as well as a
float does. So a search compares the first bytes of all vectors, which is a quarter of what floats would have it read,
and the whole of the nearest.

The memory is a file without a name: a header, the chunk number and the scale of each row, the rows. Only the owner
writes. A reader sees each change at once and takes no lock: what it may misread for a moment is a chunk that its
snapshot of the ledger does not have.
"""

import errno
import mmap
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors
from memd.indexer.store.lines import places_in

Ids = NDArray[np.int64]

BLOCK = 2_048
"""Rows whose first bytes stand together, followed by their second ones; so many are compared at once."""

COARSE, FINE = 127, 254
"""The largest first byte, and how many steps of the second make one of the first."""

COMPARED = 200
"""How many of the nearest by their first bytes are compared whole, or four times what is asked for."""

HEAD = np.dtype([("chunk", np.int64), ("scale", np.float64)])

MOST_ROWS = 1 << 24
HEADER = mmap.ALLOCATIONGRANULARITY
ROWS_AT = HEADER + HEAD.itemsize * MOST_ROWS
"""Where the rows begin; untouched pages of the part before take no memory."""

USED, LIVE, VERSION, CLOSED, SERIAL = range(5)
"""The header: rows in use, those that hold a chunk, a number that grows with each change, whether the owner let go, and
which mirror it is."""

EMPTY = np.iinfo(np.int64).min
"""The chunk number of a row that was dropped; the next chunk takes it."""


GONE = (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.EACCES)
"""The errors of opening or mapping a number that is nobody's, a socket's, a pipe's or a device's by now."""


class MirrorPlace(NamedTuple):
    """Where a mirror can be attached, and how to know it: a number of a file may be another file's by then."""

    path: Path
    serial: int


def _shared_file(folder: Path | None) -> tuple[int, Path]:
    """A file of this process, and where others of the same user can open it while this one lives: in memory, where the
    system has such files, or in the folder."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("memd-mirror")
        return descriptor, Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="memd-mirror-", dir=folder)
    return descriptor, Path(name)


class _Order(NamedTuple):
    """The rows in the order of their chunk numbers, as of a version; the last one, -1, is for a chunk not here."""

    version: int
    rows: NDArray[np.int64]
    ids: Ids


class Mirror:
    """Unit vectors by chunk number."""

    def __init__(self, dims: int, model: int = 0, folder: Path | None = None) -> None:
        descriptor, path = _shared_file(folder)
        self._open(descriptor, dims, model)
        if not path.is_relative_to("/proc"):
            weakref.finalize(self, path.unlink, missing_ok=True)
        os.ftruncate(self._descriptor, ROWS_AT)
        self._header = np.frombuffer(mmap.mmap(self._descriptor, HEADER), np.int64)
        self._header[SERIAL] = secrets.randbits(62)
        self.place = MirrorPlace(path, int(self._header[SERIAL]))
        self._writable = True

    @classmethod
    def attach(cls, place: MirrorPlace, dims: int, model: int = 0) -> Self | None:
        """The mirror of another process, for reading; None if it is no longer there."""
        mirror = cls.__new__(cls)
        try:
            # The number may be a pipe's by now, which must not be waited for.
            mirror._open(os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), dims, model)
            header = mmap.mmap(mirror._descriptor, HEADER, access=mmap.ACCESS_READ)
        except ValueError:
            return None
        except OSError as error:
            if error.errno in GONE:
                return None
            raise
        mirror._header = np.frombuffer(header, np.int64)
        mirror._writable = False
        return mirror if mirror._header[SERIAL] == place.serial else None

    def _open(self, descriptor: int, dims: int, model: int) -> None:
        self.dims = dims
        self.model = model
        """The number of the model whose vectors these are."""
        self._descriptor = descriptor
        self._heads = np.zeros(0, HEAD)
        self._blocks = np.zeros((0, 2, BLOCK, dims), np.int8)
        self._order = _Order(0, np.full(1, -1), np.zeros(0, np.int64))
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, descriptor)

    @property
    def closed(self) -> bool:
        """Whether its owner follows it no longer."""
        return bool(self._header[CLOSED])

    def close(self) -> None:
        """Tell the readers to attach another one; what they have stays readable."""
        self._header[CLOSED] = 1

    def __len__(self) -> int:
        return int(self._header[LIVE])

    @property
    def memory(self) -> int:
        """How many bytes it takes."""
        return int(self._header[USED]) * (HEAD.itemsize + 2 * self.dims)

    # --- the memory -------------------------------------------------------------------------------------------

    def _ids(self) -> Ids:
        """The chunk numbers of the rows in use."""
        used = int(self._header[USED])
        with self._lock:
            if used > len(self._heads):
                self._map((os.fstat(self._descriptor).st_size - ROWS_AT) // (2 * BLOCK * self.dims))
        return self._heads["chunk"][:used]

    def _map(self, blocks: int) -> None:
        access = mmap.ACCESS_WRITE if self._writable else mmap.ACCESS_READ
        heads = mmap.mmap(self._descriptor, HEAD.itemsize * BLOCK * blocks, offset=HEADER, access=access)
        rows = mmap.mmap(self._descriptor, 2 * BLOCK * blocks * self.dims, offset=ROWS_AT, access=access)
        # In this order: another thread that sees a row's head finds its bytes.
        self._blocks = np.frombuffer(rows, np.int8).reshape(blocks, 2, BLOCK, self.dims)
        self._heads = np.frombuffer(heads, HEAD)

    def _cosines(self, vector: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The cosines of some rows."""
        cosines = np.zeros(len(rows))
        for at in range(0, len(rows), BLOCK):
            some = rows[at : at + BLOCK]
            both = self._blocks[some // BLOCK, :, some % BLOCK].reshape(-1, self.dims).astype(np.float32) @ vector
            cosines[at : at + BLOCK] = (both[::2] + both[1::2] / FINE) * self._heads["scale"][some]
        return cosines

    def _by_first_bytes(self, vector: Vectors, rows: NDArray[np.int64] | None, count: int) -> NDArray[np.float64]:
        """About the cosines of some rows, or of the first `count`."""
        import numkong  # a text search does without its 48 MB

        asked, _, _ = _in_bytes(vector[None])
        if rows is not None:
            parts = [self._blocks[rows // BLOCK, 0, rows % BLOCK]]
        else:
            parts = [self._blocks[at // BLOCK, 0, : count - at] for at in range(0, count, BLOCK)]
        scores = np.concatenate([np.asarray(numkong.cdist(asked, part, "dot"))[0] for part in parts])
        about: NDArray[np.float64] = scores * self._heads["scale"][slice(count) if rows is None else rows]
        return about

    def _places(self, chunks: Sequence[int] | Ids) -> NDArray[np.int64]:
        """The row of each chunk; -1 for one that is not here."""
        order, version = self._order, int(self._header[VERSION])
        if order.version != version:
            ids = self._ids()
            rows = np.argsort(ids, kind="stable")
            self._order = order = _Order(version, np.append(rows, -1), ids[rows])
        return order.rows[places_in(order.ids, np.asarray(chunks, np.int64))]

    # --- the owner --------------------------------------------------------------------------------------------

    def add(self, ids: Sequence[int], vectors: Vectors) -> None:
        if not len(ids):
            return
        chunks, places = np.asarray(ids, np.int64), self._places(ids)
        places[places < 0] = self._new_places(int((places < 0).sum()))
        first, second, scales = _in_bytes(vectors)
        with self._lock:
            self._heads["chunk"][places] = EMPTY
            self._blocks[places // BLOCK, 0, places % BLOCK] = first
            self._blocks[places // BLOCK, 1, places % BLOCK] = second
            self._heads["scale"][places] = scales
            self._heads["chunk"][places] = chunks
        self._changed(max(int(self._header[USED]), int(np.max(places)) + 1))

    def _new_places(self, count: int) -> NDArray[np.int64]:
        """Rows that are free: dropped ones first, then new ones."""
        used = self._ids()
        free = np.flatnonzero(used == EMPTY)[:count]
        need = len(used) + count - len(free)
        if need > len(self._heads):
            blocks = max(-(-need // BLOCK), 2 * len(self._blocks))
            os.ftruncate(self._descriptor, ROWS_AT + 2 * BLOCK * blocks * self.dims)
            with self._lock:
                self._map(blocks)
        return np.concatenate((free, np.arange(len(used), need)))

    def drop(self, ids: Iterable[int]) -> None:
        places = self._places(list(ids))
        places = places[places >= 0]
        if len(places):
            with self._lock:
                self._heads["chunk"][places] = EMPTY
                self._blocks[places // BLOCK, :, places % BLOCK] = 0
            self._changed(int(self._header[USED]))

    def _changed(self, used: int) -> None:
        self._header[LIVE] = int((self._heads["chunk"][:used] != EMPTY).sum())
        self._header[USED] = used
        self._header[VERSION] += 1

    # --- questions --------------------------------------------------------------------------------------------

    def search(
        self, vector: Vectors, limit: int, allowed: Sequence[int] | Ids | None = None, filters: object = None
    ) -> list[tuple[int, float]]:
        """Chunk numbers with their cosine, nearest first, among `allowed` if given; filters add nothing to that."""
        ids, rows = self._ids(), None
        if allowed is not None:
            rows = self._places(allowed)
            rows = rows[rows >= 0]
            ids = ids[rows]
        here = np.flatnonzero(ids != EMPTY)
        most = max(COMPARED, 4 * limit)
        if len(here) > most:
            about = self._by_first_bytes(vector, rows, len(ids))[here]
            here = here[np.argpartition(-about, most)[:most]]
        ids = ids[here]
        scores = self._cosines(vector, here if rows is None else rows[here])
        order = np.lexsort((ids, -scores))[:limit]
        return list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))

    def rank(self, vector: Vectors, chunk: int) -> int | None:
        """The place of a chunk among all, counted from 1; None when it is not here."""
        at = int(self._places([chunk])[0])
        if at < 0:
            return None
        ids = self._ids()
        scores = self._cosines(vector, np.arange(len(ids)))
        return int(((scores > scores[at]) & (ids != EMPTY)).sum()) + 1

    def cosines(self, vector: Vectors, chunks: Sequence[int]) -> NDArray[np.float64]:
        """The cosine of each of some chunks; NaN for one that is not here."""
        cosines = np.full(len(chunks), np.nan)
        places = self._places(chunks)
        cosines[places >= 0] = self._cosines(vector, places[places >= 0])
        return cosines

    def take(self, chunks: Sequence[int]) -> Vectors:
        """The vectors of some chunks; NaN for one that is not here."""
        vectors = np.full((len(chunks), self.dims), np.nan, np.float32)
        places = self._places(chunks)
        rows = places[places >= 0]
        first, second = self._blocks[rows // BLOCK, :, rows % BLOCK].astype(np.float32).transpose(1, 0, 2)
        vectors[places >= 0] = (first + second / FINE) * self._heads["scale"][rows, None]
        return vectors

    def nearest(self, vectors: Vectors, depth: int) -> list[dict[int, float]]:
        """The chunks nearest to each of some vectors, with their cosines."""
        return [dict(self.search(vector, depth)) for vector in vectors]


def _in_bytes(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.float64]]:
    """The first and the second bytes of some vectors, and what a first byte of 1 means in each."""
    scales = np.maximum(np.abs(vectors).max(axis=1), np.finfo(np.float32).tiny).astype(np.float64) / COARSE
    scaled = vectors / scales[:, None]
    first = np.rint(scaled)
    return first.astype(np.int8), np.rint((scaled - first) * FINE).astype(np.int8), scales
