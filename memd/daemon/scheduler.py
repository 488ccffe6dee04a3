"""The jobs that run by the clock, and what became of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memd.daemon.events import JOB, Nobody
from memd.errors import MemdError

log = logging.getLogger("memd.scheduler")

QUIET = "scan"
"""Runs every minute; what it finds is told as indexed."""


@dataclass(slots=True)
class JobState:
    """A job's last run."""

    name: str
    every_s: float
    last: str | None = None
    took_ms: float = 0.0
    result: str = ""


class Scheduler:
    """APScheduler with one thread: jobs never overlap, and a missed run is caught up once."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobState] = {}
        self._scheduler: Any = None
        self.events = Nobody()
        """Told when a job has ended, for those who watch."""

    def start(self) -> None:
        # Imported here: the socket answers before there is anything to schedule.
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        self._scheduler.start()

    def every(self, seconds: float, name: str, work: Callable[[], str], first_in: float | None = None) -> None:
        """Run `work` again and again; it answers what it did, in a few words."""
        self._jobs[name] = JobState(name, seconds)
        begin = datetime.now(UTC) + timedelta(seconds=seconds if first_in is None else first_in)
        self._scheduler.add_job(
            self._run, "interval", seconds=seconds, args=[name, work], id=name, next_run_time=begin, jitter=None
        )

    def _run(self, name: str, work: Callable[[], str]) -> None:
        state, started = self._jobs[name], time.monotonic()
        state.last = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            state.result = work()
        except MemdError as error:
            state.result = f"failed: {error}"
            log.error("job %s failed: %s", name, error)
        state.took_ms = round((time.monotonic() - started) * 1000, 1)
        if name != QUIET:
            self.events.tell(JOB, job=name, result=state.result, took_ms=state.took_ms)

    def stop(self) -> None:
        self._scheduler.shutdown(wait=False)

    def states(self) -> list[dict[str, Any]]:
        found = []
        for name, state in self._jobs.items():
            job = self._scheduler.get_job(name) if self._scheduler else None
            following = job.next_run_time.isoformat(timespec="seconds") if job and job.next_run_time else None
            found.append({"name": name, "every_s": state.every_s, "last": state.last, "took_ms": state.took_ms,
                          "result": state.result, "next": following})  # fmt: skip
        return found
