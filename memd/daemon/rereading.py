"""Reads files for a question that found more in them than the index has."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from memd.daemon.imports import How, Job
from memd.daemon.tasks import mend_text
from memd.daemon.worker import Worker
from memd.indexer.intake.scan import scan


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read some files whatever their stamps say, and compare the text index: a word in them is not in it."""

    ns: str
    paths: tuple[str, ...]

    def run(self, worker: Worker) -> Job:
        shelf = worker.stores.shelf(self.ns)
        mend_text(worker, shelf)
        job = Job(Future(), len(self.paths))
        worker.enqueue(shelf, list(self.paths), {}, job, How(deep=True))
        return job


@dataclass(frozen=True, slots=True)
class ReadFirst:
    """Take in some files before whatever else an import has to do; what vanished comes before them, as in a scan."""

    ns: str
    paths: tuple[str, ...]

    def run(self, worker: Worker) -> Job:
        shelf = worker.stores.shelf(self.ns)
        seen = scan(shelf.workspace)
        paths = [*sorted(shelf.files.keys() - seen.files.keys()), *self.paths]
        sizes = {path: stat.size for path, stat in seen.files.items()}
        job = Job(Future(), len(paths))
        worker.enqueue(shelf, paths, sizes, job, How(first=True))
        return job
