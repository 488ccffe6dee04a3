"""An import: what a scan found, in slices that are applied in one go each, and who waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from memd.indexer.indexing.ingest import IngestReport

SLICE_BYTES = 1_000_000
SLICE_FILES = 2_000
"""A slice is one commit of each store, about two seconds at the most."""


@dataclass(slots=True)
class IndexingJob:
    """An import under way: who waits for it and how far it is."""

    future: Future[IngestReport]
    total: int
    report: IngestReport = field(default_factory=IngestReport)
    done: int = 0
    error: Exception | None = None
    started: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class IndexingSlice:
    """A part of an import that is applied in one go."""

    ns: str
    paths: tuple[str, ...]
    job: IndexingJob
    how: IndexingOptions


@dataclass(frozen=True, slots=True)
class IndexingOptions:
    """How paths are applied: whether mass loss is believed, unchanged text parsed again, a fresh write left alone.

    `first` says that they come before imports that wait already.
    """

    accept_missing: bool = False
    deep: bool = False
    settle: bool = False
    first: bool = False


PLAIN = IndexingOptions()
SETTLED = IndexingOptions(settle=True)


def slices(paths: list[str], sizes: dict[str, int]) -> Iterable[tuple[str, ...]]:
    part: list[str] = []
    size = 0
    for path in paths:
        part.append(path)
        size += sizes.get(path, 0)
        if size >= SLICE_BYTES or len(part) >= SLICE_FILES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def add_up(total: IngestReport, part: IngestReport) -> None:
    for name in ("files", "removed", "held", "touched", "chunks_added", "chunks_dropped", "to_embed"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
