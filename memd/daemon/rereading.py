"""Reads files for a question that found more in them than the index has."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from memd.daemon.indexing import IndexingJob, IndexingOptions
from memd.daemon.tasks import mend_text
from memd.daemon.worker import Worker
from memd.indexer.indexing.scan import scan


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read some files whatever their stamps say, and compare the text index: a word in them is not in it."""

    ns: str
    paths: tuple[str, ...]

    def run(self, worker: Worker) -> IndexingJob:
        index = worker.stores.index(self.ns)
        mend_text(worker, index)
        job = IndexingJob(Future(), len(self.paths))
        worker.enqueue(index, list(self.paths), {}, job, IndexingOptions(deep=True))
        return job


@dataclass(frozen=True, slots=True)
class ReadFirst:
    """Take in some files before whatever else an import has to do; what vanished comes before them, as in a scan."""

    ns: str
    paths: tuple[str, ...]

    def run(self, worker: Worker) -> IndexingJob:
        index = worker.stores.index(self.ns)
        seen = scan(index.workspace)
        paths = [*sorted(index.files.keys() - seen.files.keys()), *self.paths]
        sizes = {path: stat.size for path, stat in seen.files.items()}
        job = IndexingJob(Future(), len(paths))
        worker.enqueue(index, paths, sizes, job, IndexingOptions(first=True))
        return job
