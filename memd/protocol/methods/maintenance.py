"""Keeping memd in step and in order: `sync`, `rebuild`, `doctor`, `job.list` and `job.run`."""

from typing import Annotated, Any, NotRequired, TypedDict

from memd.protocol.methods.base import Fresh, Progressing, Request, Scoped, Text, local, place


class SyncResult(Fresh):
    """The answer of `sync`."""

    files: int
    changed: int
    removed: int
    held: int
    took_ms: float


class SyncRequest(Scoped, Progressing, method="sync", result=SyncResult, slow=True):
    """Compares every file with the index and returns when all changes are searchable."""

    vectors: bool = False
    """Wait for the vectors too; not while vectors are degraded, which would be for ever."""
    accept_missing: Annotated[bool, local()] = False
    """Files that vanished all at once are meant to be gone."""


class RebuildResult(Fresh):
    """The answer of `rebuild`."""

    files: int
    chunks: int
    vectors: int
    took_ms: float


class RebuildRequest(Scoped, Progressing, method="rebuild", result=RebuildResult, slow=True, local=True):
    """Builds the text index and the vectors again from the files and the ledger."""


class DoctorResult(Fresh):
    """The answer of `doctor`."""

    ok: bool
    findings: list[dict[str, Any]]
    secrets: NotRequired[list[dict[str, Any]]]


class DoctorRequest(Request, method="doctor", result=DoctorResult, about_daemon=True, slow=True):
    """Checks the stores against each other, and repairs them when asked to."""

    file: Annotated[str, place()] = ""
    """Instead say why this file is memory, or is not; absolute or with `~`."""
    fix: bool = False
    """Repair what can be repaired."""
    secrets: bool = False
    """Also look for keys and passwords in the notes, the newest first, for 30 seconds at most."""


class JobState(TypedDict):
    """A job that runs on a schedule."""

    name: str
    schedule: str
    last: str | None
    took_ms: float
    result: str
    running: bool
    next: str | None


class JobRun(JobState):
    """A job that was run, and whether it succeeded."""

    ok: bool


class JobListResult(Fresh):
    """The answer of `job.list`."""

    jobs: list[JobState]


class JobListRequest(Request, method="job.list", result=JobListResult, reads=True, about_daemon=True):
    """Lists the scheduled jobs: when each runs, its last run and what came of it, the next."""


class JobRunResult(Fresh):
    """The answer of `job.run`."""

    job: JobRun


class JobRunRequest(Request, method="job.run", args="name", result=JobRunResult, about_daemon=True, slow=True):
    """Runs a job now and returns what came of it."""

    name: Text
    """The job, as `job.list` names it."""
