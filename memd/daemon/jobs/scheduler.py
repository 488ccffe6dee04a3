"""Runs the jobs by the clock, one at a time, and keeps what became of them."""

import logging
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from memd.config import schedules
from memd.config.schedules import Schedule
from memd.daemon.serving.events import JOB, Events
from memd.errors import MemdError, UsageError

log = logging.getLogger("memd.scheduler")

SOON = timedelta(minutes=3)
"""How long after a start the first of the missed jobs runs: what a first import left to do is mostly done by then."""
APART = timedelta(minutes=1)
"""And how long after it the next one."""

FAILED = "failed: "

PUT_BACK_S = 30.0
"""A clock that was put back by more than this is followed; less delays a job by no more."""

SCANS = "scans"
"""The thread of what is not remembered: a scan does not wait for a job that takes minutes."""


@dataclass(slots=True)
class ScheduledJob:
    """A job with its schedule and its last run."""

    name: str
    when: str
    """Its schedule, as the settings have it."""
    work: Callable[[], str]
    """Returns what it did, in a few words."""
    kept: bool = True
    """Its last run is remembered by the ledger, so that a run that was missed is caught up."""
    last: str | None = None
    took_ms: float = 0.0
    result: str = ""
    running: bool = False


class JitteredSchedule:
    """A schedule as a trigger of APScheduler: the next time, put off a little at random."""

    def __init__(self, schedule: Schedule, zone: tzinfo, jitter_s: float) -> None:
        self.schedule = schedule
        self.zone = zone
        self.jitter_s = jitter_s

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """After now, not after the previous time: a machine that slept for a week runs each job once."""
        return self._jittered(self.schedule.after(now, self.zone))

    def first_run(self, last: str | None, now: datetime, soon: datetime) -> datetime:
        """When a job runs next that last ran then; `soon` where a run was missed."""
        before = datetime.fromisoformat(last) if last else None
        return self._jittered(schedules.first_run(self.schedule, before, now, soon, self.zone))

    def _jittered(self, due: datetime) -> datetime:
        most = schedules.max_jitter(self.schedule, due, self.jitter_s, self.zone)
        return due + timedelta(seconds=random.uniform(0, most))


class Scheduler:
    """APScheduler with one thread: jobs never overlap, and missed runs are caught up once."""

    def __init__(self, events: Events, explain: Callable[[Exception], Exception]) -> None:
        self._explain = explain
        self._jobs: dict[str, ScheduledJob] = {}
        self._events = events
        self._clock = _clock_ahead()
        self._stopping = False

    def start(self, jobs: Sequence[ScheduledJob], keep: Callable[[ScheduledJob], None], jitter_s: float) -> None:
        """Begin with these jobs; `keep` is called for every run, when it begins and when it has ended."""
        # Imported here: the socket answers before there is anything to schedule.
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler
        from apscheduler.triggers.base import BaseTrigger

        BaseTrigger.register(JitteredSchedule)
        self._keep = keep
        executors = {"default": ThreadPoolExecutor(1), SCANS: ThreadPoolExecutor(1)}
        never_too_late = {"misfire_grace_time": None}
        self._scheduler = BackgroundScheduler(executors=executors, job_defaults=never_too_late, timezone=UTC)
        self._scheduler.start()
        now, zone = datetime.now(UTC), local_zone()
        for nth, job in enumerate(jobs):
            self._plan(job, now, now + SOON + nth * APART, zone, jitter_s)
        self._jobs = {job.name: job for job in jobs}

    def _plan(self, job: ScheduledJob, now: datetime, soon: datetime, zone: tzinfo, jitter_s: float) -> None:
        if (schedule := schedules.parse(job.when)) is None:
            return
        trigger = JitteredSchedule(schedule, zone, jitter_s if job.kept else 0)
        # What is not remembered runs at once: nobody can tell whether it was missed.
        due = trigger.first_run(job.last, now, soon) if job.kept else now
        executor = "default" if job.kept else SCANS
        self._scheduler.add_job(self._run, trigger, args=[job], id=job.name, next_run_time=due, executor=executor)

    @property
    def ready(self) -> bool:
        return bool(self._jobs)

    def ask(self, name: str) -> Future[dict[str, Any]]:
        """Run a job as soon as no other runs; the result is the job's state."""
        if name not in self._jobs:
            raise UsageError(f"no job is called {name!r}", f"there are: {', '.join(self._jobs)}")
        future: Future[dict[str, Any]] = Future()
        self._scheduler.add_job(self._run_for, args=[self._jobs[name], future])
        return future

    def _run_for(self, job: ScheduledJob, future: Future[dict[str, Any]]) -> None:
        if future.set_running_or_notify_cancel():
            self._run(job)
            if planned := self._scheduler.get_job(job.name):
                # A run that someone asked for counts: the next one comes as after any other.
                planned.modify(next_run_time=planned.trigger.get_next_fire_time(None, datetime.now(UTC)))
            future.set_result({**self._state(job), "ok": not job.result.startswith(FAILED)})

    def follow_clock(self) -> None:
        """Plan every job again when the clock was put back: what was due in a minute would come as much later."""
        ahead, before = _clock_ahead(), self._clock
        if ahead > before - PUT_BACK_S:
            self._clock = max(ahead, before)
            return
        self._clock = ahead
        log.warning("the clock was put back by %d s; jobs are planned again", before - ahead)
        now = datetime.now(UTC)
        for job in self._jobs.values():
            if planned := self._scheduler.get_job(job.name):
                planned.modify(next_run_time=planned.trigger.first_run(job.last, now, now + SOON))

    def _run(self, job: ScheduledJob) -> None:
        if self._stopping:
            job.result = f"{FAILED}memd is stopping"
            return
        started, job.running = time.monotonic(), True
        job.last, job.took_ms, job.result = datetime.now(UTC).isoformat(timespec="milliseconds"), 0.0, ""
        # Kept at the beginning too: a job that takes the daemon down with it does not run again at every start.
        self._keep(job)
        try:
            job.result = job.work()
        except MemdError as error:
            job.result = f"{FAILED}{error}"
            # While memd stops, what a job works with is closed under it, which is no news.
            if not self._stopping:
                log.error("job %s failed: %s", job.name, error)
        except Exception as error:
            job.result = f"{FAILED}{type(error).__name__}: {self._explain(error)}"
            if not self._stopping:
                log.exception("job %s failed", job.name)
        job.took_ms, job.running = round((time.monotonic() - started) * 1000, 1), False
        self._keep(job)
        # A scan runs every minute and is not announced; what it finds is, as indexed.
        if job.kept:
            self._events.tell(JOB, job=job.name, result=job.result, took_ms=job.took_ms)

    def stop(self) -> None:
        """Begin no other job; the one that runs ends by itself, as what it works with is closed."""
        self._stopping = True
        self._scheduler.shutdown(wait=False)

    def states(self) -> list[dict[str, Any]]:
        return [self._state(job) for job in self._jobs.values()]

    def _state(self, job: ScheduledJob) -> dict[str, Any]:
        """The job as results have it, with the time of its next run."""
        planned = self._scheduler.get_job(job.name)
        following = planned.next_run_time if planned else None
        due = following.astimezone(UTC).isoformat(timespec="seconds") if following else None
        ran = {name: getattr(job, name) for name in ("last", "took_ms", "result", "running")}
        return {"name": job.name, "schedule": job.when, **ran, "next": due}


def _clock_ahead() -> float:
    """How far the time of day is ahead of the seconds that passed: it changes only when somebody sets the clock."""
    return time.time() - time.monotonic()


def local_zone() -> tzinfo:
    """The zone of this machine, with its summer time; UTC where it is unknown."""
    import tzlocal

    try:
        return tzlocal.get_localzone()
    except (LookupError, ValueError, OSError) as error:
        log.warning("the time zone is unknown (%s); schedules are in UTC", error)
        return UTC
